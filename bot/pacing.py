"""GitHub's limits on writes, kept by one row an installation: 80 a minute, 500 an hour, a gap between two.

Row and clock are the database's, read and written in one transaction: all workers together keep the pace,
also where their hosts' clocks differ.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import case, select, update
from sqlalchemy.orm import Session, sessionmaker

from bot.db.models import Pace
from bot.db.types import now_plus
from bot.db.upsert import insert_into
from bot.dispatch import RetryLater

LONGEST_WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How fast an installation may write. The defaults are what GitHub asks of one."""

    gap_s: float = 1.0
    a_minute: int = 80
    an_hour: int = 500


@dataclass(frozen=True, slots=True)
class Turns:
    """An installation's writes of the last hour, oldest first, and when GitHub lets it write again."""

    recent: tuple[datetime, ...] = ()
    held_until: datetime | None = None


def next_turn(turns: Turns, now: datetime, limits: Limits) -> datetime:
    """Return when the next write may go: in no minute and no hour are there ever too many. Pure."""
    windows = ((1, limits.gap_s), (limits.a_minute, 60.0), (limits.an_hour, 3600.0))
    recent = turns.recent
    earliest = [recent[-n] + timedelta(seconds=span_s) for n, span_s in windows if len(recent) >= n]
    return max([now, *earliest, *([turns.held_until] if turns.held_until else [])])


def taken(turns: Turns, at: datetime, limits: Limits) -> tuple[datetime, ...]:
    """Return the writes with one more at `at`, those dropped that limit nothing any more. Pure."""
    kept = [one for one in turns.recent if one > at - timedelta(hours=1)]
    return (*kept, at)[-limits.an_hour :]


def take_turn(sessions: sessionmaker[Session], installation_id: int, limits: Limits) -> None:
    """Wait for the next turn to write. RetryLater, and no turn taken, where it is further away than 2 s."""
    with sessions() as session:
        turns, now = locked(session, installation_id)
        at = next_turn(turns, now, limits)
        wait_s = (at - now).total_seconds()
        if wait_s <= LONGEST_WAIT_S:
            stamps = [one.timestamp() for one in taken(turns, at, limits)]
            row = update(Pace).where(Pace.installation_id == installation_id)
            session.execute(row.values(recent=stamps))
            session.commit()
    if wait_s > LONGEST_WAIT_S:
        raise RetryLater(datetime.now(UTC) + timedelta(seconds=wait_s), "the installation's pace")
    time.sleep(wait_s)


def hold(sessions: sessionmaker[Session], installation_id: int, wait_s: float) -> None:
    """Let nobody write for an installation for a while: GitHub asked for it."""
    with sessions() as session:
        locked(session, installation_id)
        later = case((Pace.held_until > now_plus(wait_s), Pace.held_until), else_=now_plus(wait_s))
        session.execute(update(Pace).where(Pace.installation_id == installation_id).values(held_until=later))
        session.commit()


def locked(session: Session, installation_id: int) -> tuple[Turns, datetime]:
    """Return the row, locked until the transaction ends (a missing one is made), and the database's time."""
    first = insert_into(session, Pace).values(installation_id=installation_id, recent=[])
    session.execute(first.on_conflict_do_nothing())
    asked = select(Pace.recent, Pace.held_until).where(Pace.installation_id == installation_id)
    recent, held_until = session.execute(asked.with_for_update()).one()
    # Asked after the lock was got: the transaction may have waited for it.
    now = session.execute(select(now_plus(0))).scalar_one()
    return Turns(times(recent), held_until), now


def times(stamps: Sequence[float]) -> tuple[datetime, ...]:
    """Return stored seconds as times."""
    return tuple(datetime.fromtimestamp(stamp, UTC) for stamp in stamps)
