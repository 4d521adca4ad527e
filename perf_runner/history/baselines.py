"""Baselines with their origin: whether their own data ever met them, and what a refresh would hide."""

import statistics
from dataclasses import dataclass
from datetime import date

from perf_runner.history.metrics import improvement_pct
from perf_runner.history.series import Series
from perf_runner.models import Direction

TIGHT_PCT = 1.0  # a baseline this much better than the data it comes from was not measured


@dataclass(frozen=True)
class Baseline:
    """A reference value and where it comes from. `window` holds the first and last night of its data."""

    value: float
    n: int | None = None
    sd: float | None = None
    window: tuple[date, date] | None = None
    origin: str = ""


@dataclass(frozen=True)
class BaselineFinding:
    """What is wrong with a baseline: `never_met` since it was set, or `tighter_than_its_data`."""

    kind: str
    says: str


@dataclass(frozen=True)
class Refresh:
    """A proposal for a new baseline, and the regressions it would make invisible (improvement-positive)."""

    proposed: Baseline
    change_pct: float
    hides: tuple[str, ...]


def between(series: Series, first: date | None, last: date | None) -> list[float]:
    """Return the values of the nights from `first` to `last` (None: open)."""
    return [
        value
        for night, value in zip(series.nights, series.values, strict=True)
        if (first is None or night >= first) and (last is None or night <= last)
    ]


def examine(baseline: Baseline, series: Series, way: Direction, since: date | None) -> list[BaselineFinding]:
    """Return what is wrong with a baseline that has been in force since `since`."""
    found = []
    nights = between(series, since, None)
    met = sum(improvement_pct(baseline.value, value, way) >= 0 for value in nights)
    if nights and met == 0:
        best = max(improvement_pct(baseline.value, value, way) for value in nights)
        says = f"never met: 0 of {len(nights)} nights since it was set; the best was {best:+.1f} % against it"
        found.append(BaselineFinding("never_met", says))
    own = between(series, *baseline.window) if baseline.window else []
    if own:
        mean = statistics.fmean(own)
        gap = improvement_pct(baseline.value, mean, way)
        if gap < -TIGHT_PCT:
            met = sum(improvement_pct(baseline.value, value, way) >= 0 for value in own)
            says = (
                f"tighter than its data: the mean of its {len(own)} nights is {mean:g}, {-gap:.1f} % worse "
                f"than the baseline; {met} of them met it"
            )
            found.append(BaselineFinding("tighter_than_its_data", says))
    return found


def propose(old: Baseline, series: Series, window: tuple[date, date], way: Direction) -> Refresh:
    """Return a new baseline from a window of nights (median, n, sd) and what taking it would hide.

    ValueError with fewer than three nights in the window.
    """
    values = between(series, *window)
    if len(values) < 3:
        raise ValueError(f"{len(values)} nights in the window; a baseline needs three or more")
    median, sd = statistics.median(values), statistics.stdev(values)
    proposed = Baseline(median, len(values), sd, window, "median of the window's nights")
    change = improvement_pct(old.value, median, way)
    hides = []
    if change < 0:
        hides.append(f"a slowdown of {-change:.1f} % against the old baseline would become the new normal")
    worst = min(improvement_pct(median, value, way) for value in values)
    if worst < -6.0:
        hides.append(f"the window holds a night that is {-worst:.1f} % worse than its own median")
    return Refresh(proposed, change, tuple(hides))
