"""What is dropped when: bodies, logs and ids past their time, and all of a repository that we left."""

import shutil
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Table, delete, select, tuple_, update
from sqlalchemy.sql.elements import ColumnElement

from bot.db.engine import Sessions
from bot.db.models import (
    Base,
    CiJob,
    Delivery,
    DeliveryState,
    Event,
    Job,
    JobState,
    Log,
    Outcome,
    Permission,
    Repository,
    Run,
    Signature,
    WriterLease,
)
from bot.db.types import now_plus
from bot.db.upsert import changed
from bot.settings import Settings

# How many rows a step deletes in one transaction, so that it never holds a lock for long.
STEP = 1_000
KEEP_EVENTS = timedelta(days=7)
# GitHub sends a delivery again for three days at most; after that its id guards nothing.
KEEP_DELIVERY_IDS = timedelta(days=90)
# An App that was uninstalled by mistake and comes back within this time finds everything in its place.
KEEP_REMOVED = timedelta(days=1)
# No verdict looks back further; what failed in them is kept as outcomes and signatures.
KEEP_CI_JOBS = timedelta(days=45)
LEASES_KEPT_S = 3600.0


def retain(sessions: Sessions, settings: Settings, now: datetime) -> int:
    """Drop what is past its time; decisions and measurements stay for ever. Return how many rows went."""
    payloads = now - timedelta(days=settings.keep_payload_days)
    ids = now - max(KEEP_DELIVERY_IDS, timedelta(days=settings.keep_payload_days))
    logs = now - timedelta(days=settings.keep_log_days)
    dropped = drop_payloads(sessions, payloads)
    rules: tuple[tuple[type[Base], Any, ColumnElement[bool]], ...] = (
        (Job, Job.id, (Job.state == JobState.DONE) & (Job.finished_at < payloads)),
        (Delivery, Delivery.guid, (Delivery.state == DeliveryState.DONE) & (Delivery.received_at < ids)),
        (Event, Event.id, Event.at < now - KEEP_EVENTS),
        (Log, Log.hash, Log.stored_at < logs),
        (CiJob, CiJob.id, CiJob.at < now - min(KEEP_CI_JOBS, now - logs)),
        (Outcome, Outcome.id, Outcome.at < logs),
    )
    dropped += sum(drop(sessions, table, key, condition) for table, key, condition in rules)
    with sessions.begin() as session:
        dropped += changed(session, delete(Signature).where(Signature.last_at < logs))
        dropped += changed(session, delete(Permission).where(Permission.until < now))
        dropped += changed(session, delete(WriterLease).where(WriterLease.until < now_plus(-LEASES_KEPT_S)))
    return dropped


def drop_payloads(sessions: Sessions, before: datetime) -> int:
    """Forget the bodies of old deliveries; their ids stay for longer, so that a redelivery is known."""
    with sessions.begin() as session:
        old = (Delivery.received_at < before) & Delivery.payload.is_not(None)
        return changed(session, update(Delivery).where(old).values(payload=None))


def drop(sessions: Sessions, table: type[Base], key: Any, condition: ColumnElement[bool]) -> int:
    """Delete rows in small steps; return how many."""
    total = 0
    while True:
        with sessions.begin() as session:
            ids = list(session.scalars(select(key).where(condition).limit(STEP)))
            if not ids:
                return total
            total += changed(session, delete(table).where(key.in_(ids)))


def forget_removed(sessions: Sessions, mirrors: Path, now: datetime) -> int:
    """Drop all rows and the mirror of repositories that the App left a day ago; return how many they were.

    Logs stay until their time is over: they are kept by content, which other repositories may share.
    """
    with sessions() as session:
        left = select(Repository.id).where(Repository.removed_at < now - KEEP_REMOVED)
        ids = list(session.scalars(left))
    for repo_id in ids:
        forget(sessions, repo_id, now)
        drop_mirror(mirrors, repo_id)
    return len(ids)


def forget(sessions: Sessions, repo_id: int, now: datetime) -> None:
    """Drop a repository's rows in every table, its own row last: an interrupted step is done again."""
    for table in tables_of_repositories():
        while forget_some(sessions, table, repo_id):
            pass
    with sessions.begin() as session:
        gone = (Repository.id == repo_id) & (Repository.removed_at < now - KEEP_REMOVED)
        session.execute(delete(Repository).where(gone))


def tables_of_repositories() -> Iterable[Table]:
    """Return the tables that hold rows of a repository, those that hang on a run before the runs."""
    tables = Base.metadata.sorted_tables
    by_run = [table for table in tables if "run_id" in table.c and "repo_id" not in table.c]
    return [*by_run, *(table for table in tables if "repo_id" in table.c)]


def forget_some(sessions: Sessions, table: Table, repo_id: int) -> int:
    """Delete at most `STEP` of a repository's rows; return how many."""
    if "repo_id" in table.c:
        mine = table.c.repo_id == repo_id
    else:
        mine = table.c.run_id.in_(select(Run.id).where(Run.repo_id == repo_id))
    keys = tuple_(*table.primary_key.columns)
    some = select(*table.primary_key.columns).where(mine).limit(STEP)
    with sessions.begin() as session:
        return changed(session, delete(table).where(keys.in_(some)))


def drop_mirror(mirrors: Path, repo_id: int) -> None:
    """Delete a repository's mirror, bundles and checkouts, where this host has them."""
    for name in (f"{repo_id}.git", f"{repo_id}-bundles", f"{repo_id}-checkouts"):
        shutil.rmtree(mirrors / name, ignore_errors=True)
    for name in (f"{repo_id}.lock", f"{repo_id}-checkouts.lock"):
        (mirrors / name).unlink(missing_ok=True)
