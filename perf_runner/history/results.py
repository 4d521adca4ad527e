"""Nightly rows from vllm-omni's own result files: each record against the baseline that it carries."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from perf_runner.compare import Record, parse_results
from perf_runner.history.metrics import direction, improvement_pct
from perf_runner.history.rows import NightlyRow


def rows_of_results(text: str, where: str) -> list[NightlyRow]:
    """Return a row per metric that has a baseline; InputError for a file that is no measurement.

    A baseline may be flat (old files) or one a kind of hardware; of several the record's own is taken, and
    with none of its own the record gives no rows: a number of another device is no baseline.
    """
    records = parse_results(text, where).values()
    return [row for number, record in enumerate(records, start=1) for row in rows_of(record, number)]


def rows_of(record: Record, number: int) -> list[NightlyRow]:
    """Return the rows of one record."""
    rows = []
    for metric, baseline in chosen_baseline(record).items():
        way, latest = direction(metric), record.metrics.get(metric)
        if way is None or latest is None or not is_value(baseline):
            continue
        change = improvement_pct(float(baseline), latest, way)
        rows.append(
            NightlyRow(
                line=number,
                test=record.test,
                config=record.config,
                metric=metric,
                latest=latest,
                baseline=float(baseline),
                improvement_pct=change,
                night=night_of(record.timestamp),
                commit=record.commit,
                hardware=record.hardware,
                model=record.model,
            )
        )
    return rows


def chosen_baseline(record: Record) -> Mapping[str, Any]:
    """Return the metrics of the baseline that holds for the record's hardware."""
    nested = {name: value for name, value in record.baseline.items() if isinstance(value, dict)}
    if not nested:
        return record.baseline
    if record.hardware in nested:
        return dict(nested[record.hardware])
    return dict(next(iter(nested.values()))) if len(nested) == 1 and not record.hardware else {}


def is_value(value: Any) -> bool:
    """Say whether a baseline is one number above 0 (lists belong to sweeps and are narrowed before)."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def night_of(timestamp: str) -> date | None:
    """Return the night of a timestamp like 20260401-184435; None for another form."""
    try:
        return datetime.strptime(timestamp[:8], "%Y%m%d").date()  # noqa: DTZ007 - a date is all that is read
    except ValueError:
        return None
