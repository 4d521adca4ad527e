"""The regular chores: leases that ran out, data past its time, pull requests nobody told us about.

Any number of processes may run the loop: a lease in SQL lets one of them do a chore at a time.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.sql.elements import ColumnElement

from bot import jobs, runs
from bot.db.engine import Sessions
from bot.db.models import Base, Delivery, Event, Job, JobState, Log, Permission, Repository, WriterLease
from bot.db.types import now_plus
from bot.db.upsert import changed
from bot.dispatch import JobSpec
from bot.leases import finish_sweep, take_sweep
from bot.log import get_logger
from bot.settings import Settings

log = get_logger(__name__)

LEASE_S = 300.0
HOUR_S = 3600.0
# How many rows a retention step deletes in one transaction, so that it never holds a lock for long.
STEP = 1_000
KEEP_EVENTS = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Sweep:
    """One chore: done every `every_s` seconds by whoever takes its lease; `run` returns what it did."""

    name: str
    every_s: float
    run: Callable[[], int]


class Sweeper:
    """A thread that looks every `look_s` which chores are due."""

    def __init__(self, sessions: Sessions, sweeps: Sequence[Sweep], look_s: float) -> None:
        self._sessions = sessions
        self._sweeps = sweeps
        self._look_s = look_s
        self._owner = jobs.owner_name()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self.loop, name="sweeps", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End after the chore in hand."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    def loop(self) -> None:
        """Do what is due, until stopped; callable in the foreground too."""
        while not self._stopped.is_set():
            for sweep in self._sweeps:
                self.do(sweep)
            self._stopped.wait(self._look_s)

    def do(self, sweep: Sweep) -> int | None:
        """Do one chore if it is due and nobody else does it; return what it did. A fault leaves it due."""
        try:
            if not take_sweep(self._sessions, sweep.name, self._owner, LEASE_S, sweep.every_s):
                return None
            started = time.monotonic()
            did, done = 0, False
            try:
                did = sweep.run()
                done = True
            finally:
                finish_sweep(self._sessions, sweep.name, self._owner, done)
        except Exception:
            log.exception("a sweep failed", sweep=sweep.name)
            return None
        if did:
            log.info("sweep", sweep=sweep.name, did=did, seconds=round(time.monotonic() - started, 3))
        return did


def standard_sweeps(sessions: Sessions, settings: Settings) -> tuple[Sweep, ...]:
    """Return the chores of a service."""
    fast = settings.sweep_s
    reconcile_s = settings.reconcile_minutes * 60.0
    return (
        Sweep("expired jobs", fast, lambda: sum(jobs.expire(sessions, settings.attempts))),
        Sweep("expired runs", fast, lambda: runs.expire(sessions, settings.run_attempts)),
        Sweep("reconcile", reconcile_s, lambda: reconcile(sessions, "open", settings)),
        Sweep("failed deliveries", HOUR_S, lambda: reconcile(sessions, "redeliver", settings)),
        Sweep("retention", HOUR_S, lambda: retain(sessions, settings, datetime.now(UTC))),
    )


def reconcile(sessions: Sessions, subject: str, settings: Settings) -> int:
    """Queue a job that looks at each repository as a whole, for what no delivery told us; return how many.

    Subjects of the verb `expand`: `open` looks at every open pull request that changed, `redeliver` asks
    GitHub for its failed deliveries (an App has one list of them, so one repository stands for all).
    """
    with sessions.begin() as session:
        there = select(Repository.id).where(Repository.removed_at.is_(None)).order_by(Repository.id)
        ids = list(session.scalars(there))
        wanted = ids[:1] if subject == "redeliver" else ids
        if subject == "redeliver" and not settings.github_app_id:
            return 0
        specs = [
            JobSpec("expand", repo_id, None, subject, dedupe_key=f"expand:{repo_id}:{subject}")
            for repo_id in wanted
        ]
        jobs.enqueue(session, specs)
    return len(specs)


def retain(sessions: Sessions, settings: Settings, now: datetime) -> int:
    """Drop what is past its time; decisions and measurements stay for ever. Return how many rows went."""
    payloads = now - timedelta(days=settings.keep_payload_days)
    dropped = drop_payloads(sessions, payloads)
    rules: tuple[tuple[type[Base], Any, ColumnElement[bool]], ...] = (
        (Job, Job.id, (Job.state == JobState.DONE) & (Job.finished_at < payloads)),
        (Event, Event.id, Event.at < now - KEEP_EVENTS),
        (Log, Log.hash, Log.stored_at < now - timedelta(days=settings.keep_log_days)),
    )
    dropped += sum(drop(sessions, table, key, condition) for table, key, condition in rules)
    with sessions.begin() as session:
        dropped += changed(session, delete(Permission).where(Permission.until < now))
        dropped += changed(session, delete(WriterLease).where(WriterLease.until < now_plus(-HOUR_S)))
    return dropped


def drop_payloads(sessions: Sessions, before: datetime) -> int:
    """Forget the bodies of old deliveries; their ids stay, so that a late redelivery is known."""
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
