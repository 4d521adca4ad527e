"""Change points and alarms of one series of nights.

Alarms come from a robust CUSUM that sees each night with the nights before it only, so they are what would
have been raised at the time; they are stored when raised, because hindsight forgets short episodes. Change
points are found in hindsight, by kernel change-point detection on medians of three nights. Both only trigger
an A/B of two commits on one host.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Literal

from perf_runner.history.metrics import direction
from perf_runner.history.series import Series
from perf_runner.history.signs import Night, is_stall
from perf_runner.models import Direction
from perf_runner.stats import MAD_TO_SD

WINDOW = 28  # nights of the CUSUM's reference
FEWEST_NIGHTS = 7  # before a night is judged
FEW_NIGHTS_TERM = 0.8  # Croux and Rousseeuw: n / (n - 0.8) for the median absolute deviation
CLIP = 4.0
SLACK = 1.0
THRESHOLD = 4.0
SD_FLOOR = 0.002  # of the level: a GPU-bound series can be constant to 0.01 %
MIN_CHANGE = 0.03
PENALTY = 4.0
SEGMENT_NIGHTS = 3


@dataclass(frozen=True)
class Alarm:
    """A night on which the series left its level. `z` is that night's distance from it in robust sds."""

    night: date
    raised_by: Literal["cusum"]
    z: float
    worse: bool
    since: date
    level: float
    value: float


@dataclass(frozen=True)
class Point:
    """A lasting change: the first night of the new level, and the mean levels before and after."""

    night: date
    before: float
    after: float
    change_pct: float


@dataclass(frozen=True)
class Stall:
    """A night whose mean was carried by a few requests."""

    night: date
    mean: float
    median: float
    says: str


@dataclass
class Cusum:
    """One side's running sum; `raised` while an alarm of this side is open."""

    total: float = 0.0
    since: int = 0
    raised: bool = False

    def add(self, excess: float, place: int) -> bool:
        """Add one night; say whether an alarm is raised now.

        An open alarm is silent until a night is back at the level of the reference.
        """
        if self.raised:
            self.raised = excess >= SLACK
            return False
        if self.total <= 0.0:
            self.since = place
        self.total = max(0.0, self.total + excess - SLACK)
        if self.total <= THRESHOLD:
            return False
        self.total, self.raised = 0.0, True
        return True


def reference(values: Sequence[float]) -> tuple[float, float]:
    """Return level and robust sd of the last nights of a window; the sd is corrected for few nights."""
    recent = values[-WINDOW:]
    level = statistics.median(recent)
    spread = MAD_TO_SD * statistics.median([abs(value - level) for value in recent])
    return level, max(spread * len(recent) / (len(recent) - FEW_NIGHTS_TERM), SD_FLOOR * level)


def alarms(series: Series) -> list[Alarm]:
    """Return the alarms in the order in which they would have been raised, each with earlier nights only.

    One shift is one alarm: after it a side is silent until the nights are back at the level of the reference,
    or the reference has followed them.
    """
    worse, better = Cusum(), Cusum()
    found: list[Alarm] = []
    sign = 1.0 if way_of(series) == "lower" else -1.0
    for place in range(FEWEST_NIGHTS, len(series.values)):
        value = series.values[place]
        level, sd = reference(series.values[:place])
        z = sign * (value - level) / sd
        clipped = min(max(z, -CLIP), CLIP)
        for side, excess in ((worse, clipped), (better, -clipped)):
            if side.add(excess, place):
                since = series.nights[side.since]
                night = series.nights[place]
                found.append(Alarm(night, "cusum", round(z, 2), side is worse, since, level, value))
    return found


def medians_of_three(values: Sequence[float]) -> list[float]:
    """Return the running median of each night and its two neighbours."""
    last = len(values) - 1
    return [statistics.median(values[max(0, n - 1) : min(last, n + 1) + 1]) for n in range(len(values))]


def split_places(values: Sequence[float]) -> list[int]:
    """Return where new levels begin, by PELT-like kernel detection on smoothed logs (linear kernel)."""
    if len(values) < 2 * SEGMENT_NIGHTS:
        return []
    import numpy as np
    import ruptures

    smooth = np.log(medians_of_three(values)).reshape(-1, 1)
    steps = np.diff(np.log(values))
    noise = max(MAD_TO_SD * float(np.median(np.abs(steps - np.median(steps)))) / math.sqrt(2.0), SD_FLOOR)
    search = ruptures.KernelCPD(kernel="linear", min_size=SEGMENT_NIGHTS).fit(smooth)
    ends = search.predict(pen=PENALTY * noise**2 * math.log(len(values)))
    return [int(end) for end in ends[:-1]]


def points(series: Series) -> list[Point]:
    """Return the lasting changes of at least 3 %, oldest first."""
    places = split_places(series.values)
    while True:
        edges = [0, *places, len(series.values)]
        levels = [statistics.fmean(series.values[a:b]) for a, b in pairwise(edges)]
        changes = [abs(after / before - 1.0) for before, after in pairwise(levels)]
        if not changes or min(changes) >= MIN_CHANGE:
            break
        places.pop(changes.index(min(changes)))
    return [
        Point(series.nights[place], before, after, round((after / before - 1.0) * 100.0, 2))
        for place, before, after in zip(places, levels, levels[1:], strict=False)
    ]


def stalls(nights: dict[date, Night]) -> list[Stall]:
    """Return the nights whose mean a few hanging requests carried."""
    found: list[Stall] = []
    before: list[Night] = []
    for night, summary in sorted(nights.items()):
        if is_stall(summary, before):
            excess = (summary.mean / summary.median - 1.0) * 100.0
            says = f"{night} was a stall: the mean is {excess:.0f} % above the median, so a few requests hung"
            found.append(Stall(night, summary.mean, summary.median, says))
        before.append(summary)
    return found


def way_of(series: Series) -> Direction:
    """Return the direction of a series' metric; lower is better where its name does not tell."""
    return direction(series.metric) or "lower"
