"""Leases that a living process keeps: the heartbeat of a claimed job, and who does a regular chore."""

import threading
from types import TracebackType
from typing import Self

from sqlalchemy import and_, or_, update

from bot import jobs
from bot.db.engine import Sessions
from bot.db.models import SweepLease
from bot.db.types import now_plus
from bot.db.upsert import changed, insert_into
from bot.log import get_logger

log = get_logger(__name__)

ENDING_S = 0.3


class Heartbeat:
    """Extends a claim's leases from a thread while its `with` block runs; `lost` tells that it failed.

    A database that is away for a moment is no loss: the next beat tries again while the lease still runs.
    """

    def __init__(self, sessions: Sessions, claim: jobs.Claim, lease_s: float, every_s: float) -> None:
        self._sessions = sessions
        self._claim = claim
        self._lease_s = lease_s
        self._every_s = every_s
        self._stopped = threading.Event()
        self.lost = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"heartbeat {claim.job_id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                if not jobs.beat(self._sessions, self._claim, self._lease_s):
                    if self._stopped.wait(ENDING_S):
                        return  # it was not lost: the job ended while we asked
                    self.lost.set()
                    log.warning("the lease was lost", job=self._claim.job_id)
                    return
            except Exception:
                log.exception("a heartbeat failed", job=self._claim.job_id)


def take_sweep(sessions: Sessions, name: str, owner: str, lease_s: float, every_s: float) -> bool:
    """Become the one who does a chore now: it is due (`every_s` since the last time) and nobody has it."""
    with sessions.begin() as session:
        session.execute(
            insert_into(session, SweepLease)
            .values(name=name, owner="", until=now_plus(-1))
            .on_conflict_do_nothing()
        )
        free = SweepLease.until < now_plus(0)
        is_due = or_(SweepLease.done_at.is_(None), SweepLease.done_at <= now_plus(-every_s))
        mine = update(SweepLease).where(SweepLease.name == name, free, is_due)
        return changed(session, mine.values(owner=owner, until=now_plus(lease_s))) == 1


def finish_sweep(sessions: Sessions, name: str, owner: str, done: bool) -> None:
    """Give a chore back; `done` False leaves it due, for the next who looks."""
    with sessions.begin() as session:
        values = {"until": now_plus(-1)} | ({"done_at": now_plus(0)} if done else {})
        mine = and_(SweepLease.name == name, SweepLease.owner == owner)
        session.execute(update(SweepLease).where(mine).values(**values))
