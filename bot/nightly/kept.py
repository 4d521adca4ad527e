"""The stored episodes: which there are, and what is written back of them."""

import hashlib
from collections.abc import Sequence
from datetime import date, datetime, timedelta

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from bot.actions import KeepEpisode
from bot.db.engine import Sessions
from bot.db.nightly import Episode
from perf_runner.history.families import Family, continues

MARKER = "nightly-"
# A recovered episode is looked at for this long, in case its nights get worse again.
WATCHED = timedelta(days=14)


def marker_of(key: str) -> str:
    """Return what an episode's issue is found by."""
    return f"{MARKER}{key}"


def key_of(made: Family) -> str:
    """Return the key of a new episode: the same where the same nights are read into an empty database."""
    said = "\n".join([made.name, made.hardware, made.first_night.isoformat()])
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def matched(
    session: Session, repo_id: int, made: Sequence[Family], now: datetime
) -> list[tuple[Episode, Family]]:
    """Return each family with its stored episode; a new one is stored. The caller commits.

    An episode whose nights are not among the newest any more is left as it is.
    """
    known = list(session.scalars(select(Episode).where(Episode.repo_id == repo_id)))
    found = []
    for family in made:
        row = next((one for one in known if is_same(one, family)), None)
        if row is None:
            row = Episode(
                repo_id=repo_id, key=key_of(family), state="open", first_night=family.first_night, data={}
            )
            session.add(row)
            known.append(row)
        bring_up_to_date(row, family, now)
        found.append((row, family))
    session.flush()
    return found


def is_same(row: Episode, family: Family) -> bool:
    """Say whether a family is the stored episode."""
    if (row.family, row.hardware) != (family.name[:300], family.hardware[:100]):
        return False
    return continues(family, row.first_night, row.last_night)


def bring_up_to_date(row: Episode, family: Family, now: datetime) -> None:
    """Write what the nights say; the first night never moves forward."""
    first = family.cases[0]
    row.family, row.hardware = family.name, family.hardware
    row.test, row.config = first.test, first.config
    row.first_night = min(row.first_night, family.first_night)
    row.last_night = family.last_night
    row.days_failing, row.worst_pct = family.days_failing, family.worst_pct
    row.updated_at = now


def is_watched(row: Episode, newest: date) -> bool:
    """Say whether an episode is looked at: it goes on, or was over a short while ago."""
    return row.state != "recovered" or newest - row.last_night <= WATCHED


def keep_episode(session: Session, repo_id: int, action: KeepEpisode) -> None:
    """Write columns of a stored episode."""
    mine = (Episode.repo_id == repo_id, Episode.key == action.key)
    session.execute(update(Episode).where(*mine).values(**action.values))


def remember_issue(sessions: Sessions, repo_id: int, marker: str, number: int) -> None:
    """Keep the number of an episode's issue, so that the next look need not search for it."""
    mine = (Episode.repo_id == repo_id, Episode.key == marker.removeprefix(MARKER))
    other = or_(Episode.issue_number.is_(None), Episode.issue_number != number)
    with sessions.begin() as session:
        session.execute(update(Episode).where(*mine, other).values(issue_number=number))
