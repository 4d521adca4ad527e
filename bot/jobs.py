"""The states of a job in SQL: queued -> running (under a lease) -> done, or queued again, or dead.

A claim is one conditional UPDATE, so that of two workers one wins on every database; it takes the pull
request's writer lease in the same transaction. A Celery message only says "look at job n".
"""

import hashlib
import os
import socket
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import and_, case, delete, func, null, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import ReturningUpdate
from sqlalchemy.sql.elements import ColumnElement

from bot.db.engine import Sessions
from bot.db.models import Delivery, DeliveryState, Job, JobState, WriterLease
from bot.db.types import clean_text, now_plus
from bot.db.upsert import changed, insert_into, time_of
from bot.dispatch import JobSpec

KEY_LIMIT = 300
# A command is obeyed once: its key stays taken after the claim.
ONCE_VERBS = ("command",)


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that is ours until the lease runs out; `owner` is this claim's own name, so a late worker
    that lost its lease can change nothing. `claimed_at` is the database's time: hosts' clocks differ."""

    job_id: int
    spec: JobSpec
    attempt: int
    owner: str
    delivery_guid: str | None
    created_at: datetime
    claimed_at: datetime


@dataclass(frozen=True, slots=True)
class Busy:
    """The job waits, since another one writes about its pull request now."""

    job_id: int


def bounded_key(key: str | None) -> str | None:
    """Return a key that fits its column: a long one becomes its beginning and a hash of the whole."""
    if key is None or len(key := clean_text(key)) <= KEY_LIMIT:
        return key
    return f"{key[:200]}#{hashlib.sha256(key.encode()).hexdigest()}"


def enqueue(session: Session, specs: Sequence[JobSpec], delivery_guid: str | None = None) -> None:
    """Add jobs; one whose key is taken by a waiting job is not added, but that job is not later than it."""
    add(session, [(spec, delivery_guid) for spec in specs])


def add(session: Session, jobs: Iterable[tuple[JobSpec, str | None]]) -> None:
    """Add jobs with the delivery that each comes from."""
    # In one order everywhere, so that two web processes which add the same jobs never wait for each other.
    ordered = sorted(jobs, key=lambda job: place(job[0]))
    if not ordered:
        return
    now = time_of(session)
    rows = [job_row(spec, guid, now) for spec, guid in ordered]
    insert = insert_into(session, Job)
    sooner = insert.excluded.not_before
    statement = insert.on_conflict_do_update(
        index_elements=["dedupe_key"],
        set_={"not_before": sooner, "sent_at": None},
        where=and_(
            Job.state == JobState.QUEUED,
            Job.not_before.is_not(None),
            or_(sooner.is_(None), sooner < Job.not_before),
        ),
    )
    session.execute(statement, rows)


def place(spec: JobSpec) -> tuple[int, int, str]:
    """Return what jobs are ordered by: jobs of one pull request keep the order they came in."""
    return spec.repo_id, spec.number or 0, spec.subject if spec.number is None else ""


def job_row(spec: JobSpec, delivery_guid: str | None, now: datetime) -> dict[str, Any]:
    """Return the row of a new job."""
    key = bounded_key(spec.dedupe_key)
    return {
        "delivery_guid": delivery_guid,
        "verb": spec.verb,
        "repo_id": spec.repo_id,
        "number": spec.number,
        "subject": spec.subject,
        "coalesce_key": key,
        "dedupe_key": key,
        "state": JobState.QUEUED,
        "attempts": 0,
        "not_before": spec.not_before,
        "created_at": now,
    }


def due() -> ColumnElement[bool]:
    """Return the condition that a queued job may run now, by the database's clock."""
    return and_(Job.state == JobState.QUEUED, or_(Job.not_before.is_(None), Job.not_before <= now_plus(0)))


def owner_name() -> str:
    """Return a name that no other claim has, and that says where it runs."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{uuid.uuid4().hex[:12]}"


def claim(sessions: Sessions, job_id: int, lease_s: float) -> Claim | Busy | None:
    """Take a queued job that is due, and the right to write about its pull request.

    None: it is not to be had (done, running, not due, or unknown).
    """
    owner = owner_name()
    with sessions() as session:
        taken = session.execute(start(job_id, owner, lease_s)).one_or_none()
        if taken is None:
            return None
        verb, repo_id, number, subject, key, attempt, guid, created_at, now = taken
        if number is not None and not take_writer_lease(session, repo_id, number, owner, lease_s):
            session.rollback()
            return Busy(job_id)
        session.commit()
    return Claim(job_id, JobSpec(verb, repo_id, number, subject, key), attempt, owner, guid, created_at, now)


Taken = ReturningUpdate[str, int, int | None, str, str | None, int, str | None, datetime, datetime]


def start(job_id: int, owner: str, lease_s: float) -> Taken:
    """Return the conditional UPDATE that makes a due job running; its key is free for the next look."""
    values = {
        "state": JobState.RUNNING,
        "lease_owner": owner,
        "lease_until": now_plus(lease_s),
        "attempts": Job.attempts + 1,
        "dedupe_key": case((Job.verb.in_(ONCE_VERBS), Job.dedupe_key), else_=null()),
    }
    about = (Job.verb, Job.repo_id, Job.number, Job.subject, Job.coalesce_key)
    history = (Job.attempts, Job.delivery_guid, Job.created_at, now_plus(0))
    return update(Job).where(Job.id == job_id, due()).values(**values).returning(*about, *history)


def take_writer_lease(session: Session, repo_id: int, number: int, owner: str, lease_s: float) -> bool:
    """Become, or stay, the one writer of a pull request, unless somebody else's lease still runs."""
    insert = insert_into(session, WriterLease).values(
        repo_id=repo_id, number=number, owner=owner, until=now_plus(lease_s)
    )
    statement = insert.on_conflict_do_update(
        index_elements=["repo_id", "number"],
        set_={"owner": owner, "until": now_plus(lease_s)},
        where=or_(WriterLease.until < now_plus(0), WriterLease.owner == owner),
    )
    return changed(session, statement) == 1


def held(claim: Claim) -> ColumnElement[bool]:
    """Return the condition that the job is still this claim's."""
    return and_(Job.id == claim.job_id, Job.lease_owner == claim.owner, Job.state == JobState.RUNNING)


def beat(sessions: Sessions, claim: Claim, lease_s: float) -> bool:
    """Extend the leases of a claim, also ones that ran out unnoticed; False: another worker has one."""
    spec = claim.spec
    with sessions() as session:
        kept = changed(session, update(Job).where(held(claim)).values(lease_until=now_plus(lease_s))) == 1
        if kept and spec.number is not None:
            kept = take_writer_lease(session, spec.repo_id, spec.number, claim.owner, lease_s)
        if kept:
            session.commit()
    return kept


def left_s(sessions: Sessions, claim: Claim) -> float:
    """Return how many seconds of a claim's leases are left by the database's clock; 0 where one is lost."""
    spec = claim.spec
    asked = [select(Job.lease_until).where(held(claim))]
    if spec.number is not None:
        writer = (WriterLease.repo_id == spec.repo_id, WriterLease.number == spec.number)
        asked.append(select(WriterLease.until).where(*writer, WriterLease.owner == claim.owner))
    with sessions() as session:
        untils = [session.scalar(one) for one in asked]
        now = session.execute(select(now_plus(0))).scalar_one()
    left = [(until - now).total_seconds() if until else 0.0 for until in untils]
    return max(0.0, min(left))


def lock(session: Session, claim: Claim) -> bool:
    """Say whether a claim still holds its job, and keep it from others until the transaction ends."""
    return session.scalar(select(Job.id).where(held(claim)).with_for_update()) is not None


def finish(sessions: Sessions, claim: Claim, error: str | None = None) -> int | None:
    """Mark a claimed job done; `error` is what a person was told. Return the pull request's next due job."""
    with sessions.begin() as session:
        if end(session, claim, JobState.DONE, error):
            settle_delivery(session, claim.delivery_guid)
        return release(session, claim)


def bury(sessions: Sessions, claim: Claim, error: str) -> int | None:
    """Mark a claimed job dead, and its delivery failed. Return the pull request's next due job."""
    with sessions.begin() as session:
        if end(session, claim, JobState.DEAD, error):
            settle_delivery(session, claim.delivery_guid)
        return release(session, claim)


def end(session: Session, claim: Claim, state: JobState, error: str | None) -> bool:
    """Write the last state of a claimed job; False where the lease was lost meanwhile."""
    values = {"state": state, "error": error, "lease_owner": None, "lease_until": None}
    return changed(session, update(Job).where(held(claim)).values(**values, finished_at=now_plus(0))) == 1


def postpone(sessions: Sessions, claim: Claim, at: datetime, why: str) -> int | None:
    """Queue a claimed job again for `at`; it was no failure, so the attempt is given back.

    `at` is by this host's clock, and is told to the database as a time from now: the clocks may differ.
    """
    wait_s = (at - datetime.now(UTC)).total_seconds()
    with sessions.begin() as session:
        if lock(session, claim):
            requeue(session, claim.job_id, claim.spec.dedupe_key, now_plus(wait_s), why)
            session.execute(update(Job).where(Job.id == claim.job_id).values(attempts=claim.attempt - 1))
        return release(session, claim)


def retry(sessions: Sessions, claim: Claim, delay_s: float, error: str) -> int | None:
    """Queue a claimed job again after a failure, `delay_s` from now."""
    with sessions.begin() as session:
        if lock(session, claim):
            requeue(session, claim.job_id, claim.spec.dedupe_key, now_plus(delay_s), error)
        return release(session, claim)


def requeue(session: Session, job_id: int, key: str | None, not_before: Any, error: str | None) -> None:
    """Put a running job back into the queue; where a newer look of its key waits, that one does its work."""
    again = {"state": JobState.QUEUED, "not_before": not_before, "error": error, "sent_at": None}
    free = {"lease_owner": None, "lease_until": None}
    try:
        with session.begin_nested():
            session.execute(update(Job).where(Job.id == job_id).values(**again, **free, dedupe_key=key))
    except IntegrityError:
        newer = and_(Job.dedupe_key == key, Job.state == JobState.QUEUED, Job.not_before > now_plus(0))
        session.execute(update(Job).where(newer).values(not_before=not_before, sent_at=None))
        ended = {"state": JobState.DONE, "error": "a newer job does this", "finished_at": now_plus(0)}
        session.execute(update(Job).where(Job.id == job_id).values(**ended, **free))
        settle_delivery(session, session.scalar(select(Job.delivery_guid).where(Job.id == job_id)))


def release(session: Session, claim: Claim) -> int | None:
    """Give the writer lease back and return the pull request's next due job, if one waits."""
    spec = claim.spec
    if spec.number is None:
        return None
    session.execute(
        delete(WriterLease).where(
            WriterLease.repo_id == spec.repo_id,
            WriterLease.number == spec.number,
            WriterLease.owner == claim.owner,
        )
    )
    waiting = select(Job.id).where(Job.repo_id == spec.repo_id, Job.number == spec.number, due())
    return session.scalar(waiting.order_by(Job.id).limit(1))


def settle_delivery(session: Session, guid: str | None) -> None:
    """Bring a delivery's state in line with its jobs: failed as soon as one is dead, done when all are."""
    if guid is None:
        return
    session.execute(select(Delivery.guid).where(Delivery.guid == guid).with_for_update())
    states = set(session.scalars(select(Job.state).where(Job.delivery_guid == guid).distinct()))
    if JobState.DEAD in states:
        state = DeliveryState.FAILED
    elif states & {JobState.QUEUED, JobState.RUNNING}:
        state = DeliveryState.RECEIVED
    else:
        state = DeliveryState.DONE
    session.execute(update(Delivery).where(Delivery.guid == guid).values(state=state))


def expire(sessions: Sessions, attempts: int) -> tuple[int, int]:
    """Take jobs back whose worker stopped beating; return how many were queued again and how many died."""
    revived = buried = 0
    with sessions() as session:
        lost = select(Job.id).where(Job.state == JobState.RUNNING, Job.lease_until < now_plus(0))
        ids = list(session.scalars(lost.limit(500)))
    for job_id in ids:
        with sessions.begin() as session:
            died = take_back(session, job_id, attempts)
        revived += died is False
        buried += died is True
    return revived, buried


def take_back(session: Session, job_id: int, attempts: int) -> bool | None:
    """Queue one expired job again, or bury it (True) after its last attempt; None: it came back to life."""
    expired = and_(Job.id == job_id, Job.state == JobState.RUNNING, Job.lease_until < now_plus(0))
    job = session.scalar(select(Job).where(expired).with_for_update())
    if job is None:
        return None
    error = f"the worker died during attempt {job.attempts}"
    if job.attempts < attempts:
        requeue(session, job.id, job.coalesce_key, None, error)
        return False
    values = {"state": JobState.DEAD, "error": error, "lease_owner": None, "lease_until": None}
    session.execute(update(Job).where(Job.id == job.id).values(**values, finished_at=now_plus(0)))
    settle_delivery(session, job.delivery_guid)
    return True


def dead(session: Session, limit: int = 100, before_id: int | None = None) -> list[Job]:
    """Return jobs that were given up, the newest first; those below `before_id` continue a list."""
    asked = select(Job).where(Job.state == JobState.DEAD)
    if before_id is not None:
        asked = asked.where(Job.id < before_id)
    return list(session.scalars(asked.order_by(Job.id.desc()).limit(limit)))


def replay(session: Session, condition: ColumnElement[bool]) -> int:
    """Queue the dead jobs of `condition` again with all their attempts; return how many."""
    ids = list(session.scalars(select(Job.id).where(Job.state == JobState.DEAD, condition)))
    if not ids:
        return 0
    fresh = {
        "state": JobState.QUEUED,
        "attempts": 0,
        "not_before": None,
        "sent_at": None,
        "finished_at": None,
    }
    session.execute(update(Job).where(Job.id.in_(ids)).values(**fresh))
    guids = select(Job.delivery_guid).where(Job.id.in_(ids))
    session.execute(update(Delivery).where(Delivery.guid.in_(guids)).values(state=DeliveryState.RECEIVED))
    return len(ids)


def unsent(sessions: Sessions, limit: int) -> list[int]:
    """Return due jobs that no worker was told of, oldest first."""
    with sessions() as session:
        found = select(Job.id).where(due(), Job.sent_at.is_(None)).order_by(Job.id).limit(limit)
        return list(session.scalars(found))


def silent(sessions: Sessions, after_s: float, limit: int) -> list[int]:
    """Return due jobs that were sent more than `after_s` ago and still wait: the message may be lost."""
    with sessions() as session:
        found = select(Job.id).where(due(), Job.sent_at < now_plus(-after_s)).order_by(Job.id).limit(limit)
        return list(session.scalars(found))


def mark_sent(sessions: Sessions, job_ids: Sequence[int]) -> None:
    """Remember that workers were told of these jobs."""
    with sessions.begin() as session:
        waiting = and_(Job.id.in_(job_ids), Job.state == JobState.QUEUED)
        session.execute(update(Job).where(waiting).values(sent_at=now_plus(0)))


def counts(session: Session) -> dict[tuple[str, JobState], int]:
    """Return how many jobs of each verb are in each state but done."""
    open_states = (JobState.QUEUED, JobState.RUNNING, JobState.DEAD)
    rows = session.execute(
        select(Job.verb, Job.state, func.count())
        .where(Job.state.in_(open_states))
        .group_by(Job.verb, Job.state)
    )
    return {(verb, state): number for verb, state, number in rows}
