"""The pull request as routing and priority see it. Pure."""

from collections.abc import Sequence
from typing import Literal

from bot.facts import waiting_on
from bot.gathering import Look
from routing.models import ChangedFile, Level, LinkedIssue, PullRequest
from routing.priority import priority_label

CiState = Literal["red", "green", "pending"]


def routing_pull(look: Look, approved_by: Sequence[str] = (), ci: CiState | None = None) -> PullRequest:
    """Return the pull request in routing's own form."""
    facts = look.facts
    asked = [name.removeprefix("team:") for name in facts.requested_reviewers]
    passed = look.memory.get("skip", {}).get("logins", ())
    before = look.memory.get("route", {}).get("ask", ())
    return PullRequest(
        number=facts.target.number,
        author=facts.author,
        title=facts.title,
        body=facts.body,
        draft=facts.draft,
        labels=people_labels(look),
        created_at=facts.created_at,
        updated_at=facts.updated_at,
        commits=facts.commits,
        mergeable=facts.mergeable,
        author_association=facts.author_association,
        changed_files=tuple(
            ChangedFile(
                path=one.path,
                previous_path=one.previous_path,
                status=one.status,
                additions=one.additions,
                deletions=one.deletions,
            )
            for one in facts.files
        ),
        linked_issues=tuple(
            LinkedIssue(number=one.number, title=one.title, labels=one.labels) for one in facts.linked_issues
        ),
        ci=ci,
        already_requested=tuple(dict.fromkeys([*asked, *(name for name in before if name not in passed)])),
        already_reviewed=tuple(dict.fromkeys(review.author for review in facts.reviews)),
        approved_by=tuple(approved_by),
        passed_over=tuple(passed),
        base=facts.base_ref,
        waiting_on=waiting_on(facts),
    )


def people_labels(look: Look) -> tuple[str, ...]:
    """Return the labels that people set: those that we keep in sync would confirm themselves."""
    if not look.config.priority.sync_labels:
        return look.facts.labels
    ours = {priority_label(level).casefold() for level in Level}
    return tuple(label for label in look.facts.labels if label.casefold() not in ours)
