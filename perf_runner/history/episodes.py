"""Groups failing nightly rows into episodes: one finding for one measurement, however many rows say it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from perf_runner.history.metrics import direction, measures_speed_of_one_stream
from perf_runner.history.rows import NightlyRow
from perf_runner.history.signs import lost_batching

FAIL_BELOW_PCT = -6.0
LOOKBACK = timedelta(days=5)
CONCURRENCY = re.compile(r"(?:^|[\s,;(])(?:c|max-concurrency|concurrency)=(\d{1,6})")
AB_STEP = "A/B of last good and flagged commit on one host"


@dataclass(frozen=True)
class Episode:
    """One case failing over some nights. `rows` counts its rows; percentages are improvement-positive.

    `level` is what the nights are compared with where an alarm raised them and no baseline did.
    """

    test: str
    config: str
    hardware: str
    rows: int
    metrics: tuple[str, ...]
    worst_pct: float
    days_failing: int
    one_measurement: bool
    next_step: str
    notes: tuple[str, ...]
    issues: tuple[str, ...]
    first_night: date | None
    last_night: date | None
    last_commit: str
    model: str = ""
    level: float | None = None


def failing(row: NightlyRow) -> bool:
    """Say whether a row is worse than its baseline by more than 6 %."""
    return row.improvement_pct < FAIL_BELOW_PCT


def episodes(rows: Sequence[NightlyRow]) -> list[Episode]:
    """Return the episodes of nightly rows, the worst first."""
    cases: dict[tuple[str, str, str], list[NightlyRow]] = {}
    for row in rows:
        cases.setdefault((row.hardware, row.test, row.config), []).append(row)
    found = [episode(part, same, rows) for same in cases.values() for part in parted(same)]
    return sorted(found, key=lambda one: (one.worst_pct, one.test, one.config))


def parted(rows: Sequence[NightlyRow]) -> list[list[NightlyRow]]:
    """Return the failing rows of one case, parted where nothing failed for more than the lookback.

    Rows of one issue stay together: whoever filed it saw one episode.
    """
    parts: list[list[NightlyRow]] = []
    for row in sorted(filter(failing, rows), key=lambda one: (one.night or date.min, one.line)):
        if parts and belongs(row, parts[-1]):
            parts[-1].append(row)
        else:
            parts.append([row])
    return parts


def belongs(row: NightlyRow, part: Sequence[NightlyRow]) -> bool:
    """Say whether a row goes on with the episode before it."""
    last = part[-1].night
    if row.night is None or last is None:
        return True
    same_issue = bool(row.issue) and any(row.issue == other.issue for other in part)
    return same_issue or row.night - last <= LOOKBACK


def episode(part: Sequence[NightlyRow], same: Sequence[NightlyRow], rows: Sequence[NightlyRow]) -> Episode:
    """Return one episode; `same` are all rows of its case, `rows` those of the whole report."""
    nights = [row.night for row in part if row.night]
    last = max(part, key=lambda row: (row.night or date.min, row.line))
    one = is_one_measurement(part)
    signs = batching_sign(part, rows)
    return Episode(
        test=last.test,
        config=last.config,
        hardware=last.hardware,
        rows=len(part),
        metrics=tuple(sorted({row.metric for row in part})),
        worst_pct=round(min(row.improvement_pct for row in part), 2),
        days_failing=days_failing(part),
        one_measurement=one,
        next_step=next_step(part, same),
        notes=(*notes(part, same, one), *signs),
        issues=tuple(sorted({row.issue for row in part if row.issue})),
        first_night=min(nights, default=None),
        last_night=max(nights, default=None),
        last_commit=last.commit,
        model=last.model,
    )


def concurrency(config: str) -> int | None:
    """Return the `c=` of a config; None where it does not say."""
    found = CONCURRENCY.search(config[:500])
    return int(found.group(1)) if found else None


def is_one_measurement(part: Sequence[NightlyRow]) -> bool:
    """Say whether all rows tell one thing: one metric, or latency and throughput of requests one by one."""
    metrics = {row.metric for row in part}
    if len(metrics) == 1:
        return True
    return concurrency(part[0].config) == 1 and all(map(measures_speed_of_one_stream, metrics))


def days_failing(part: Sequence[NightlyRow]) -> int:
    """Return the consecutive calendar days that fail back from the latest, or what was published if more.

    A night without a record breaks the streak. Rows of an issue are an extract; the published count knows
    nights that are not among them.
    """
    nights = {row.night for row in part if row.night}
    last = max(nights, default=None)
    streak = 0
    while last is not None and last - timedelta(days=streak) in nights:
        streak += 1
    published = [row.published_days or 0 for row in part if row.night == last]
    return max([streak, *published])


def never_met(same: Iterable[NightlyRow]) -> list[str]:
    """Return the metrics whose baseline none of the case's nights met."""
    met: dict[tuple[str, float], list[bool]] = {}
    for row in same:
        met.setdefault((row.metric, row.baseline), []).append(row.improvement_pct >= 0)
    return [
        f"{metric} {value:g}"
        for (metric, value), nights in met.items()
        if len(nights) > 1 and not any(nights)
    ]


def next_step(part: Sequence[NightlyRow], same: Sequence[NightlyRow]) -> str:
    """Return what would tell code from host."""
    if any("rtf" in row.metric.lower() or "audio" in row.metric.lower() for row in part):
        return f"compare the work done (audio length) first, then {AB_STEP}"
    return AB_STEP


def notes(part: Sequence[NightlyRow], same: Sequence[NightlyRow], one: bool) -> list[str]:
    """Return what a reader must know about an episode's rows."""
    found = []
    if one and len({row.metric for row in part}) > 1:
        found.append("latency and throughput at concurrency 1 are one measurement: counted once")
    if any(row.heads_swapped for row in part):
        found.append("the table's heads of baseline and current were exchanged; put right by the percentages")
    wrong = [row for row in part if row.agrees is False]
    if wrong:
        lines = ", ".join(str(row.line) for row in wrong[:5])
        found.append(f"the published percentage does not follow from the row's numbers (line {lines})")
    missed = never_met(same)
    if missed:
        found.append(f"no night given met the baseline ({'; '.join(missed)}): was it ever met?")
    recovered = [row for row in part if "recover" in row.status.lower()]
    if recovered:
        found.append("a night is marked as recovered though it is still worse than 6 %")
    if any(row.hardware.upper().startswith(("NPU", "A2", "A3")) for row in part):
        found.append("an NPU row: make sure that its baseline is not that of another device")
    return found


def batching_sign(part: Sequence[NightlyRow], rows: Sequence[NightlyRow]) -> list[str]:
    """Return the sign of lost batching where the report has several concurrencies of one night."""
    if (concurrency(part[0].config) or 1) < 2:
        return []
    night, family = part[-1].night, family_of(part[-1])
    points: dict[int, dict[str, float]] = {}
    for row in rows:
        level, way = concurrency(row.config), direction(row.metric)
        if (
            level
            and way
            and row.night == night
            and family_of(row) == family
            and row.hardware == part[-1].hardware
        ):
            points.setdefault(level, {})[way] = row.latest
    speeds: Mapping[int, tuple[float, float]] = {
        level: (
            values.get("lower") or level / values["higher"],
            values.get("higher") or level / values["lower"],
        )
        for level, values in points.items()
        if values
    }
    if lost_batching(speeds):
        return ["throughput is flat while latency grows with concurrency: requests are served one by one"]
    return []


def family_of(row: NightlyRow) -> str:
    """Return what a test's rows at several concurrencies have in common."""
    bench = row.config.partition(",")[0].removesuffix("_high_concurrency")
    return row.test.removesuffix("_high_concurrency") + "/" + bench
