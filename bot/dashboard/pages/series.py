"""One nightly series: its nights, change points in hindsight, alarms as raised, baselines with origin."""

import json
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import groupby
from statistics import median
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi import Path as PathParameter
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup
from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from bot.dashboard import charts
from bot.dashboard.keyset import MOST_ITEMS, Key, after, make_token
from bot.dashboard.pages.perf import SeriesRow, baselines_of, series_row
from bot.dashboard.rendering import as_json
from bot.dashboard.site import Scope, Site
from bot.dashboard.views import Asking, Page, View
from bot.db.models import Repository
from bot.db.nightly import Alarm, Baseline, Nightly, NightlySeries
from perf_runner.history.series import Series

SHOWN_NIGHTS = 400
MOST_ROWS = 2_000  # rows of the shown nights: a night may have been measured more than once
KEYS = (Key(Nightly.night, date, down=True), Key(Nightly.sha, str), Key(Nightly.source, str))
SeriesId = Annotated[int, PathParameter(ge=1, le=2**62)]


class Slice(Asking):
    """Which nights of the JSON list."""

    limit: int = Field(default=MOST_ITEMS, ge=1, le=MOST_ITEMS)


class NightRow(View):
    """One measurement of a night."""

    night: date
    sha: str
    value: float
    n: int | None
    sd: float | None
    baseline: float | None
    machine: str
    source: str
    run: str | None


class PointRow(View):
    """A lasting change: the first night of the new level, and the levels before and after."""

    night: date
    before: float
    after: float
    change_pct: float


class AlarmRow(View):
    """An alarm as it was raised; `z` in robust standard deviations of the nights before it."""

    night: date
    raised_by: str
    worse: bool
    z: float
    level: float
    value: float


class BaselineRow(View):
    """A baseline, since when it was in force, and what it was made of."""

    since: date
    value: float
    n: int | None
    sd: float | None
    first_night: date | None
    last_night: date | None
    origin: str


class SeriesPage(Page):
    """One series. `items` is a keyset page of its measurements, newest first."""

    series: SeriesRow
    items: tuple[NightRow, ...]
    points: tuple[PointRow, ...]
    alarms: tuple[AlarmRow, ...]
    baselines: tuple[BaselineRow, ...]
    next: str | None = None


class Plot(View):
    """What the plot shows: a value a night, oldest first, and the places of points and alarms."""

    nights: tuple[date, ...]
    values: tuple[float, ...]
    baselines: tuple[float | None, ...]
    points: tuple[int, ...]
    alarms: tuple[int, ...]

    def columns(self) -> str:
        """Return the plot as JSON for uPlot: seconds since 1970, values, baselines, marks."""
        epoch = date(1970, 1, 1)
        times = [(night - epoch).days * 86_400 for night in self.nights]
        found = {"data": [times, self.values, self.baselines], "points": self.points, "alarms": self.alarms}
        return json.dumps(found)

    def svg(self, label: str) -> Markup:
        """Return the plot as a picture that needs no script."""
        marks = {**dict.fromkeys(self.points, "point"), **dict.fromkeys(self.alarms, "alarm")}
        level = next((value for value in reversed(self.baselines) if value is not None), None)
        return charts.nights(label, self.values, marks, level)


def add(router: APIRouter, site: Site) -> None:
    """Add the page."""
    wish = Annotated[Slice, Query()]

    def found(request: Request, series_id: int, wanted: Slice, most: int) -> SeriesPage:
        with site.sessions() as session:
            page = read(session, site.scope(request), series_id, wanted.after, most)
        if page is None:
            raise HTTPException(404, "this series is not known here")
        return page

    @router.get("/perf/series/{series_id}.json")
    def series_json(request: Request, series_id: SeriesId, wanted: wish) -> Response:
        """Return a page of a series' nights as JSON."""
        return as_json(found(request, series_id, wanted, wanted.limit))

    @router.get("/perf/series/{series_id}")
    def series_html(request: Request, series_id: SeriesId) -> HTMLResponse:
        """Show a series."""
        page = found(request, series_id, Slice(), MOST_ROWS)
        shown = {"page": page, "plot": plot(page)}
        return site.pages.render(request, "series.html", f"/perf/series/{series_id}.json", shown)


def read(session: Session, scope: Scope, series_id: int, token: str, most: int) -> SeriesPage | None:
    """Return the page; None where the viewer may not know the series."""
    row = session.execute(
        select(NightlySeries, Repository.full_name)
        .join(Repository, Repository.id == NightlySeries.repo_id)
        .where(scope.condition(), NightlySeries.id == series_id)
    ).first()
    if row is None:
        return None
    series, repo = row
    alarms = session.scalars(
        select(Alarm).where(Alarm.series_id == series_id).order_by(Alarm.night.desc()).limit(100)
    ).all()
    baselines = session.scalars(
        select(Baseline).where(Baseline.series_id == series_id).order_by(Baseline.since.desc()).limit(50)
    ).all()
    rows = measurements(session, series, token, most + 1)
    last = rows[most - 1] if len(rows) > most else None
    worse = next((alarm.night for alarm in alarms if alarm.worse), None)
    in_force = baselines_of(session, [series_id]).get(series_id)
    return SeriesPage(
        series=series_row(series, repo, in_force, worse),
        items=tuple(night_row(one) for one in rows[:most]),
        points=change_points(session, series),
        alarms=tuple(AlarmRow.model_validate(one, from_attributes=True) for one in alarms),
        baselines=tuple(BaselineRow.model_validate(one, from_attributes=True) for one in baselines),
        next=make_token([last.night, last.sha, last.source]) if last else None,
    )


def measurements(session: Session, series: NightlySeries, token: str, most: int) -> Sequence[Nightly]:
    """Return measurements, newest first; without a token those of the shown nights."""
    query = select(Nightly).where(Nightly.series_id == series.id).order_by(*(key.order() for key in KEYS))
    behind = after(KEYS, token) if token else None
    if behind is not None:
        query = query.where(behind)
    elif series.last_night is not None:
        query = query.where(Nightly.night > series.last_night - timedelta(days=SHOWN_NIGHTS))
    return session.scalars(query.limit(most)).all()


def night_row(row: Nightly) -> NightRow:
    """Return one measurement."""
    return NightRow(
        night=row.night,
        sha=row.sha,
        value=row.value,
        n=row.n,
        sd=row.sd,
        baseline=row.baseline,
        machine=row.machine,
        source=row.source,
        run=row.run_id,
    )


def change_points(session: Session, series: NightlySeries) -> tuple[PointRow, ...]:
    """Return the lasting changes of the shown nights, newest first."""
    if series.last_night is None:
        return ()
    since = series.last_night - timedelta(days=SHOWN_NIGHTS)
    rows = session.execute(
        select(Nightly.night, Nightly.value)
        .where(Nightly.series_id == series.id, Nightly.night > since)
        .order_by(Nightly.night)
        .limit(MOST_ROWS)
    ).all()
    by_night = {night: median(v for _, v in some) for night, some in groupby(rows, key=lambda row: row[0])}
    from perf_runner.history.changes import points

    found = points(Series(series.metric, tuple(by_night), tuple(by_night.values())))
    return tuple(
        PointRow(night=one.night, before=one.before, after=one.after, change_pct=one.change_pct)
        for one in reversed(found)
    )


def plot(page: SeriesPage) -> Plot:
    """Return what the plot shows: of several measurements of a night the median."""
    rows = sorted(page.items, key=lambda row: row.night)
    by_night = [(night, list(some)) for night, some in groupby(rows, key=lambda row: row.night)]
    nights = [night for night, _ in by_night]
    place = {night: n for n, night in enumerate(nights)}
    return Plot(
        nights=tuple(nights),
        values=tuple(median(row.value for row in some) for _, some in by_night),
        baselines=tuple(in_force(page.baselines, night, some) for night, some in by_night),
        points=tuple(place[one.night] for one in page.points if one.night in place),
        alarms=tuple(place[one.night] for one in page.alarms if one.night in place),
    )


def in_force(baselines: Sequence[BaselineRow], night: date, rows: Sequence[NightRow]) -> float | None:
    """Return the baseline of a night: the one measured against, else the one in force then."""
    met = next((row.baseline for row in rows if row.baseline is not None), None)
    return met if met is not None else next((one.value for one in baselines if one.since <= night), None)
