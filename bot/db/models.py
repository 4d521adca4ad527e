"""Every table. Rows are keyed by GitHub's numeric ids (names change); times are aware UTC."""

from datetime import date, datetime
from enum import StrEnum
from typing import Any, ClassVar

from sqlalchemy import Date, Enum, Index, LargeBinary, MetaData
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from bot.db.types import BigId, SafeJson, SafeString, SafeText, UtcDateTime


class DeliveryState(StrEnum):
    """Whether all that a delivery asked for is done; `failed`: one of its jobs died."""

    RECEIVED = "received"
    DONE = "done"
    FAILED = "failed"


class JobState(StrEnum):
    """The life of a job: `dead` after its last attempt, until someone replays it."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"


class RunState(StrEnum):
    """The life of a run of the runner lane; `failed` means that it could not measure."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELED = "canceled"


def words(kind: type[StrEnum]) -> Enum:
    """Return a text column type that holds the values of `kind`."""
    return Enum(
        kind, native_enum=False, length=16, values_callable=lambda members: [item.value for item in members]
    )


NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """What all tables share: types by annotation, predictable names of indexes for migrations."""

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        date: Date(),
        datetime: UtcDateTime(),
        str: SafeText(),
        dict[str, Any]: SafeJson(),
        list[Any]: SafeJson(),
        DeliveryState: words(DeliveryState),
        JobState: words(JobState),
        RunState: words(RunState),
    }


class Repository(Base):
    """A repository that the bot is installed on; `removed_at` is set when the App leaves it."""

    __tablename__ = "repository"

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    full_name: Mapped[str] = mapped_column(SafeString(255), index=True)
    installation_id: Mapped[int | None] = mapped_column(BigId)
    default_branch: Mapped[str] = mapped_column(default="main")
    private: Mapped[bool] = mapped_column(default=False)
    removed_at: Mapped[datetime | None]


class Pull(Base):
    """A pull request as it was last read: a view for the queue page, never the ground of a decision.

    `turn` is whose turn reviews make it (`author`, `reviewers` or empty). `level`, `score`, `ci`, `perf` and
    `perf_pct` repeat the latest decisions (`bot.standing`); the last three are of the present head.
    """

    __tablename__ = "pull"
    __table_args__ = (Index("ix_pull_state_score_created_at", "state", "score", "created_at"),)

    repo_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    title: Mapped[str]
    author: Mapped[str]
    state: Mapped[str] = mapped_column(SafeString(16), index=True)
    draft: Mapped[bool] = mapped_column(default=False)
    head_sha: Mapped[str] = mapped_column(SafeString(64), index=True)
    base_sha: Mapped[str] = mapped_column(SafeString(64))
    base_ref: Mapped[str]
    labels: Mapped[list[Any]] = mapped_column(default=list)
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    opened_by_association: Mapped[str] = mapped_column(default="NONE")
    mode: Mapped[str] = mapped_column(SafeString(16), default="comment")
    turn: Mapped[str] = mapped_column(SafeString(16), default="")
    level: Mapped[str] = mapped_column(SafeString(16), default="")
    score: Mapped[int] = mapped_column(default=0)
    ci: Mapped[str] = mapped_column(SafeString(16), default="")
    perf: Mapped[str] = mapped_column(SafeString(32), default="")
    perf_pct: Mapped[float | None]


class Delivery(Base):
    """A verified webhook delivery, keyed by its sender's delivery id; `payload` is zlib-compressed JSON."""

    __tablename__ = "delivery"

    guid: Mapped[str] = mapped_column(SafeString(100), primary_key=True)
    event: Mapped[str] = mapped_column(SafeString(64))
    action: Mapped[str] = mapped_column(SafeString(64), default="")
    repo_id: Mapped[int | None] = mapped_column(BigId)
    number: Mapped[int | None]
    received_at: Mapped[datetime] = mapped_column(index=True)
    payload: Mapped[bytes | None] = mapped_column(LargeBinary)
    state: Mapped[DeliveryState] = mapped_column(index=True)


class Job(Base):
    """One unit of the bot's own work, claimed under a lease.

    `coalesce_key` is what the job is about; `dedupe_key` holds it while no second such job may wait: until
    the claim, or (commands) for ever. `sent_at` is when a worker was last told of it.
    """

    __tablename__ = "job"
    __table_args__ = (
        Index("ix_job_state_sent_at_not_before", "state", "sent_at", "not_before"),
        Index("ix_job_repo_id_number_state", "repo_id", "number", "state"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    delivery_guid: Mapped[str | None] = mapped_column(SafeString(100), index=True)
    verb: Mapped[str] = mapped_column(SafeString(32))
    repo_id: Mapped[int] = mapped_column(BigId)
    number: Mapped[int | None]
    subject: Mapped[str] = mapped_column(default="")
    coalesce_key: Mapped[str | None] = mapped_column(SafeString(400))
    dedupe_key: Mapped[str | None] = mapped_column(SafeString(400), unique=True)
    state: Mapped[JobState] = mapped_column(default=JobState.QUEUED)
    attempts: Mapped[int] = mapped_column(default=0)
    not_before: Mapped[datetime | None]
    lease_owner: Mapped[str | None] = mapped_column(SafeString(100))
    lease_until: Mapped[datetime | None]
    sent_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(index=True)
    finished_at: Mapped[datetime | None]
    error: Mapped[str | None]


class WriterLease(Base):
    """Who may write about a pull request now: one writer at a time, taken together with the job's claim."""

    __tablename__ = "writer_lease"

    repo_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    owner: Mapped[str] = mapped_column(SafeString(100))
    until: Mapped[datetime]


class Decision(Base):
    """A decision, append-only: `kind` is route, priority, ci, perf, review, self_review …"""

    __tablename__ = "decision"
    __table_args__ = (
        Index("ix_decision_repo_id_number_kind_id", "repo_id", "number", "kind", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    repo_id: Mapped[int] = mapped_column(BigId)
    number: Mapped[int]
    kind: Mapped[str] = mapped_column(SafeString(32))
    head_sha: Mapped[str] = mapped_column(SafeString(64))
    decided_at: Mapped[datetime] = mapped_column(index=True)
    facts_hash: Mapped[str] = mapped_column(SafeString(64), default="")
    value: Mapped[dict[str, Any]]
    evidence: Mapped[list[Any]] = mapped_column(default=list)


class Event(Base):
    """Something that a live page may show; readers ask for what came after the id they saw last."""

    __tablename__ = "event"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012 - SQLAlchemy's own attribute

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    at: Mapped[datetime] = mapped_column(index=True)
    kind: Mapped[str] = mapped_column(SafeString(32))
    repo_id: Mapped[int | None] = mapped_column(BigId)
    number: Mapped[int | None]
    data: Mapped[dict[str, Any]] = mapped_column(default=dict)


class Comment(Base):
    """A comment we keep up to date, so that an unchanged one costs no read."""

    __tablename__ = "comment"

    repo_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    marker: Mapped[str] = mapped_column(SafeString(100), primary_key=True)
    comment_id: Mapped[int] = mapped_column(BigId)
    body_hash: Mapped[str] = mapped_column(SafeString(64))
    head_sha: Mapped[str] = mapped_column(SafeString(64))
    updated_at: Mapped[datetime]


class Run(Base):
    """One run of the runner lane: what it shall do, who has it, what came back (untrusted data).

    `spec` holds fields of `perf_runner.protocol.RunSpec`, `result` is that module's `Report` as JSON,
    `progress` its newest `Progress`. `attempt` counts claims, `failures` those of which the worker vanished.
    """

    __tablename__ = "run"
    __table_args__ = (
        Index("ix_run_state_queue_requested_at", "state", "queue", "requested_at"),
        Index("ix_run_repo_id_number_requested_at", "repo_id", "number", "requested_at"),
        Index("ix_run_requested_at", "requested_at"),
    )

    id: Mapped[str] = mapped_column(SafeString(36), primary_key=True)
    repo_id: Mapped[int] = mapped_column(BigId)
    number: Mapped[int]
    head_sha: Mapped[str] = mapped_column(SafeString(64))
    base_sha: Mapped[str] = mapped_column(SafeString(64))
    kind: Mapped[str] = mapped_column(SafeString(32))
    queue: Mapped[str] = mapped_column(SafeString(80))
    spec: Mapped[dict[str, Any]]
    state: Mapped[RunState] = mapped_column(default=RunState.QUEUED)
    attempt: Mapped[int] = mapped_column(default=0)
    failures: Mapped[int] = mapped_column(default=0)
    requested_by: Mapped[str] = mapped_column(default="")
    requested_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    not_before: Mapped[datetime | None]
    lease_owner: Mapped[str | None] = mapped_column(SafeString(200))
    lease_until: Mapped[datetime | None]
    sent_at: Mapped[datetime | None]
    cancel_asked: Mapped[bool] = mapped_column(default=False)
    progress: Mapped[dict[str, Any]] = mapped_column(default=dict)
    result: Mapped[dict[str, Any] | None]
    machine: Mapped[dict[str, Any] | None]
    error: Mapped[str | None]
    finished_at: Mapped[datetime | None]
    dedupe_key: Mapped[str | None] = mapped_column(SafeString(400), unique=True)


class RunBlock(Base):
    """One measured block of a run, kept as it came in: the gate is replayed from these."""

    __tablename__ = "run_block"

    run_id: Mapped[str] = mapped_column(SafeString(36), primary_key=True)
    case: Mapped[str] = mapped_column(SafeString(200), primary_key=True)
    n: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    data: Mapped[dict[str, Any]]


class Log(Base):
    """A CI log by the hash of its content, zlib-compressed."""

    __tablename__ = "log"

    hash: Mapped[str] = mapped_column(SafeString(64), primary_key=True)
    data: Mapped[bytes] = mapped_column(LargeBinary)
    stored_at: Mapped[datetime] = mapped_column(index=True)


class CiJob(Base):
    """One attempt of one CI job as it was seen, and what its log said, so that nobody has to read it again.

    `key` is the snapshot job's; `at` is when its build was created; `red` says that its failures need
    a verdict; `data` holds the snapshot's job without log and report; `reading` is `bot.ci.readings`' form of
    what failed (None: not read, or nothing did).
    """

    __tablename__ = "ci_job"
    __table_args__ = (
        Index("uq_ci_job_repo_id_key", "repo_id", "key", unique=True),
        Index("ix_ci_job_repo_id_branch_for_pull_at_sha", "repo_id", "branch", "for_pull", "at", "sha"),
        Index("ix_ci_job_repo_id_for_pull_red_at", "repo_id", "for_pull", "red", "at"),
        Index("ix_ci_job_repo_id_sha_name", "repo_id", "sha", "name"),
        Index("ix_ci_job_repo_id_name_at", "repo_id", "name", "at"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    repo_id: Mapped[int] = mapped_column(BigId)
    key: Mapped[str] = mapped_column(SafeString(64))
    provider: Mapped[str] = mapped_column(SafeString(32))
    build: Mapped[str] = mapped_column(SafeString(200), default="")
    source: Mapped[str] = mapped_column(SafeString(400), default="")
    name: Mapped[str] = mapped_column(SafeString(400))
    slot: Mapped[int] = mapped_column(default=0)
    replaced: Mapped[bool] = mapped_column(default=False)
    sha: Mapped[str] = mapped_column(SafeString(64))
    branch: Mapped[str] = mapped_column(SafeString(250), default="")
    for_pull: Mapped[bool] = mapped_column(default=False)
    number: Mapped[int | None]
    conclusion: Mapped[str] = mapped_column(SafeString(32))
    red: Mapped[bool] = mapped_column(default=False)
    seconds: Mapped[float | None]
    at: Mapped[datetime] = mapped_column(index=True)
    committed_at: Mapped[datetime | None]
    data: Mapped[dict[str, Any]] = mapped_column(default=dict)
    reading: Mapped[bytes | None] = mapped_column(LargeBinary)


class Outcome(Base):
    """One signature met in one job attempt (`job_key`), once however often it stands there.

    `signature` is `bot.ci.memory.signature_key`'s; `number` is the pull request that ran it, `on_main` says
    that the default branch did.
    """

    __tablename__ = "outcome"
    __table_args__ = (
        Index("uq_outcome_repo_id_job_key_signature", "repo_id", "job_key", "signature", unique=True),
        Index("ix_outcome_repo_id_signature_at", "repo_id", "signature", "at"),
        Index("ix_outcome_repo_id_test_at", "repo_id", "test", "at"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    repo_id: Mapped[int] = mapped_column(BigId)
    job_key: Mapped[str] = mapped_column(SafeString(64))
    signature: Mapped[str] = mapped_column(SafeString(64))
    test: Mapped[str | None] = mapped_column(SafeString(500))
    job: Mapped[str] = mapped_column(SafeString(400))
    sha: Mapped[str] = mapped_column(SafeString(64))
    branch: Mapped[str] = mapped_column(SafeString(250), default="")
    number: Mapped[int | None]
    on_main: Mapped[bool] = mapped_column(default=False)
    at: Mapped[datetime] = mapped_column(index=True)


class Signature(Base):
    """One failure a repository knows, rolled up over its outcomes: what the red board lists.

    `job` is the job that showed it last, `message` a sample. `times` counts job attempts, `times_on_main`
    those of the default branch; `passes` counts passes of `job` since `first_at` that are known of.
    """

    __tablename__ = "signature"
    __table_args__ = (
        Index("ix_signature_repo_id_last_at", "repo_id", "last_at"),
        Index("ix_signature_repo_id_job", "repo_id", "job"),
    )

    repo_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    key: Mapped[str] = mapped_column(SafeString(64), primary_key=True)
    test: Mapped[str | None] = mapped_column(SafeString(500))
    job: Mapped[str] = mapped_column(SafeString(400))
    exception: Mapped[str | None] = mapped_column(SafeString(200))
    message: Mapped[str] = mapped_column(SafeString(300), default="")
    first_at: Mapped[datetime]
    last_at: Mapped[datetime]
    times: Mapped[int] = mapped_column(default=0)
    times_on_main: Mapped[int] = mapped_column(default=0)
    pulls: Mapped[int] = mapped_column(default=0)
    commits: Mapped[int] = mapped_column(default=0)
    last_main_sha: Mapped[str | None] = mapped_column(SafeString(64))
    last_main_at: Mapped[datetime | None]
    passes: Mapped[int] = mapped_column(default=0)


class CiCoverage(Base):
    """From when to when builds of a `scope` (a pipeline's branch, or its pull requests) were all read."""

    __tablename__ = "ci_coverage"

    repo_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    scope: Mapped[str] = mapped_column(SafeString(400), primary_key=True)
    start_at: Mapped[datetime]
    end_at: Mapped[datetime]


class Permission(Base):
    """A person's permission on a repository as GitHub last said, good until `until`."""

    __tablename__ = "permission"

    repo_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    login: Mapped[str] = mapped_column(SafeString(100), primary_key=True)
    level: Mapped[str] = mapped_column(SafeString(16))
    until: Mapped[datetime]


class Pace(Base):
    """How much an installation wrote lately (0 stands for a plain account): its share of GitHub's limits.

    `recent` holds the times of its writes of the last hour, `held_until` until when GitHub asked to wait.
    """

    __tablename__ = "pace"

    installation_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    recent: Mapped[list[Any]] = mapped_column(default=list)
    held_until: Mapped[datetime | None]


class SweepLease(Base):
    """Who does a regular chore now, and when it was done last."""

    __tablename__ = "sweep_lease"

    name: Mapped[str] = mapped_column(SafeString(64), primary_key=True)
    owner: Mapped[str] = mapped_column(SafeString(100))
    until: Mapped[datetime]
    done_at: Mapped[datetime | None]


class Override(Base):
    """A maintainer's word on a red job; the latest counts."""

    __tablename__ = "override"
    __table_args__ = (
        Index("ix_override_repo_id_number", "repo_id", "number"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    repo_id: Mapped[int] = mapped_column(BigId)
    number: Mapped[int]
    job: Mapped[str]
    verdict: Mapped[str] = mapped_column(SafeString(16))
    by: Mapped[str] = mapped_column(SafeString(100))
    reason: Mapped[str] = mapped_column(default="")
    at: Mapped[datetime]
