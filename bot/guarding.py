"""What stands between a worker and a write: the installation's pace, and the lease of the job in hand.

A worker that was frozen past its lease must not write any more, for another one may be at the same job. It
is stopped by the database's clock before each write, and by a steady one just before the bytes are sent; what
it would keep in the database is refused in the same transaction.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy.orm import Session

from bot import jobs
from bot.db.engine import Sessions
from bot.dispatch import LeaseLost
from bot.pacing import Limits, hold, take_turn
from bot.settings import Settings

# Left for the answer's way back: a write that could not begin before this much of the lease is not sent.
MARGIN_S = 0.2
UNBOUNDED_S = 3600.0


@dataclass(frozen=True, slots=True)
class Lease:
    """A claimed job, as those see it who act in its name."""

    sessions: Sessions
    claim: jobs.Claim

    def left_s(self) -> float:
        """Return how long the job is still ours. LeaseLost where it is not, or as good as not."""
        left = jobs.left_s(self.sessions, self.claim) - MARGIN_S
        if left <= 0:
            raise LeaseLost(f"the lease of job {self.claim.job_id} ran out")
        return left

    def lock(self, session: Session) -> None:
        """Keep the job ours until the transaction ends. LeaseLost where another worker has it."""
        if not jobs.lock(session, self.claim):
            raise LeaseLost(f"job {self.claim.job_id} is another worker's")


@dataclass(frozen=True, slots=True)
class WriteGuard:
    """Paces the writes of an installation, and stops those of a worker whose lease ran out."""

    sessions: Sessions
    installation_id: int
    limits: Limits
    lease: Lease | None = None

    def before_write(self) -> float:
        """Wait for the next turn; return for how many seconds a write may be sent.

        RetryLater where the turn is far away, LeaseLost where the job is another worker's by now.
        """
        take_turn(self.sessions, self.installation_id, self.limits)
        return self.lease.left_s() if self.lease else UNBOUNDED_S

    def limited(self, until: datetime) -> None:
        """Let no worker write for this installation before `until`: GitHub asked to wait."""
        hold(self.sessions, self.installation_id, (until - datetime.now(UTC)).total_seconds())


def limits_of(settings: Settings) -> Limits:
    """Return the server's limits on writes."""
    return Limits(
        settings.github_write_gap_s, settings.github_writes_a_minute, settings.github_writes_an_hour
    )
