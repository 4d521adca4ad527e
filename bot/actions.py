"""What a decision may ask for: frozen values that `bot.apply` carries out, each of them idempotent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

CheckStatus = Literal["queued", "in_progress", "completed"]
CheckConclusion = Literal["success", "failure", "neutral"]


class Mode(StrEnum):
    """How loud prgate may be: `shadow` fills the dashboard only, only `gate` may fail a check."""

    SHADOW = "shadow"
    COMMENT = "comment"
    GATE = "gate"


@dataclass(frozen=True, slots=True)
class Target:
    """The head of a pull request that the actions are about; a head that moved drops them."""

    repo_id: int
    full_name: str
    number: int
    head_sha: str
    installation_id: int | None = None
    mode: Mode = Mode.COMMENT


@dataclass(frozen=True, slots=True)
class UpsertComment:
    """Keep one comment of `marker` equal to `body`; with `only_edit` a missing one is not created."""

    marker: str
    body: str
    only_edit: bool = False


@dataclass(frozen=True, slots=True)
class React:
    """Add a reaction (`eyes` = seen) to an issue comment; `review_comment` says it is one on the diff."""

    comment_id: int
    content: Literal["eyes", "+1", "confused", "rocket"] = "eyes"
    review_comment: bool = False


@dataclass(frozen=True, slots=True)
class SetCheck:
    """Keep the check run (plain account: the commit status) of `name` on the head as said here."""

    name: str
    external_id: str
    status: CheckStatus
    conclusion: CheckConclusion | None
    title: str
    summary: str
    details_url: str | None = None


@dataclass(frozen=True, slots=True)
class RequestReview:
    """Ask these people for a review; those already asked are not asked again."""

    logins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WithdrawReview:
    """Take back the review requests of these people."""

    logins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetLabels:
    """Add and remove labels; only the difference is written."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LineComment:
    """A remark on a line of the head's side of the diff."""

    path: str
    line: int
    body: str


@dataclass(frozen=True, slots=True)
class SubmitReview:
    """Submit one review (event COMMENT) of `marker` for this head, once."""

    marker: str
    body: str
    line_comments: tuple[LineComment, ...] = ()


@dataclass(frozen=True, slots=True)
class EnqueueRun:
    """Queue a run of the lane; `dedupe_key` lets one such run wait or run at a time.

    `spec` is what the runner is told (arms, cases, budget), as JSON. The blocks of `resume_of` are taken
    over, so that the gate goes on where that run ended. A run of a given `run_id` is queued once for ever.
    """

    kind: Literal["experiment", "tests", "bisect"]
    queue: str
    base_sha: str
    spec: Mapping[str, Any]
    requested_by: str
    dedupe_key: str
    resume_of: str | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class RetryJob:
    """Ask a CI provider to run one job of this head again, once; the answer is kept as the decision `retry`.

    `source` is Buildkite's `organisation/pipeline`, `build` the build or workflow run, `by` who asked, in the
    comment `comment_id`.
    """

    provider: Literal["buildkite", "github_actions"]
    source: str
    build: str
    job_id: str
    name: str
    by: str
    comment_id: int


@dataclass(frozen=True, slots=True)
class UpsertIssue:
    """Keep one issue of ours of `marker` as said here; `number` is where it was last seen.

    Without `create` a missing one is not opened. `state` None leaves it as people put it. `comment` is one
    comment below it, kept up to date in its turn.
    """

    marker: str
    title: str
    body: str
    labels: tuple[str, ...] = ()
    number: int | None = None
    create: bool = True
    state: Literal["open", "closed"] | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class KeepEpisode:
    """Write columns of a stored episode of nights; `key` is what it is known by."""

    key: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CancelRuns:
    """Cancel queued and running runs of the pull request; `keep_head` spares those of this head."""

    reason: str
    keep_head: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Append a decision; equal to the latest of its kind and head, nothing is added."""

    kind: str
    value: Mapping[str, Any]
    evidence: Any = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SetOverride:
    """Store a maintainer's verdict on a red job (`@bot unrelated JOB because …`)."""

    job: str
    verdict: Literal["unrelated", "regression"]
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """Queue one more look; `number` None means this pull request, `not_before` None means now."""

    verb: str
    number: int | None = None
    subject: str = ""
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Redeliver:
    """Ask GitHub to send these of the App's deliveries again."""

    delivery_ids: tuple[int, ...]


Action = (
    UpsertComment
    | React
    | SetCheck
    | RequestReview
    | WithdrawReview
    | SetLabels
    | SubmitReview
    | EnqueueRun
    | RetryJob
    | UpsertIssue
    | KeepEpisode
    | CancelRuns
    | Record
    | SetOverride
    | Schedule
    | Redeliver
)
