"""How flaky a test is: on how many of the commits that ran it did it both pass and fail."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from bot.ci.failures import test_key
from bot.ci.memory import portions
from bot.ci.readings import unpack
from bot.db.models import CiJob, Outcome


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a test on a commit."""

    sha: str
    failed: bool


@dataclass(frozen=True, slots=True)
class FlakeRate:
    """`flickers` of `commits` both passed and failed; `failing` only failed; no commit, no `rate`."""

    flickers: int
    failing: int
    commits: int

    @property
    def rate(self) -> float | None:
        """Return the share of commits on which the test flickered, 0 to 1; show it with `commits`."""
        return self.flickers / self.commits if self.commits else None


def flake_rate(attempts: Iterable[Attempt]) -> FlakeRate:
    """Return how flaky a test is by its attempts."""
    ended: dict[str, set[bool]] = {}
    for one in attempts:
        ended.setdefault(one.sha, set()).add(one.failed)
    return FlakeRate(
        flickers=sum(len(ways) == 2 for ways in ended.values()),
        failing=sum(ways == {True} for ways in ended.values()),
        commits=len(ended),
    )


def attempts_of(session: Session, repo_id: int, test: str, since: datetime) -> list[Attempt]:
    """Return a test's attempts since a time, out of the jobs in which it failed at least once since then.

    In a green job it passed; in a red one it did where the log or the report names it among the passed.
    """
    mine = (Outcome.repo_id == repo_id, Outcome.test == test, Outcome.at >= since)
    failed = {
        row.job_key: row.job for row in session.execute(select(Outcome.job_key, Outcome.job).where(*mine))
    }
    found = []
    for names in portions(sorted(set(failed.values()))):
        asked = select(CiJob.key, CiJob.sha, CiJob.conclusion, CiJob.reading).where(
            CiJob.repo_id == repo_id, CiJob.name.in_(names), CiJob.at >= since
        )
        for key, sha, conclusion, reading in session.execute(asked):
            if key in failed:
                found.append(Attempt(sha, failed=True))
            elif conclusion == "passed" or passed_in(test, reading):
                found.append(Attempt(sha, failed=False))
    return found


def passed_in(test: str, packed: bytes | None) -> bool:
    """Say whether a kept reading names a test among the passed."""
    reading = unpack(packed) if packed else None
    return reading is not None and test_key(test) in reading.passed
