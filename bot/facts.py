"""What the handlers' decisions have in common: one pull request as it stands now, read once."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from bot.actions import Target


@dataclass(frozen=True, slots=True)
class FileChange:
    """One changed file; `patch` is None where GitHub gives none (binary, or too large)."""

    path: str
    status: str
    additions: int = 0
    deletions: int = 0
    previous_path: str | None = None
    patch: str | None = None


@dataclass(frozen=True, slots=True)
class IssueLink:
    """An issue that the description closes or mentions, with its labels."""

    number: int
    title: str
    labels: tuple[str, ...] = ()
    open: bool = True


@dataclass(frozen=True, slots=True)
class CommentView:
    """A comment on the pull request; `ours` means that this bot wrote it."""

    comment_id: int
    author: str
    body: str
    created_at: datetime
    association: str = "NONE"
    ours: bool = False
    url: str | None = None


@dataclass(frozen=True, slots=True)
class ReviewView:
    """A submitted review; `state` is GitHub's word (`APPROVED`, `CHANGES_REQUESTED`, `COMMENTED` …)."""

    author: str
    state: str
    commit_sha: str | None
    submitted_at: datetime | None
    body: str = ""


@dataclass(frozen=True, slots=True)
class PullFacts:
    """A pull request, its files, and what people did on it. `files_complete` False: GitHub cut the list."""

    target: Target
    title: str
    body: str
    author: str
    author_association: str
    state: Literal["open", "closed"]
    merged: bool
    draft: bool
    labels: tuple[str, ...]
    base_ref: str
    base_sha: str
    created_at: datetime
    updated_at: datetime
    commits: int
    mergeable: bool | None
    files: tuple[FileChange, ...]
    files_complete: bool = True
    linked_issues: tuple[IssueLink, ...] = ()
    requested_reviewers: tuple[str, ...] = ()
    reviews: tuple[ReviewView, ...] = ()
    comments: tuple[CommentView, ...] = ()
    bot_login: str = ""
    handles: tuple[str, ...] = field(default=())


def waiting_on(facts: PullFacts) -> Literal["author", "reviewers"] | None:
    """Return whose turn it is: the author's after a review asked for changes and nothing came since."""
    asks = [one for one in facts.reviews if one.state == "CHANGES_REQUESTED" and one.submitted_at is not None]
    if asks:
        last = max(one.submitted_at for one in asks if one.submitted_at is not None)
        on_this_head = any(one.commit_sha == facts.target.head_sha for one in asks)
        answered = any(one.author == facts.author and one.created_at > last for one in facts.comments)
        return "author" if on_this_head and not answered else "reviewers"
    return "reviewers" if facts.requested_reviewers else None
