"""After a fix was merged: have the nights recovered? And how much of a gap does an A/B explain?"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from perf_runner.history.metrics import improvement_pct
from perf_runner.models import Decision, Direction

RECOVERED_SHARE = 0.8
NOT_SHARE = 0.2
FEWEST_NIGHTS = 2


@dataclass(frozen=True)
class RecoveryReport:
    """What the nights after a fix say; `share` of the loss came back (None: too few nights)."""

    state: Literal["recovered", "partly", "not", "too early"]
    share: float | None
    says: str


def after_fix(good: Sequence[float], bad: Sequence[float], later: Sequence[float]) -> RecoveryReport:
    """Return how far the nights `later` went back from the level of `bad` to that of `good`.

    ValueError where good and bad nights do not differ or are missing.
    """
    if not good or not bad:
        raise ValueError("needs nights from before and from during the regression")
    start, lost = statistics.median(good), statistics.median(bad)
    if start == lost:
        raise ValueError("the nights before and during do not differ")
    if len(later) < FEWEST_NIGHTS:
        return RecoveryReport(
            "too early", None, f"{len(later)} night since the fix; {FEWEST_NIGHTS} are needed"
        )
    share = (lost - statistics.median(later)) / (lost - start)
    percent = f"{share * 100:.0f} % of the loss came back over {len(later)} nights"
    if share >= RECOVERED_SHARE:
        return RecoveryReport("recovered", share, percent)
    if share > NOT_SHARE:
        return RecoveryReport("partly", share, percent)
    return RecoveryReport("not", share, percent)


@dataclass(frozen=True)
class GapSplit:
    """A nightly gap in two parts, in per cent, above 0 is slower; the A/B's part with its interval."""

    gap_pct: float
    explained_pct: float
    explained_low_pct: float
    explained_high_pct: float
    rest_pct: float
    says: str


def split_gap(baseline: float, nightly: float, way: Direction, found: Decision) -> GapSplit:
    """Return how much of a nightly gap the A/B of last good and flagged commit explains.

    Both are ratios and multiply: rest = (1 + gap) / (1 + explained) - 1. ValueError for a decision without
    an interval.
    """
    if found.change_pct is None or found.low_pct is None or found.high_pct is None:
        raise ValueError("this experiment has no interval yet")
    gap = -improvement_pct(baseline, nightly, way)
    rest = ((1.0 + gap / 100.0) / (1.0 + found.change_pct / 100.0) - 1.0) * 100.0
    says = (
        f"{gap:+.1f} % against the baseline: {found.change_pct:+.1f} % ({found.low_pct:+.1f} to "
        f"{found.high_pct:+.1f} %) is the code between the two commits, {rest:+.1f} % is host or baseline"
    )
    return GapSplit(gap, found.change_pct, found.low_pct, found.high_pct, rest, says)
