"""The automated review as it is submitted: remarks on lines of the diff, the rest in its text. Pure."""

from collections.abc import Sequence

from bot.actions import Action, LineComment, Record, SubmitReview
from bot.comments import Frame, render
from bot.escape import code, text
from bot.facts import FileChange, PullFacts
from bot.review.models import Claim, Finding, Review, ReviewRequest

MOST_LINES = 10
MOST_CLAIMS = 20


def review_request(facts: PullFacts) -> ReviewRequest:
    """Return the pull request as the review reads it; its diff is put together from the files' patches."""
    diff = "".join(file_diff(one) for one in facts.files)
    return ReviewRequest(title=facts.title, body=facts.body, diff=diff)


def file_diff(change: FileChange) -> str:
    """Return one file's unified diff; empty where GitHub gives no patch."""
    if not change.patch:
        return ""
    old = change.previous_path or change.path
    left = "/dev/null" if change.status == "added" else f"a/{old}"
    right = "/dev/null" if change.status == "removed" else f"b/{change.path}"
    return f"diff --git a/{old} b/{change.path}\n--- {left}\n+++ {right}\n{change.patch.rstrip()}\n"


def review_actions(review: Review, facts: PullFacts, frame: Frame) -> tuple[Action, ...]:
    """Return the review to submit and its record."""
    placed = [one for one in review.findings if one.path and one.line][:MOST_LINES]
    others = [one for one in review.findings if one not in placed]
    body = render(
        "review",
        "review",
        frame,
        findings=others,
        placed=len(placed),
        claims=claim_lines(review),
        finding=finding_line,
    )
    lines = tuple(line_comment(one) for one in placed)
    value = {"findings": [one.model_dump(mode="json") for one in review.findings]}
    return SubmitReview("review", body, lines), Record(
        "review", value, [c.model_dump() for c in review.claims]
    )


def line_comment(finding: Finding) -> LineComment:
    """Return a remark on a line."""
    assert finding.path is not None
    assert finding.line is not None
    return LineComment(finding.path, finding.line, remark(finding))


def remark(finding: Finding) -> str:
    """Return a finding in Markdown: what, what to do, where the rule is from."""
    return (
        f"**{finding.severity}** {text(finding.says, 1_000)}\n\n{text(finding.do, 1_000)}\n\n"
        f"<sub>{code(finding.rule)} · {text(finding.source)}</sub>"
    )


def finding_line(finding: Finding) -> str:
    """Return a finding as one list item."""
    where = f" in {code(finding.path)}" if finding.path else ""
    says = f"{text(finding.says, 1_000)} {text(finding.do, 1_000)}"
    return f"**{finding.severity}**{where}: {says} ({code(finding.rule)})"


def claim_lines(review: Review) -> list[str]:
    """Return the claims that the description's own tables confirm or contradict, as list items."""
    return [line for claim in distinct(review.claims) if (line := claim_line(claim))][:MOST_CLAIMS]


def distinct(claims: Sequence[Claim]) -> list[Claim]:
    """Return each claim once."""
    return list(dict.fromkeys(claims))


def claim_line(claim: Claim) -> str:
    """Return one claim that could be recomputed; empty for any other."""
    if claim.confirmed is None:
        return ""
    verdict = "follows from" if claim.confirmed else "does not follow from"
    return f"- {code(claim.text, 200)} {verdict} the description's own tables"
