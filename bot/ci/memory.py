"""Keeps what CI showed: jobs as they were seen, the failures in them, and one rolled-up row a signature.

The same build read twice counts once: a job is known by its key, its failures are replaced as a whole, and a
signature's figures are counted anew from them, all in the caller's transaction.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

from sqlalchemy import Row, case, delete, distinct, func, insert, select, update
from sqlalchemy.orm import Session

from bot.ci.failures import Failure, Reading
from bot.ci.names import cousin
from bot.ci.providers.reads import Sighting
from bot.ci.readings import pack
from bot.ci.signature import normalise, short_class
from bot.db.models import CiJob, Outcome, Repository, Signature

# Rows of one statement: SQLite takes 32,766 values in one.
STEP = 500
Item = TypeVar("Item")


@dataclass(frozen=True)
class Seen:
    """A job as it was seen, what its log said where it was read, and when its commit was made."""

    sighting: Sighting
    reading: Reading | None = None
    committed_at: datetime | None = None

    @cached_property
    def key(self) -> str:
        """Return what the job attempt is known by."""
        return self.sighting.job.key

    @cached_property
    def packed(self) -> bytes | None:
        """Return the reading as its row holds it."""
        return None if self.reading is None else pack(self.reading)

    @property
    def at(self) -> datetime | None:
        """Return when its build was created, else when it ran; None: an undated job is no memory."""
        return self.sighting.created_at or self.sighting.job.started_at or self.sighting.job.finished_at


def portions(items: Iterable[Item], size: int = STEP) -> Iterator[list[Item]]:
    """Yield lists of at most `size` items."""
    found = list(items)
    yield from (found[start : start + size] for start in range(0, len(found), size))


def signature_key(failure: Failure, job: str) -> str:
    """Return what makes failures one: the test (else the step on every platform), the class, the message."""
    where = failure.key or f"step {cousin(job)} {failure.file or ''}"
    parts = (where, short_class(failure.exception).lower(), normalise(failure.message))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def remember(session: Session, repo_id: int, seen: Iterable[Seen], main: str) -> int:
    """Keep what was seen; return how many jobs were new. `main` names the default branch. No commit.

    One writer a repository: the row of the repository is locked until the transaction ends.
    """
    session.execute(select(Repository.id).where(Repository.id == repo_id).with_for_update())
    dated = {one.key: one for one in seen if one.at is not None and one.sighting.sha}
    return sum(keep(session, repo_id, part, main) for part in portions(dated.values()))


def keep(session: Session, repo_id: int, seen: Sequence[Seen], main: str) -> int:
    """Keep one portion."""
    known = known_rows(session, repo_id, [one.key for one in seen])
    read_before = known_readings(session, repo_id, [one.key for one in seen if one.packed is not None])
    fresh = [one for one in seen if one.key not in known]
    if fresh:
        session.execute(insert(CiJob), [job_row(one, repo_id) for one in fresh])
    read = [one for one in seen if one.packed is not None and one.packed != read_before.get(one.key)]
    newly_read = {one.key for one in read}
    for one in seen:
        row = known.get(one.key)
        values = differences(one, row, one.key in newly_read) if row is not None else {}
        if values:
            where = (CiJob.repo_id == repo_id, CiJob.key == one.key)
            session.execute(update(CiJob).where(*where).values(**values))
        if "number" in values:
            told = (Outcome.repo_id == repo_id, Outcome.job_key == one.key)
            session.execute(update(Outcome).where(*told).values(number=values["number"]))
    count_passes(session, repo_id, fresh)
    keep_outcomes(session, repo_id, read, main)
    return len(fresh)


def known_rows(session: Session, repo_id: int, keys: Sequence[str]) -> dict[str, Row[*tuple[Any, ...]]]:
    """Return what of some jobs may still change, by key."""
    asked = select(CiJob.key, CiJob.replaced, CiJob.number, CiJob.committed_at)
    found = session.execute(asked.where(CiJob.repo_id == repo_id, CiJob.key.in_(keys)))
    return {row.key: row for row in found}


def known_readings(session: Session, repo_id: int, keys: Sequence[str]) -> dict[str, bytes | None]:
    """Return the kept readings of some jobs, by key."""
    asked = select(CiJob.key, CiJob.reading).where(CiJob.repo_id == repo_id, CiJob.key.in_(keys))
    return {row.key: row.reading for row in session.execute(asked)}


def job_row(one: Seen, repo_id: int) -> dict[str, Any]:
    """Return a new job's row."""
    sighting, job = one.sighting, one.sighting.job
    return {
        "repo_id": repo_id,
        "key": one.key,
        "provider": job.provider or "",
        "build": job.build or "",
        "source": sighting.source,
        "name": job.name,
        "slot": sighting.slot,
        "replaced": sighting.replaced,
        "sha": sighting.sha,
        "branch": sighting.branch,
        "for_pull": sighting.for_pull,
        "number": sighting.pull,
        "conclusion": job.conclusion,
        "red": job.is_failure,
        "seconds": job.seconds,
        "at": one.at,
        "committed_at": one.committed_at,
        "data": job.model_dump(mode="json", exclude={"log", "junit"}, exclude_defaults=True),
        "reading": one.packed,
    }


def differences(one: Seen, row: Row[*tuple[Any, ...]], newly_read: bool) -> dict[str, Any]:
    """Return what is known now and was not when the row was written."""
    found: dict[str, Any] = {}
    if one.sighting.replaced and not row.replaced:
        found["replaced"] = True
    if one.sighting.pull is not None and row.number is None:
        found["number"] = one.sighting.pull
    if one.committed_at is not None and row.committed_at is None:
        found["committed_at"] = one.committed_at
    if newly_read:
        found["reading"] = one.packed
    return found


def count_passes(session: Session, repo_id: int, fresh: Sequence[Seen]) -> None:
    """Add new passes to the signatures that their jobs showed last."""
    passed = Counter(one.sighting.job.name for one in fresh if one.sighting.job.conclusion == "passed")
    asked = select(Signature.job).where(Signature.repo_id == repo_id, Signature.job.in_(passed)).distinct()
    for name in session.scalars(asked).all():
        mine = (Signature.repo_id == repo_id, Signature.job == name)
        session.execute(update(Signature).where(*mine).values(passes=Signature.passes + passed[name]))


def keep_outcomes(session: Session, repo_id: int, read: Sequence[Seen], main: str) -> None:
    """Replace the failures of jobs that were read, and count the signatures in them anew."""
    if not read:
        return
    mine = (Outcome.repo_id == repo_id, Outcome.job_key.in_([one.key for one in read]))
    touched = set(session.scalars(select(Outcome.signature).where(*mine)))
    session.execute(delete(Outcome).where(*mine))
    rows: list[dict[str, Any]] = []
    newest: dict[str, tuple[Failure, Seen]] = {}
    for one in sorted(read, key=lambda one: str(one.at)):
        found = failures_of(one)
        rows += [outcome_row(one, repo_id, key, failure, main) for key, failure in found.items()]
        newest |= {key: (failure, one) for key, failure in found.items()}
    for part in portions(rows):
        session.execute(insert(Outcome), part)
    for keys in portions(sorted(touched | newest.keys())):
        roll_up(session, repo_id, keys, newest)


def failures_of(one: Seen) -> Mapping[str, Failure]:
    """Return a job's failures by signature, each once; what could not be read is none."""
    if one.reading is None or not one.sighting.job.is_failure:
        return {}
    found = [failure for failure in one.reading.failures if failure.category != "unread"]
    return {signature_key(failure, one.sighting.job.name): failure for failure in found}


def outcome_row(one: Seen, repo_id: int, key: str, failure: Failure, main: str) -> dict[str, Any]:
    """Return the row of one failure."""
    sighting = one.sighting
    return {
        "repo_id": repo_id,
        "job_key": one.key,
        "signature": key,
        "test": failure.test,
        "job": sighting.job.name,
        "sha": sighting.sha,
        "branch": sighting.branch,
        "number": sighting.pull,
        "on_main": not sighting.for_pull and sighting.branch == main,
        "at": one.at,
    }


def roll_up(
    session: Session, repo_id: int, keys: Sequence[str], newest: Mapping[str, tuple[Failure, Seen]]
) -> None:
    """Count some signatures anew from their outcomes; one without any goes."""
    mine = (Outcome.repo_id == repo_id, Outcome.signature.in_(keys))
    counted = {row.signature: row for row in session.execute(figures().where(*mine))}
    on_main = {row.signature: row for row in session.execute(last_on_main(repo_id, keys))}
    rows = select(Signature).where(Signature.repo_id == repo_id, Signature.key.in_(keys))
    known = {row.key: row for row in session.scalars(rows)}
    for row in (known[key] for key in known.keys() - counted.keys()):
        session.delete(row)
    for key, found in counted.items():
        row = known.get(key) or Signature(repo_id=repo_id, key=key, first_at=found.first_at)
        if key in newest and (key not in known or newest[key][1].at == found.last_at):
            show(row, *newest[key])
        count(row, found, on_main.get(key))
        row.passes = passes_of(session, repo_id, row.job, row.first_at)
        session.add(row)
    session.flush()


def figures() -> Any:
    """Return the query that counts outcomes by signature."""
    return select(
        Outcome.signature,
        func.min(Outcome.at).label("first_at"),
        func.max(Outcome.at).label("last_at"),
        func.count().label("times"),
        func.sum(case((Outcome.on_main, 1), else_=0)).label("times_on_main"),
        func.count(distinct(Outcome.number)).label("pulls"),
        func.count(distinct(Outcome.sha)).label("commits"),
    ).group_by(Outcome.signature)


def last_on_main(repo_id: int, keys: Sequence[str]) -> Any:
    """Return the query for each signature's newest outcome on the default branch."""
    mine = (Outcome.repo_id == repo_id, Outcome.signature.in_(keys), Outcome.on_main)
    newest = select(Outcome.signature, func.max(Outcome.at).label("at")).where(*mine)
    last = newest.group_by(Outcome.signature).subquery()
    both = (Outcome.signature == last.c.signature) & (Outcome.at == last.c.at)
    return select(Outcome.signature, Outcome.sha, Outcome.at).join(last, both).where(*mine)


def show(row: Signature, failure: Failure, seen: Seen) -> None:
    """Write what a signature's newest failure looks like."""
    row.test, row.exception, row.message = failure.test, failure.exception, failure.message
    row.job = seen.sighting.job.name


def count(row: Signature, found: Row[Any], on_main: Row[Any] | None) -> None:
    """Write a signature's figures."""
    row.first_at = min(row.first_at, found.first_at)
    row.last_at, row.times, row.commits = found.last_at, found.times, found.commits
    row.times_on_main, row.pulls = found.times_on_main, found.pulls
    row.last_main_sha = on_main.sha if on_main else None
    row.last_main_at = on_main.at if on_main else None


def passes_of(session: Session, repo_id: int, job: str, since: datetime) -> int:
    """Return how often a job is known to have passed since a time."""
    mine = (CiJob.repo_id == repo_id, CiJob.name == job, CiJob.at >= since, CiJob.conclusion == "passed")
    return session.scalar(select(func.count()).where(*mine)) or 0
