"""From stored rows to one value a night: which source counts, and rows as the episodes are made of. Pure."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from bot.db.nightly import Nightly, NightlySeries
from perf_runner.history.metrics import improvement_pct
from perf_runner.history.rows import NightlyRow
from perf_runner.models import Direction

# Which of several sources of one night counts: what we measured, the raw file, then what people copied.
SOURCES = ("run", "result", "issue", "table")


@dataclass(frozen=True, slots=True)
class Value:
    """A series on one night."""

    night: date
    value: float
    sha: str
    baseline: float | None
    source: str
    machine: str = ""


def rank(source: str) -> int:
    """Return the place of a source among `SOURCES`."""
    kind = source.partition(":")[0]
    return SOURCES.index(kind) if kind in SOURCES else len(SOURCES)


def best(rows: Sequence[Nightly]) -> list[Nightly]:
    """Return the rows of one night's best source; copies of one table in several issues are one."""
    top = min(rank(row.source) for row in rows)
    kept = [row for row in rows if rank(row.source) == top]
    return list({(row.sha, row.value): row for row in kept}.values())


def per_night(rows: Iterable[Nightly]) -> list[Value]:
    """Return one value a night, oldest first: the median where a night was measured several times."""
    nights: dict[date, list[Nightly]] = {}
    for row in rows:
        nights.setdefault(row.night, []).append(row)
    found = []
    for night, same in sorted(nights.items()):
        kept = best(same)
        middle = sorted(kept, key=lambda row: row.value)[len(kept) // 2]
        value = statistics.median(row.value for row in kept)
        found.append(Value(night, value, middle.sha, middle.baseline, middle.source, middle.machine))
    return found


def way_of(series: NightlySeries) -> Direction:
    """Return which way a series is better."""
    return "higher" if series.way == "higher" else "lower"


def judged_rows(series: NightlySeries, rows: Iterable[Nightly]) -> list[NightlyRow]:
    """Return a series' nights as rows against their baselines; a night measured twice counts twice."""
    nights: dict[date, list[Nightly]] = {}
    for row in rows:
        if row.baseline is not None and row.baseline > 0:
            nights.setdefault(row.night, []).append(row)
    return [judged(series, row) for _, same in sorted(nights.items()) for row in best(same)]


def judged(series: NightlySeries, row: Nightly) -> NightlyRow:
    """Return one night against its baseline."""
    assert row.baseline is not None
    return NightlyRow(
        line=0,
        test=series.test,
        metric=series.metric,
        latest=row.value,
        baseline=row.baseline,
        improvement_pct=improvement_pct(row.baseline, row.value, way_of(series)),
        config=series.config,
        night=row.night,
        commit=row.sha,
        hardware=series.hardware,
        model=series.model,
        issue=row.source.removeprefix("issue:") if row.source.startswith("issue:") else "",
        published_days=row.published_days,
        status=row.status,
    )
