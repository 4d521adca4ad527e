"""GitHub's limits on writes, kept by one row an installation: 80 a minute, 500 an hour, a gap between two.

The row is read and written in one transaction, so that all workers together keep the pace.
"""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker

from bot.db.models import Pace
from bot.dispatch import RetryLater

MINUTE_LIMIT = 80
HOUR_LIMIT = 500
LONGEST_WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class Turns:
    """An installation's writes in the current minute and hour, and when the next one may go."""

    next_at: datetime
    minute_started_at: datetime
    minute_writes: int
    hour_started_at: datetime
    hour_writes: int


def fresh(now: datetime) -> Turns:
    """Return the turns of an installation that has not written lately."""
    return Turns(now, now, 0, now, 0)


def reserve(turns: Turns, now: datetime, gap_s: float) -> tuple[Turns, datetime]:
    """Return the turns with one more write in them, and when it may go: pure."""
    at = max(now, turns.next_at)
    turns = roll(turns, at)
    if turns.hour_writes >= HOUR_LIMIT:
        at = turns.hour_started_at + timedelta(hours=1)
    elif turns.minute_writes >= MINUTE_LIMIT:
        at = turns.minute_started_at + timedelta(minutes=1)
    turns = roll(turns, at)
    counted = replace(
        turns,
        next_at=at + timedelta(seconds=gap_s),
        minute_writes=turns.minute_writes + 1,
        hour_writes=turns.hour_writes + 1,
    )
    return counted, at


def roll(turns: Turns, at: datetime) -> Turns:
    """Return the turns with windows that are over begun anew at `at`."""
    if at >= turns.minute_started_at + timedelta(minutes=1):
        turns = replace(turns, minute_started_at=at, minute_writes=0)
    if at >= turns.hour_started_at + timedelta(hours=1):
        turns = replace(turns, hour_started_at=at, hour_writes=0)
    return turns


def take_turn(sessions: sessionmaker[Session], installation_id: int, gap_s: float) -> None:
    """Wait for the next turn to write. RetryLater, and no turn taken, where it is further away than 2 s."""
    now = datetime.now(UTC)
    with sessions() as session:
        turns = locked(session, installation_id, now)
        counted, at = reserve(turns, now, gap_s)
        if (at - now).total_seconds() <= LONGEST_WAIT_S:
            values = {
                "next_at": counted.next_at,
                "minute_started_at": counted.minute_started_at,
                "minute_writes": counted.minute_writes,
                "hour_started_at": counted.hour_started_at,
                "hour_writes": counted.hour_writes,
            }
            session.execute(update(Pace).where(Pace.installation_id == installation_id).values(**values))
            session.commit()
    pause_until(at, LONGEST_WAIT_S)


def locked(session: Session, installation_id: int, now: datetime) -> Turns:
    """Return the row's turns, the row locked until the transaction ends; a missing row is made."""
    asked = select(Pace).where(Pace.installation_id == installation_id).with_for_update()
    row = session.execute(asked).scalar_one_or_none()
    if row is None:
        first = fresh(now)
        make_row(session, installation_id, now)
        row = session.execute(asked).scalar_one_or_none()
        if row is None:
            return first
    return Turns(row.next_at, row.minute_started_at, row.minute_writes, row.hour_started_at, row.hour_writes)


def make_row(session: Session, installation_id: int, now: datetime) -> None:
    """Insert the row; somebody else may have been quicker."""
    try:
        with session.begin_nested():
            session.execute(
                insert(Pace).values(
                    installation_id=installation_id,
                    next_at=now,
                    minute_started_at=now,
                    minute_writes=0,
                    hour_started_at=now,
                    hour_writes=0,
                )
            )
    except IntegrityError:
        return


def pause_until(at: datetime, longest_s: float = LONGEST_WAIT_S) -> None:
    """Sleep until `at`; RetryLater where that is further away than a worker should wait."""
    wait_s = (at - datetime.now(UTC)).total_seconds()
    if wait_s > longest_s:
        raise RetryLater(at, "the installation's pace")
    if wait_s > 0:
        time.sleep(wait_s)
