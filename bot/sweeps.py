"""The regular chores: leases that ran out, data past its time, pull requests nobody told us about.

Any number of processes may run the loop: a lease in SQL lets one of them do a chore at a time.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from bot import jobs, runs
from bot.db.engine import Sessions
from bot.db.models import Repository
from bot.db.upsert import time_of
from bot.dispatch import JobSpec
from bot.leases import finish_sweep, take_sweep
from bot.log import get_logger
from bot.nightly.queue import tick_all
from bot.retention import forget_removed, retain
from bot.settings import Settings

log = get_logger(__name__)

# Who is killed at a chore keeps others from it for this long, so it must be short where work waits for it.
LEASE_S = 300.0
QUICK_LEASE_S = 2.0
HOUR_S = 3600.0
NIGHTS_S = 600.0


@dataclass(frozen=True, slots=True)
class Sweep:
    """One chore: done every `every_s` seconds by whoever takes its lease; `run` returns what it did.

    A `quick` one takes moments and may be done twice at once; it waits for no other that takes long.
    """

    name: str
    every_s: float
    run: Callable[[], int]
    quick: bool = False


class Sweeper:
    """Looks every `look_s` which chores are due: the quick ones in one thread, the long ones in another."""

    def __init__(self, sessions: Sessions, sweeps: Sequence[Sweep], look_s: float) -> None:
        self._sessions = sessions
        self._look_s = look_s
        self._owner = jobs.owner_name()
        self._stopped = threading.Event()
        parts = ([one for one in sweeps if one.quick], [one for one in sweeps if not one.quick])
        self._threads = [
            threading.Thread(target=self._loop, args=(part,), name="sweeps", daemon=True) for part in parts
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after the chores in hand."""
        self._stopped.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=30)

    def _loop(self, sweeps: Sequence[Sweep]) -> None:
        """Do what is due, until stopped."""
        while not self._stopped.is_set():
            for sweep in sweeps:
                self.do(sweep)
            self._stopped.wait(self._look_s)

    def do(self, sweep: Sweep) -> int | None:
        """Do one chore if it is due and nobody else does it; return what it did. A fault leaves it due."""
        try:
            lease_s = QUICK_LEASE_S if sweep.quick else LEASE_S
            if not take_sweep(self._sessions, sweep.name, self._owner, lease_s, sweep.every_s):
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
    mirrors = settings.data_dir.resolve() / "mirrors"
    return (
        Sweep("expired jobs", fast, lambda: sum(jobs.expire(sessions, settings.attempts)), quick=True),
        Sweep("expired runs", fast, lambda: runs.expire(sessions, settings.run_attempts), quick=True),
        Sweep("reconcile", reconcile_s, lambda: reconcile(sessions), quick=True),
        Sweep("failed deliveries", settings.redeliver_s, lambda: ask_again(sessions, settings), quick=True),
        Sweep("nights", NIGHTS_S, lambda: tick_all(sessions)),
        Sweep("retention", HOUR_S, lambda: retain(sessions, settings, now(sessions))),
        Sweep("left repositories", HOUR_S, lambda: forget_removed(sessions, mirrors, now(sessions))),
    )


def now(sessions: Sessions) -> datetime:
    """Return the database's time: a host whose clock jumps ahead must not drop what is not old."""
    with sessions() as session:
        return time_of(session)


def reconcile(sessions: Sessions) -> int:
    """Queue a look at each repository's open pull requests, for what no delivery told us; return how many."""
    with sessions.begin() as session:
        there = select(Repository.id).where(Repository.removed_at.is_(None)).order_by(Repository.id)
        specs = [whole(repo_id, "open") for repo_id in session.scalars(there)]
        jobs.enqueue(session, specs)
    return len(specs)


def ask_again(sessions: Sessions, settings: Settings) -> int:
    """Queue a look at the deliveries that did not arrive; 0 for a plain account, which has no list of them.

    An App has one list for all its repositories, also for one that we never heard of: repository 0.
    """
    if not settings.github_app_id:
        return 0
    with sessions.begin() as session:
        jobs.enqueue(session, [whole(0, "redeliver")])
    return 1


def whole(repo_id: int, subject: str) -> JobSpec:
    """Return the job that looks at a repository as a whole; one of a kind waits at a time."""
    return JobSpec("expand", repo_id, None, subject, dedupe_key=f"expand:{repo_id}:{subject}")
