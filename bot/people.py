"""What people did on a pull request: approvals, self-reviews, claims. Pure, over what was read."""

import re
from collections.abc import Callable, Sequence

from bot.facts import CommentView, PullFacts
from bot.markdown import own_words, prose_lines, quotes_from

LGTM = re.compile(r"^\W{0,4}(?:lgtm|looks good to me)\b", re.IGNORECASE)
SELF_REVIEW = re.compile(
    r"\bself[\s-]?review|\breviewed my\b|\bmy own (?:changes|diff)\b"
    r"|\bI(?:'ve| have)? (?:re-?)?(?:checked|reviewed|verified|read|walked)\b",
    re.IGNORECASE,
)
UNRELATED = re.compile(
    r"\b(?:unrelated|not (?:related|caused|this (?:pr|pull request|change))|pre-?existing)\b", re.IGNORECASE
)
LEAST_WORDS = 8
DECIDING = frozenset({"APPROVED", "CHANGES_REQUESTED", "DISMISSED"})


def approvals(facts: PullFacts, may_write: Callable[[str], bool]) -> tuple[str, ...]:
    """Return who approves now: the last review of each, or an LGTM comment, by someone with write."""
    standing = {
        review.author: review.state == "APPROVED" for review in facts.reviews if review.state in DECIDING
    }
    reviewers = [login for login, good in standing.items() if good]
    said = [
        comment.author for comment in facts.comments if is_lgtm(comment) and comment.author not in standing
    ]
    others = [login for login in dict.fromkeys([*reviewers, *said]) if login != facts.author]
    return tuple(login for login in others if may_write(login))


def is_lgtm(comment: CommentView) -> bool:
    """Say whether a comment opens with an LGTM in its author's own words."""
    lines = prose_lines(comment.body)
    return not comment.ours and bool(lines) and LGTM.match(lines[0].strip()) is not None


def self_review(facts: PullFacts) -> CommentView | None:
    """Return the author's first self-review: enough words of their own, and an answer to the invitation.

    It answers when it says so, or when it repeats the invitation above the author's own words. Pasted bot
    text alone is none.
    """
    ours = [comment.body for comment in facts.comments if comment.ours]
    theirs = [comment for comment in facts.comments if comment.author == facts.author]
    return next((comment for comment in theirs if is_self_review(comment, ours)), None)


def is_self_review(comment: CommentView, ours: Sequence[str]) -> bool:
    """Say whether one comment of the author is a self-review."""
    if own_words(comment.body, ours) < LEAST_WORDS:
        return False
    invitations = [body for body in ours if body.startswith("<!-- prgate:route -->")]
    answers = any(quotes_from(comment.body, body) for body in invitations)
    own = [line for line in prose_lines(comment.body) if own_words(line, ours)]
    return answers or any(SELF_REVIEW.search(line[:500]) for line in own)


def claims_unrelated(facts: PullFacts) -> str | None:
    """Return the author's login where they say that a red check is not theirs: a claim, never evidence."""
    ours = [comment.body for comment in facts.comments if comment.ours]
    for comment in facts.comments:
        if comment.author != facts.author:
            continue
        own = [line for line in prose_lines(comment.body) if own_words(line, ours)]
        if any(UNRELATED.search(line[:2_000]) for line in own):
            return comment.author
    return None
