"""One nightly series: its nights, change points in hindsight, alarms as raised, baselines with origin."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby
from statistics import median
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi import Path as PathParameter
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup
from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from bot.dashboard import charts
from bot.dashboard.keyset import MOST_ITEMS, Key, after, make_token
from bot.dashboard.pages.perf import SeriesRow, series_row
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


@dataclass(frozen=True, slots=True)
class ShownNight:
    """One night of the plot."""

    night: date
    value: float
    baseline: float | None


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

    def found(request: Request, series_id: int, wanted: Slice) -> tuple[SeriesPage, Plot]:
        with site.sessions() as session:
            page = read(session, site.scope(request), series_id, wanted)
        if page is None:
            raise HTTPException(404, "this series is not known here")
        return page

    @router.get("/perf/series/{series_id}.json")
    def series_json(request: Request, series_id: SeriesId, wanted: wish) -> Response:
        """Return a page of a series' nights as JSON."""
        return as_json(found(request, series_id, wanted)[0])

    @router.get("/perf/series/{series_id}")
    def series_html(request: Request, series_id: SeriesId, wanted: wish) -> HTMLResponse:
        """Show a series."""
        page, drawn = found(request, series_id, wanted)
        shown = {"page": page, "plot": drawn, "next_url": f"?{urlencode({'after': page.next or ''})}"}
        return site.pages.render(request, "series.html", f"/perf/series/{series_id}.json", shown)


def read(session: Session, scope: Scope, series_id: int, wanted: Slice) -> tuple[SeriesPage, Plot] | None:
    """Return the page and its plot; None where the viewer may not know the series."""
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
    rows = measurements(session, series_id, wanted.after, wanted.limit + 1)
    nights = shown_nights(session, series)
    last = rows[wanted.limit - 1] if len(rows) > wanted.limit else None
    worse = next((alarm.night for alarm in alarms if alarm.worse), None)
    page = SeriesPage(
        series=series_row(series, repo, baselines[0] if baselines else None, worse),
        items=tuple(night_row(one) for one in rows[: wanted.limit]),
        points=change_points(series.metric, nights),
        alarms=tuple(AlarmRow.model_validate(one, from_attributes=True) for one in alarms),
        baselines=tuple(BaselineRow.model_validate(one, from_attributes=True) for one in baselines),
        next=make_token([last.night, last.sha, last.source]) if last else None,
    )
    return page, plot(page, nights)


def measurements(session: Session, series_id: int, token: str, most: int) -> Sequence[Nightly]:
    """Return measurements behind a token, newest first."""
    query = select(Nightly).where(Nightly.series_id == series_id).order_by(*(key.order() for key in KEYS))
    behind = after(KEYS, token) if token else None
    return session.scalars((query if behind is None else query.where(behind)).limit(most)).all()


def shown_nights(session: Session, series: NightlySeries) -> tuple[ShownNight, ...]:
    """Return the nights that are drawn, oldest first: of several measurements of one the median."""
    if series.last_night is None:
        return ()
    rows = session.execute(
        select(Nightly.night, Nightly.value, Nightly.baseline)
        .where(
            Nightly.series_id == series.id, Nightly.night > series.last_night - timedelta(days=SHOWN_NIGHTS)
        )
        .order_by(Nightly.night)
        .limit(MOST_ROWS)
    ).all()
    return tuple(
        ShownNight(
            night, median(row.value for row in some), next((r.baseline for r in some if r.baseline), None)
        )
        for night, some in ((night, list(group)) for night, group in groupby(rows, key=lambda row: row.night))
    )


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


def change_points(metric: str, nights: Sequence[ShownNight]) -> tuple[PointRow, ...]:
    """Return the lasting changes of some nights, newest first."""
    from perf_runner.history.changes import points

    found = points(Series(metric, tuple(one.night for one in nights), tuple(one.value for one in nights)))
    return tuple(
        PointRow(night=one.night, before=one.before, after=one.after, change_pct=one.change_pct)
        for one in reversed(found)
    )


def plot(page: SeriesPage, nights: Sequence[ShownNight]) -> Plot:
    """Return what the plot shows: against the baseline that a night met, else the one in force then."""
    place = {one.night: n for n, one in enumerate(nights)}
    return Plot(
        nights=tuple(one.night for one in nights),
        values=tuple(one.value for one in nights),
        baselines=tuple(
            one.baseline if one.baseline is not None else in_force(page.baselines, one.night)
            for one in nights
        ),
        points=tuple(place[one.night] for one in page.points if one.night in place),
        alarms=tuple(place[one.night] for one in page.alarms if one.night in place),
    )


def in_force(baselines: Sequence[BaselineRow], night: date) -> float | None:
    """Return the baseline of a night; they come newest first."""
    return next((one.value for one in baselines if one.since <= night), None)
