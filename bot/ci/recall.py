"""Reads what was kept of CI: commits of a branch with their jobs, red jobs of pull requests, job records.

Only rows that a verdict can use are read, so that its cost follows the head and not the length of the past.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, func, or_, select
from sqlalchemy.orm import Session

from bot.ci.failures import Reading
from bot.ci.memory import STEP, portions
from bot.ci.providers.reads import Sighting, Window
from bot.ci.readings import unpack
from bot.ci.sightings import record_of
from bot.ci.snapshot import Job, JobHistory
from bot.db.models import CiJob

MOST_PULL_JOBS = 5_000
MOST_RECORDS = 100_000
COLUMNS = (
    CiJob.key,
    CiJob.data,
    CiJob.source,
    CiJob.slot,
    CiJob.replaced,
    CiJob.sha,
    CiJob.branch,
    CiJob.for_pull,
    CiJob.number,
    CiJob.at,
)


@dataclass(frozen=True)
class Past:
    """One repository's kept CI."""

    session: Session
    repo_id: int

    def commits(self, branch: str, window: Window, most: int) -> list[str]:
        """Return the commits of a branch that were built in a window, the last built first."""
        newest = func.max(CiJob.at)
        asked = (
            select(CiJob.sha)
            .where(*self._branch(branch), CiJob.at.between(window.start, window.end))
            .group_by(CiJob.sha)
            .order_by(newest.desc(), CiJob.sha)
            .limit(most)
        )
        return list(self.session.scalars(asked))

    def of_commits(self, branch: str, shas: Collection[str], names: Collection[str]) -> list[Sighting]:
        """Return the branch's red jobs on some commits, and its jobs of some names, newest build first."""
        found: list[Sighting] = []
        wanted = or_(CiJob.red, CiJob.name.in_(list(names)[:STEP]))
        for part in portions(shas, 100):
            asked = select(*COLUMNS).where(*self._branch(branch), CiJob.sha.in_(part), wanted)
            found += self._sightings(asked)
        return found

    def committed_at(self, shas: Iterable[str]) -> dict[str, datetime]:
        """Return when commits were made, as far as it is known."""
        found: dict[str, datetime] = {}
        for part in portions(shas):
            asked = select(CiJob.sha, func.max(CiJob.committed_at)).where(
                CiJob.repo_id == self.repo_id, CiJob.sha.in_(part), CiJob.committed_at.is_not(None)
            )
            rows = self.session.execute(asked.group_by(CiJob.sha))
            found |= {sha: at for sha, at in rows if at is not None}
        return found

    def red_pulls(self, window: Window) -> list[Sighting]:
        """Return the red jobs of pull requests in a window, newest build first."""
        asked = select(*COLUMNS).where(
            CiJob.repo_id == self.repo_id,
            CiJob.for_pull,
            CiJob.red,
            CiJob.at.between(window.start, window.end),
        )
        return self._sightings(asked.limit(MOST_PULL_JOBS))

    def unread(self, window: Window, most: int) -> list[Sighting]:
        """Return red jobs in a window whose logs nobody read yet, newest build first."""
        asked = select(*COLUMNS).where(
            CiJob.repo_id == self.repo_id,
            CiJob.red,
            CiJob.reading.is_(None),
            CiJob.at.between(window.start, window.end),
        )
        return self._sightings(asked.limit(most))

    def readings(self, jobs: Iterable[Job]) -> dict[str, Reading]:
        """Return what the logs of jobs said, by job key, where that is kept."""
        found: dict[str, Reading] = {}
        for keys in portions({job.key for job in jobs}):
            asked = select(CiJob.key, CiJob.reading).where(
                CiJob.repo_id == self.repo_id, CiJob.key.in_(keys), CiJob.reading.is_not(None)
            )
            read = ((key, unpack(packed)) for key, packed in self.session.execute(asked) if packed)
            found |= {key: reading for key, reading in read if reading is not None}
        return found

    def records(self, branch: str, window: Window, names: Collection[str], days: int) -> list[JobHistory]:
        """Return how jobs of some names did on a branch in a window."""
        ended: dict[str, list[tuple[str, bool, float | None]]] = {}
        for part in portions(sorted(names)):
            asked = (
                select(CiJob.name, CiJob.conclusion, CiJob.red, CiJob.seconds)
                .where(*self._branch(branch), CiJob.name.in_(part))
                .where(CiJob.at.between(window.start, window.end))
                .limit(MOST_RECORDS)
            )
            for name, conclusion, red, seconds in self.session.execute(asked):
                ended.setdefault(name, []).append((conclusion, red, seconds))
        return [record_of(name, ended[name], days) for name in sorted(ended)]

    def _branch(self, branch: str) -> tuple[Any, ...]:
        return CiJob.repo_id == self.repo_id, CiJob.branch == branch, CiJob.for_pull.is_(False)

    def _sightings(self, asked: Select[Any]) -> list[Sighting]:
        rows = self.session.execute(asked.order_by(CiJob.at.desc(), CiJob.id))
        return [sighting_of(row) for row in rows]


def sighting_of(row: Row[Any]) -> Sighting:
    """Return a job as it was seen, without log and report."""
    return Sighting(
        job=Job.model_validate(row.data),
        source=row.source,
        sha=row.sha,
        branch=row.branch,
        for_pull=row.for_pull,
        pull=row.number,
        created_at=row.at,
        replaced=row.replaced,
        slot=row.slot,
    )
