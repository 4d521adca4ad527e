"""What the stand-in Buildkite remembers: builds and their jobs. Names and states are Buildkite's own."""

from dataclasses import dataclass, field
from datetime import datetime

RED = frozenset({"failed", "timed_out", "expired"})
OPEN = frozenset({"scheduled", "assigned", "running", "waiting", "limited"})


@dataclass
class Job:
    """One job. `log` None: Buildkite has none (any more). `retried`: a later job took its place.

    `artifacts` holds its files by path; they are downloaded from another address, as Buildkite's are.
    """

    id: str
    name: str
    state: str
    started_at: datetime | None
    finished_at: datetime | None
    log: str | None
    step_key: str | None = None
    type: str = "script"
    exit_status: int | None = None
    agent: str = "agent-1"
    soft_failed: bool = False
    retried: bool = False
    retried_in: str | None = None
    retries: int = 0
    parallel_index: int | None = None
    artifacts: dict[str, bytes] = field(default_factory=dict)


@dataclass
class Build:
    """One build of a pipeline on a commit. `pull` None: no pull request's."""

    pipeline: str
    number: int
    commit: str
    branch: str
    pull: int | None
    created_at: datetime
    jobs: list[Job] = field(default_factory=list)
    blocked: bool = False
    message: str = ""

    @property
    def state(self) -> str:
        """Return the build's state out of its jobs'."""
        counted = [job for job in self.jobs if not job.retried and not job.soft_failed]
        if any(job.state in OPEN for job in counted):
            return "running"
        if any(job.state in RED for job in counted):
            return "failed"
        return "canceled" if any(job.state == "canceled" for job in counted) else "passed"

    @property
    def finished_at(self) -> datetime | None:
        """Return when its last job ended; None while one runs."""
        if self.state == "running":
            return None
        return max((job.finished_at for job in self.jobs if job.finished_at), default=self.created_at)
