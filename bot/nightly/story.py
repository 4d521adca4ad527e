"""What the nights of one episode say: its cases, its edge, which tip has which suspect, is it over."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from bot.nightly.found import Metric, Nights
from bot.nightly.source import Commit
from bot.nightly.values import Value, way_of
from perf_runner.history.episodes import FAIL_BELOW_PCT
from perf_runner.history.episodes import Episode as CaseEpisode
from perf_runner.history.families import Family
from perf_runner.history.metrics import improvement_pct
from perf_runner.history.recovery import RecoveryReport, after_fix
from perf_runner.history.tips import Edge, Tip, edge_of

SHOWN_NIGHTS = 14
MOST_SUSPECTS = 4
GOOD_NIGHTS = 14
QUIET_NIGHTS = 2  # without a fix: so many good nights after the last failing one, and it went away


@dataclass(frozen=True)
class CaseRow:
    """A case of the table; `change_pct` above 0 is better."""

    test: str
    config: str
    metric: str
    unit: str
    latest: float
    reference: float
    change_pct: float
    days: int
    since: date
    joined: bool


@dataclass(frozen=True)
class NightRow:
    """A night of the first case; `holds` says of each suspect whether the tip has it."""

    night: date
    sha: str
    value: float
    change_pct: float | None
    failing: bool
    holds: tuple[bool, ...] = ()


def case_rows(family: Family, nights: Nights) -> tuple[CaseRow, ...]:
    """Return one row a case: its judged metric on the last night that failed."""
    return tuple(case_row(case, family, nights.judged(case)) for case in family.cases)


def case_row(case: CaseEpisode, family: Family, metric: Metric) -> CaseRow:
    """Return one case's row."""
    assert case.first_night is not None
    assert case.last_night is not None
    last = metric.at(case.last_night) or metric.nights[-1]
    reference = reference_of(case, metric, last)
    change = improvement_pct(reference, last.value, way_of(metric.series))
    return CaseRow(
        test=case.test,
        config=case.config,
        metric=metric.series.metric,
        unit=metric.series.unit,
        latest=last.value,
        reference=reference,
        change_pct=change,
        days=case.days_failing,
        since=case.first_night,
        joined=case.first_night > family.first_night,
    )


def reference_of(case: CaseEpisode, metric: Metric, night: Value) -> float:
    """Return what a night is compared with: the alarm's level, its baseline, else the good nights' median."""
    if case.level:
        return case.level
    if night.baseline:
        return night.baseline
    good = [value.value for value in metric.nights if case.first_night and value.night < case.first_night]
    return sorted(good)[len(good) // 2] if good else night.value


def tips_of(case: CaseEpisode, metric: Metric) -> tuple[Tip, ...]:
    """Return the nights of a case with whether each failed, by baseline or by the episode's own nights."""
    return tuple(Tip(value.night, value.sha, fails(case, metric, value)) for value in metric.nights)


def fails(case: CaseEpisode, metric: Metric, value: Value) -> bool:
    """Say whether a night failed: worse than its reference by more than 6 %, or half of an alarm's jump."""
    change = improvement_pct(reference_of(case, metric, value), value.value, way_of(metric.series))
    limit = case.worst_pct / 2.0 if case.level else FAIL_BELOW_PCT
    return change < limit


def edge(case: CaseEpisode, metric: Metric) -> Edge | None:
    """Return last good and first failing night of an episode, whether or not it is over."""
    last = case.last_night
    return edge_of([tip for tip in tips_of(case, metric) if last is None or tip.night <= last])


def night_rows(
    case: CaseEpisode, metric: Metric, suspects: Sequence[str], holds: Callable[[str, str], bool]
) -> tuple[NightRow, ...]:
    """Return the newest nights, from four before the first failing one."""
    since = (case.first_night or date.min) - timedelta(days=4)
    shown = [value for value in metric.nights if value.night >= since][-SHOWN_NIGHTS:]
    return tuple(
        NightRow(
            value.night,
            value.sha,
            value.value,
            round(improvement_pct(reference_of(case, metric, value), value.value, way_of(metric.series)), 2)
            + 0.0,
            fails(case, metric, value),
            tuple(holds(sha, value.sha) for sha in suspects),
        )
        for value in shown
    )


def fitting(rows: Sequence[NightRow], suspects: Sequence[str]) -> frozenset[str]:
    """Return the suspects that are in every failing night and in no good one."""
    return frozenset(
        sha
        for place, sha in enumerate(suspects)
        if rows and all(row.holds[place] is row.failing for row in rows)
    )


def recovery(case: CaseEpisode, metric: Metric, fixed: Callable[[str], bool] | None) -> RecoveryReport | None:
    """Return what the nights say since the fix, or since the last failing night where no fix is known.

    `fixed` says whether a tip has the fix. None: it still goes on, and no fix was merged.
    """
    assert case.first_night is not None
    assert case.last_night is not None
    first, last = case.first_night, case.last_night
    since = [value for value in metric.nights if value.night >= first]
    later = (
        [value for value in since if fixed(value.sha)]
        if fixed
        else [value for value in since if value.night > last]
    )
    if not fixed and len(later) < QUIET_NIGHTS:
        return None
    bad = [value for value in since if value not in later and fails(case, metric, value)]
    good = [value.value for value in metric.nights if value.night < first and not fails(case, metric, value)]
    good = good[-GOOD_NIGHTS:] or [reference_of(case, metric, value) for value in bad[:1]]
    try:
        return after_fix(good, [value.value for value in bad], [value.value for value in later])
    except ValueError:
        return None


def suspects_of(commits: Sequence[Commit] | None) -> tuple[str, ...]:
    """Return the commits that the table of nights has a column for, the newest first."""
    return tuple(commit.sha for commit in (commits or ())[:MOST_SUSPECTS])
