"""Which episodes the stored nights hold: failing against a baseline, or raised by an alarm without one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from bot.db.nightly import Alarm, Nightly, NightlySeries
from bot.nightly.values import Value, judged_rows, per_night, way_of
from perf_runner.history.episodes import Episode as CaseEpisode
from perf_runner.history.episodes import episode, episodes
from perf_runner.history.families import Family, families
from perf_runner.history.measurements import PRIMARY, gated
from perf_runner.history.metrics import improvement_pct
from perf_runner.history.rows import NightlyRow

HISTORY = timedelta(days=45)
FRESH_ALARM = timedelta(days=14)
BACK_AT_LEVEL = 0.5  # of the jump that raised an alarm: below it the nights are back
Case = tuple[str, str, str]


@dataclass(frozen=True)
class Metric:
    """A case's series with its nights, one value each."""

    series: NightlySeries
    nights: tuple[Value, ...]

    def at(self, night: date) -> Value | None:
        """Return the value of a night."""
        return next((value for value in self.nights if value.night == night), None)


@dataclass(frozen=True)
class Nights:
    """The newest nights of a repository: every metric by case, and the families that fail in them."""

    metrics: Mapping[Case, Mapping[str, Metric]] = field(default_factory=dict)
    families: tuple[Family, ...] = ()

    def of(self, case: CaseEpisode) -> Mapping[str, Metric]:
        """Return the metrics of an episode's case."""
        return self.metrics.get((case.test, case.config, case.hardware), {})

    def judged(self, case: CaseEpisode) -> Metric:
        """Return the failing metric that a case is shown by: its primary one where that fails."""
        name = next((one for one in PRIMARY if one in case.metrics), case.metrics[0])
        return self.of(case)[name]


def read_nights(session: Session, repo_id: int) -> Nights:
    """Return the nights of the last weeks; empty where a repository has none."""
    newest = session.scalar(
        select(func.max(NightlySeries.last_night)).where(NightlySeries.repo_id == repo_id)
    )
    if newest is None:
        return Nights()
    series = {
        row.id: row
        for row in session.scalars(select(NightlySeries).where(NightlySeries.repo_id == repo_id))
        if row.last_night and row.last_night > newest - HISTORY
    }
    rows: dict[int, list[Nightly]] = {}
    asked = select(Nightly).where(Nightly.repo_id == repo_id, Nightly.night > newest - HISTORY)
    for row in session.scalars(asked.order_by(Nightly.night)):
        rows.setdefault(row.series_id, []).append(row)
    alarms = session.scalars(
        select(Alarm).where(
            Alarm.repo_id == repo_id, Alarm.night > newest - FRESH_ALARM, Alarm.worse.is_(True)
        )
    )
    return nights_of(series, rows, list(alarms))


def nights_of(
    series: Mapping[int, NightlySeries], rows: Mapping[int, Sequence[Nightly]], raised: Sequence[Alarm]
) -> Nights:
    """Return nights and families of stored rows: pure."""
    metrics: dict[Case, dict[str, Metric]] = {}
    judged: list[NightlyRow] = []
    for series_id, row in series.items():
        there = rows.get(series_id, ())
        case = (row.test, row.config, row.hardware)
        metrics.setdefault(case, {})[row.metric] = Metric(row, tuple(per_night(there)))
        if gated(row.metric):
            judged += judged_rows(row, there)
    failing = episodes(judged)
    seen = {(one.test, one.config, one.hardware) for one in failing}
    alarmed = []
    for alarm in raised:
        alarmed_row = series.get(alarm.series_id)
        if alarmed_row is None:
            continue
        case = (alarmed_row.test, alarmed_row.config, alarmed_row.hardware)
        if case not in seen:
            alarmed += alarm_episode(metrics[case][alarmed_row.metric], alarm)
    return Nights(metrics, tuple(families([*failing, *alarmed])))


def alarm_episode(metric: Metric, alarm: Alarm) -> list[CaseEpisode]:
    """Return the episode of an alarm without a failing baseline: its nights until they were back."""
    row, way = metric.series, way_of(metric.series)
    jump = improvement_pct(alarm.level, alarm.value, way)
    part: list[NightlyRow] = []
    for value in metric.nights:
        change = improvement_pct(alarm.level, value.value, way)
        if value.night < alarm.since:
            continue
        if change > jump * BACK_AT_LEVEL:
            if value.night >= alarm.night:
                break
            continue
        part.append(row_of(row, value, alarm.level, change))
    if not part:
        return []
    says = (
        f"raised by {alarm.raised_by}, z {alarm.z:+.1f} against a level of {alarm.level:g}; no baseline fails"
    )
    made = episode(part, part, [])
    return [replace(made, notes=(says,), level=alarm.level)]


def row_of(row: NightlySeries, value: Value, level: float, change: float) -> NightlyRow:
    """Return a night against the level that its alarm was raised from."""
    return NightlyRow(
        line=0,
        test=row.test,
        metric=row.metric,
        latest=value.value,
        baseline=level,
        improvement_pct=change,
        config=row.config,
        night=value.night,
        commit=value.sha,
        hardware=row.hardware,
        model=row.model,
    )
