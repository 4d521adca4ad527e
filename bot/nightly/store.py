"""Keeps nights: series, their values, the baselines that held, and alarms as they were raised."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import and_, func, select, update
from sqlalchemy.orm import Session

from bot.db.nightly import Alarm, Baseline, Nightly, NightlySeries
from bot.db.upsert import insert_into
from bot.nightly.values import Value, per_night
from perf_runner.history.baselines import Baseline as Reference
from perf_runner.history.baselines import propose
from perf_runner.history.changes import Alarm as Raised
from perf_runner.history.changes import alarms
from perf_runner.history.measurements import PRIMARY, Measurement
from perf_runner.history.series import Series

STEP = 400
# Alarms are looked for with this much history: four times what the reference of a night is made of.
ALARM_NIGHTS = timedelta(days=120)
# Our own nights have no baseline from outside: the first is made of this many nights.
FIRST_BASELINE_NIGHTS = 7
Key = tuple[str, str, str, str]
T = TypeVar("T")


def parts(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield items in lists that one statement takes."""
    whole = list(items)
    for start in range(0, len(whole), STEP):
        yield whole[start : start + STEP]


def key_of(item: Measurement | NightlySeries) -> Key:
    """Return what a series is known by within its repository, cut as the columns are."""
    return item.test[:200], item.config[:300], item.hardware[:100], item.metric[:100]


def keep(session: Session, repo_id: int, found: Sequence[Measurement], now: datetime) -> int:
    """Store measurements and what follows from them; return how many were not there before.

    Read again, a measurement replaces itself. Alarms are raised for the nights that came.
    """
    if not found:
        return 0
    ids = series_ids(session, repo_id, found)
    before = count(session, repo_id)
    references = note_baselines(session, repo_id, found, ids)
    write(session, repo_id, found, ids, references)
    touched = {ids[key_of(one)] for one in found}
    roll_up(session, touched)
    since = min(one.night for one in found)
    raise_alarms(session, repo_id, touched, since, now)
    return count(session, repo_id) - before


def count(session: Session, repo_id: int) -> int:
    """Return how many values a repository has."""
    return session.scalar(select(func.count()).where(Nightly.repo_id == repo_id)) or 0


def series_ids(session: Session, repo_id: int, found: Iterable[Measurement]) -> dict[Key, int]:
    """Return the id of each measurement's series; new ones are added."""
    known = known_series(session, repo_id)
    fresh = {key_of(one): one for one in found if key_of(one) not in known}
    rows = [
        {
            "repo_id": repo_id,
            "test": one.test,
            "config": one.config,
            "hardware": one.hardware,
            "metric": one.metric,
            "model": one.model,
            "unit": one.unit,
            "way": one.way,
            "nights": 0,
            "last_sha": "",
        }
        for one in fresh.values()
    ]
    for part in parts(rows):
        session.execute(insert_into(session, NightlySeries).on_conflict_do_nothing(), part)
    return known_series(session, repo_id) if rows else known


def known_series(session: Session, repo_id: int) -> dict[Key, int]:
    """Return the ids of a repository's series."""
    rows = session.scalars(select(NightlySeries).where(NightlySeries.repo_id == repo_id))
    return {key_of(row): row.id for row in rows}


def write(
    session: Session,
    repo_id: int,
    found: Iterable[Measurement],
    ids: Mapping[Key, int],
    references: Mapping[int, Sequence[Baseline]],
) -> None:
    """Insert or replace the values; one without a baseline of its own gets the one in force that night."""
    rows = {}
    for one in found:
        series_id = ids[key_of(one)]
        in_force = baseline_at(references.get(series_id, ()), one.night)
        row = value_row(repo_id, series_id, one, in_force)
        rows[series_id, one.night, row["sha"], row["source"]] = row
    insert = insert_into(session, Nightly)
    fields = ("value", "n", "sd", "baseline", "machine", "run_id", "status", "published_days")
    replace = insert.on_conflict_do_update(
        index_elements=["series_id", "night", "sha", "source"],
        set_={name: insert.excluded[name] for name in fields},
    )
    for part in parts(rows.values()):
        session.execute(replace, part)


def value_row(repo_id: int, series_id: int, one: Measurement, in_force: float | None) -> dict[str, Any]:
    """Return the row of one measurement."""
    run = one.source.removeprefix("run:") if one.source.startswith("run:") else None
    return {
        "series_id": series_id,
        "night": one.night,
        "sha": one.sha[:64],
        "source": one.source[:80],
        "repo_id": repo_id,
        "value": one.value,
        "n": one.n,
        "sd": one.sd,
        "baseline": one.baseline if one.baseline is not None else in_force,
        "machine": one.machine,
        "run_id": run,
        "status": one.status,
        "published_days": one.published_days,
    }


def roll_up(session: Session, series: Iterable[int]) -> None:
    """Bring the `last_…` columns of series up to date."""
    for part in parts(sorted(series)):
        newest = (
            select(Nightly.series_id, func.max(Nightly.night).label("night"))
            .where(Nightly.series_id.in_(part))
            .group_by(Nightly.series_id)
            .subquery()
        )
        last = select(Nightly).join(
            newest, and_(Nightly.series_id == newest.c.series_id, Nightly.night == newest.c.night)
        )
        nights = select(Nightly.series_id, func.count(func.distinct(Nightly.night)))
        counted = nights.where(Nightly.series_id.in_(part)).group_by(Nightly.series_id)
        counts = {series_id: number for series_id, number in session.execute(counted)}  # noqa: C416 - typed rows
        rows = {row.series_id: row for row in session.scalars(last.order_by(Nightly.source))}
        # By primary key and in bulk: an UPDATE with a condition would be held against every loaded row.
        session.execute(
            update(NightlySeries),
            [
                {
                    "id": row.series_id,
                    "nights": counts[row.series_id],
                    "last_night": row.night,
                    "last_value": row.value,
                    "last_sha": row.sha,
                }
                for row in rows.values()
            ],
        )


def note_baselines(
    session: Session, repo_id: int, found: Iterable[Measurement], ids: Mapping[Key, int]
) -> dict[int, list[Baseline]]:
    """Keep each change of a baseline that came with measurements; return all of the touched series."""
    given: dict[int, list[Measurement]] = {}
    for one in sorted(found, key=lambda item: item.night):
        given.setdefault(ids[key_of(one)], []).append(one)
    known = baselines_of(session, given)
    for series_id, taken in given.items():
        rows = known.setdefault(series_id, [])
        for one in taken:
            if one.baseline is None or baseline_at(rows, one.night) == one.baseline:
                continue
            origin = f"came with {one.source}; its n, sd and window are not given"
            row = Baseline(
                series_id=series_id, since=one.night, repo_id=repo_id, value=one.baseline, origin=origin
            )
            rows[:] = sorted(
                [*(old for old in rows if old.since != one.night), row], key=lambda old: old.since
            )
            session.merge(row)
    session.flush()
    return known


def baselines_of(session: Session, series: Iterable[int]) -> dict[int, list[Baseline]]:
    """Return the baselines of series, each oldest first."""
    found: dict[int, list[Baseline]] = {}
    for part in parts(sorted(series)):
        asked = select(Baseline).where(Baseline.series_id.in_(part)).order_by(Baseline.since)
        for row in session.scalars(asked):
            found.setdefault(row.series_id, []).append(row)
    return found


def baseline_at(rows: Sequence[Baseline], night: date) -> float | None:
    """Return the value in force on a night."""
    return next((row.value for row in reversed(rows) if row.since <= night), None)


def values_of(session: Session, series: Iterable[int], since: date) -> dict[int, list[Value]]:
    """Return the values of series since a night, one a night, oldest first."""
    found: dict[int, list[Nightly]] = {}
    for part in parts(sorted(series)):
        asked = select(Nightly).where(Nightly.series_id.in_(part), Nightly.night >= since)
        for row in session.scalars(asked.order_by(Nightly.series_id, Nightly.night)):
            found.setdefault(row.series_id, []).append(row)
    return {series_id: per_night(rows) for series_id, rows in found.items()}


def raise_alarms(
    session: Session, repo_id: int, touched: Collection[int], since: date, now: datetime
) -> None:
    """Store the alarms of the nights from `since`, and make the first baseline of series without one."""
    primary = [row for row in primary_series(session, repo_id) if row.id in touched]
    values = values_of(session, [row.id for row in primary], since - ALARM_NIGHTS)
    known = baselines_of(session, [row.id for row in primary])
    for row in primary:
        nights = values.get(row.id, [])
        series = Series(row.metric, tuple(v.night for v in nights), tuple(v.value for v in nights))
        for alarm in alarms(series):
            if alarm.night >= since:
                store_alarm(session, row, alarm, now)
        if row.id not in known and len(nights) >= FIRST_BASELINE_NIGHTS:
            first_baseline(session, row, series)


def primary_series(session: Session, repo_id: int) -> list[NightlySeries]:
    """Return of each case the one metric that it is judged by."""
    cases: dict[tuple[str, str, str], dict[str, NightlySeries]] = {}
    for row in session.scalars(select(NightlySeries).where(NightlySeries.repo_id == repo_id)):
        cases.setdefault((row.test, row.config, row.hardware), {})[row.metric] = row
    found = (next((there[name] for name in PRIMARY if name in there), None) for there in cases.values())
    return [row for row in found if row is not None]


def store_alarm(session: Session, row: NightlySeries, alarm: Raised, now: datetime) -> None:
    """Keep one alarm; one that was raised already stays as it was."""
    insert = insert_into(session, Alarm).values(
        series_id=row.id,
        night=alarm.night,
        worse=alarm.worse,
        raised_by=alarm.raised_by,
        repo_id=row.repo_id,
        z=alarm.z,
        since=alarm.since,
        level=alarm.level,
        value=alarm.value,
        raised_at=now,
    )
    session.execute(insert.on_conflict_do_nothing())


def first_baseline(session: Session, row: NightlySeries, series: Series) -> None:
    """Make a baseline of a series' first nights, in force for the nights after them."""
    first, last = series.nights[0], series.nights[FIRST_BASELINE_NIGHTS - 1]
    made = propose(Reference(series.values[0]), series, (first, last), "lower").proposed
    take_baseline(session, row, made, last + timedelta(days=1))


def take_baseline(session: Session, row: NightlySeries, made: Reference, since: date) -> None:
    """Put a baseline in force; the nights since then that have no other are compared with it."""
    first, last = made.window or (None, None)
    session.merge(
        Baseline(
            series_id=row.id,
            since=since,
            repo_id=row.repo_id,
            value=made.value,
            n=made.n,
            sd=made.sd,
            first_night=first,
            last_night=last,
            origin=made.origin,
        )
    )
    without = (Nightly.series_id == row.id, Nightly.night >= since, Nightly.baseline.is_(None))
    fill = update(Nightly).where(*without).values(baseline=made.value)
    session.execute(fill, execution_options={"synchronize_session": False})
