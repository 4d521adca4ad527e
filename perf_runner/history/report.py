"""The documents that `prgate nightly` and `prgate changes` print."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from typing import Any

from perf_runner.history.changes import alarms, points, stalls
from perf_runner.history.episodes import Episode
from perf_runner.history.rows import NightlyRow
from perf_runner.history.series import Series
from perf_runner.history.signs import Night


def nightly_document(
    rows: Sequence[NightlyRow], left_out: Sequence[str], found: Sequence[Episode]
) -> dict[str, Any]:
    """Return episodes, and how the rows' published percentages fared against those computed."""
    checked = [row for row in rows if row.agrees is not None]
    return {
        "episodes": [asdict(one) for one in found],
        "rows": len(rows),
        "rows_with_published_pct": len(checked),
        "rows_that_agree": sum(bool(row.agrees) for row in checked),
        "rows_with_swapped_heads": sum(row.heads_swapped for row in rows),
        "disagree": [
            {
                "line": row.line,
                "computed_pct": round(row.improvement_pct, 2),
                "published_pct": row.published_pct,
            }
            for row in checked
            if not row.agrees
        ],
        "left_out": list(left_out),
    }


def changes_document(series: Series, nights: Mapping[date, Night]) -> dict[str, Any]:
    """Return the series' change points, alarms and stalls."""

    def dated(value: Any) -> dict[str, Any]:
        fields = asdict(value)
        return {"date": fields.pop("night"), **fields}

    return {
        "metric": series.metric,
        "nights": len(series.values),
        "points": [dated(point) for point in points(series)],
        "alarms": [dated(alarm) for alarm in alarms(series)],
        "notes": [dated(stall) for stall in stalls(dict(nights))],
    }
