"""Performance: what fails for how long, every nightly series with its baseline, the newest experiments."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import Field
from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session, load_only

from bot.dashboard.keyset import MOST_ITEMS, PAGE_SIZE, Key, after, make_token
from bot.dashboard.pages.queue import LIKE
from bot.dashboard.rendering import as_json
from bot.dashboard.site import Scope, Site
from bot.dashboard.views import Asking, Badge, Page, View
from bot.db.models import Repository, Run
from bot.db.nightly import Alarm, Baseline, Episode, NightlySeries
from bot.run_results import case_name
from perf_runner.history.metrics import improvement_pct
from perf_runner.models import Direction

MOST_EPISODES, MOST_RUNS = 20, 20
# A series this much worse than its baseline is what an episode is made of.
FAIL_BELOW_PCT = -6.0
KEYS = (
    Key(NightlySeries.test, str),
    Key(NightlySeries.config, str),
    Key(NightlySeries.metric, str),
    Key(NightlySeries.id, int),
)
EPISODE_STATES = {"open": "bad", "partly": "unsure", "recovered": "good"}


class SeriesFilters(Asking):
    """Which series; empty means all."""

    repo: str = Field(default="", max_length=200)
    text: str = Field(default="", max_length=200)
    metric: str = Field(default="", max_length=100)
    hardware: str = Field(default="", max_length=100)
    limit: int = Field(default=PAGE_SIZE, ge=1, le=MOST_ITEMS)

    @property
    def narrowed(self) -> bool:
        """Say whether anything narrows the list."""
        return bool(self.repo or self.text or self.metric or self.hardware)

    def address(self, **changes: str | None) -> str:
        """Return the address's query with changes."""
        values = {**self.model_dump(exclude_defaults=True, exclude={"after"}), **changes}
        return urlencode({key: value for key, value in values.items() if value})


class SeriesRow(View):
    """One metric of one case: its newest night against the baseline. `change_pct` above 0 is better."""

    id: int
    repo: str
    test: str
    config: str
    hardware: str
    metric: str
    unit: str
    nights: int
    last_night: date | None
    last_value: float | None
    baseline: float | None
    baseline_origin: str
    change: Badge
    change_pct: float | None
    alarm_night: date | None


class EpisodeRow(View):
    """Cases that fail together for some nights, and what an A/B on one host explained of it."""

    repo: str
    title: str
    hardware: str
    state: Badge
    first_night: date
    last_night: date
    days_failing: int
    worst_pct: float
    issue_url: str
    run: str | None
    explained: str


class RunRow(View):
    """One experiment."""

    id: str
    place: str
    number: int
    cases: str
    state: str
    requested_at: datetime
    requested_by: str


class PerfPage(Page):
    """A keyset page of the series, with the episodes and experiments above it."""

    items: tuple[SeriesRow, ...]
    episodes: tuple[EpisodeRow, ...]
    runs: tuple[RunRow, ...]
    next: str | None = None


def add(router: APIRouter, site: Site) -> None:
    """Add the page."""
    wish = Annotated[SeriesFilters, Query()]

    def found(request: Request, filters: SeriesFilters) -> PerfPage:
        with site.sessions() as session:
            return read(session, site.scope(request), filters, site.web_url)

    @router.get("/perf.json")
    def perf_json(request: Request, filters: wish) -> Response:
        """Return a page of the series as JSON."""
        return as_json(found(request, filters))

    @router.get("/perf")
    def perf_html(request: Request, filters: wish) -> HTMLResponse:
        """Show a page of the series."""
        page = found(request, filters)
        shown = {"page": page, "filters": filters, "next_url": f"?{filters.address(after=page.next)}"}
        return site.pages.render(request, "perf.html", f"/perf.json?{filters.address()}", shown)


def read(session: Session, scope: Scope, filters: SeriesFilters, web_url: str) -> PerfPage:
    """Return one page: a fixed number of reads."""
    query = (
        select(NightlySeries, Repository.full_name)
        .join(Repository, Repository.id == NightlySeries.repo_id)
        .where(scope.condition(), *conditions(filters))
        .order_by(*(key.order() for key in KEYS))
        .limit(filters.limit + 1)
    )
    behind = after(KEYS, filters.after) if filters.after else None
    rows = session.execute(query if behind is None else query.where(behind)).all()
    shown = rows[: filters.limit]
    ids = [series.id for series, _ in shown]
    baselines, alarms = baselines_of(session, ids), alarm_nights(session, ids)
    last = shown[-1][0] if len(rows) > filters.limit else None
    first = not filters.after
    return PerfPage(
        items=tuple(
            series_row(series, repo, baselines.get(series.id), alarms.get(series.id))
            for series, repo in shown
        ),
        episodes=episodes(session, scope, web_url) if first else (),
        runs=newest_runs(session, scope) if first else (),
        next=make_token([last.test, last.config, last.metric, last.id]) if last else None,
    )


def conditions(filters: SeriesFilters) -> list[ColumnElement[bool]]:
    """Return what the filters ask for."""
    found: list[ColumnElement[bool]] = []
    if filters.repo:
        found.append(func.lower(Repository.full_name) == filters.repo.strip().lower())
    if filters.text:
        like = f"%{filters.text.strip().translate(LIKE)}%"
        columns = (NightlySeries.test, NightlySeries.config, NightlySeries.model)
        found.append(or_(*(column.ilike(like, escape="\\") for column in columns)))
    if filters.metric:
        found.append(NightlySeries.metric == filters.metric.strip())
    if filters.hardware:
        found.append(NightlySeries.hardware == filters.hardware.strip())
    return found


def baselines_of(session: Session, ids: Sequence[int]) -> Mapping[int, Baseline]:
    """Return the baseline in force of each series."""
    rows = session.scalars(
        select(Baseline).where(Baseline.series_id.in_(ids)).order_by(Baseline.series_id, Baseline.since)
    )
    return {row.series_id: row for row in rows}


def alarm_nights(session: Session, ids: Sequence[int]) -> Mapping[int, date]:
    """Return the newest night on which each series raised an alarm for the worse."""
    asked = (
        select(Alarm.series_id, func.max(Alarm.night))
        .where(Alarm.series_id.in_(ids), Alarm.worse)
        .group_by(Alarm.series_id)
    )
    return dict(session.execute(asked).all())


def series_row(series: NightlySeries, repo: str, baseline: Baseline | None, alarm: date | None) -> SeriesRow:
    """Return one row."""
    change = change_of(series, baseline)
    return SeriesRow(
        id=series.id,
        repo=repo,
        test=series.test,
        config=series.config,
        hardware=series.hardware,
        metric=series.metric,
        unit=series.unit,
        nights=series.nights,
        last_night=series.last_night,
        last_value=series.last_value,
        baseline=baseline.value if baseline else None,
        baseline_origin=baseline.origin if baseline else "",
        change=change_badge(change),
        change_pct=change,
        alarm_night=alarm,
    )


def way_of(series: NightlySeries) -> Direction:
    """Return which direction of a series is better."""
    return "higher" if series.way == "higher" else "lower"


def change_of(series: NightlySeries, baseline: Baseline | None) -> float | None:
    """Return how much better (above 0) the newest night is than the baseline, in per cent."""
    if baseline is None or series.last_value is None or baseline.value <= 0 or series.last_value <= 0:
        return None
    return improvement_pct(baseline.value, series.last_value, way_of(series))


def change_badge(change: float | None) -> Badge:
    """Return a change against a baseline as a badge."""
    if change is None:
        return Badge(text="–")
    if change < FAIL_BELOW_PCT:
        return Badge(text=f"{-change:.1f} % worse", tone="bad")
    word = "better" if change >= 0 else "worse"
    return Badge(text=f"{abs(change):.1f} % {word}", tone="good" if change >= 0 else "soft")


def episodes(session: Session, scope: Scope, web_url: str) -> tuple[EpisodeRow, ...]:
    """Return the episodes that are not over, then the newest recovered ones."""
    open_first = Episode.state == "recovered"
    rows = session.execute(
        select(Episode, Repository.full_name)
        .join(Repository, Repository.id == Episode.repo_id)
        .where(scope.condition())
        .order_by(open_first, Episode.last_night.desc(), Episode.id)
        .limit(MOST_EPISODES)
    )
    return tuple(episode_row(episode, repo, web_url) for episode, repo in rows)


def episode_row(episode: Episode, repo: str, web_url: str) -> EpisodeRow:
    """Return one episode."""
    tone = EPISODE_STATES.get(episode.state, "unsure")
    explained = ""
    if episode.explained_pct is not None:
        low, high = episode.explained_low_pct, episode.explained_high_pct
        bounds = f" ({low:+.1f} to {high:+.1f} %)" if low is not None and high is not None else ""
        explained = f"{episode.explained_pct:+.1f} %{bounds} by the code on one host"
    return EpisodeRow(
        repo=repo,
        title=" ".join(part for part in (episode.test, episode.config) if part),
        hardware=episode.hardware,
        state=Badge.model_validate({"text": episode.state, "tone": tone}),
        first_night=episode.first_night,
        last_night=episode.last_night,
        days_failing=episode.days_failing,
        worst_pct=episode.worst_pct,
        issue_url=f"{web_url.rstrip('/')}/{repo}/issues/{episode.issue_number}"
        if episode.issue_number
        else "",
        run=episode.run_id,
        explained=explained,
    )


def newest_runs(session: Session, scope: Scope) -> tuple[RunRow, ...]:
    """Return the newest experiments."""
    wanted = (Run.id, Run.number, Run.spec, Run.state, Run.requested_at, Run.requested_by)
    rows = session.execute(
        select(Run, Repository.full_name)
        .join(Repository, Repository.id == Run.repo_id)
        .where(scope.condition(), Run.kind == "experiment")
        .order_by(Run.requested_at.desc(), Run.id)
        .limit(MOST_RUNS)
        .options(load_only(*wanted))
    )
    return tuple(
        RunRow(
            id=run.id,
            place=repo,
            number=run.number,
            cases=names(run.spec.get("cases", ())),
            state=run.state.value,
            requested_at=run.requested_at,
            requested_by=run.requested_by,
        )
        for run, repo in rows
    )


def names(cases: Iterable[object]) -> str:
    """Return the names of some cases, as text."""
    return ", ".join(case_name(case)[:100] for case in list(cases)[:5])
