"""`python -m tests.load`: the service under a recorded mix, beside a bare application; exit 1 below the bars.

Prints one table and, with --out, writes the report. Clients and servers share this machine: ratios count.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from perf_runner.machine import fingerprint
from tests.load.measure import Plan, measure
from tests.load.mix import copies, record
from tests.postgres import Postgres

COPIES = 20
BARS = {
    "a third of the bare application": lambda row: row["ratio"] >= 1 / 3,
    "no error": lambda row: row["refused"] == row["refused_of_them"] == 0,
    "p99 at most 10 times p50": lambda row: row["p99_over_p50"] <= 10,
    "flat memory": lambda row: row["memory_growth"] <= 1.1,
    "the backlog drains": lambda row: row["left"] == 0,
}
SHOWN = (
    "database", "bare_per_second", "service_per_second", "ratio", "p50_ms", "p99_ms", "p99_over_p50",
    "refused", "early_mib", "late_mib", "backlog_jobs", "drained_in_s",
)  # fmt: skip


def main() -> int:
    """Measure both databases and judge."""
    options = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    options.add_argument("--clients", type=int, default=Plan.clients)
    options.add_argument("--rounds", type=int, default=Plan.rounds)
    options.add_argument("--seconds", type=float, default=Plan.seconds)
    options.add_argument("--deliveries", type=int, default=Plan.deliveries)
    options.add_argument("--out", type=Path, default=None, help="write the report here")
    asked = options.parse_args()
    rows = run(Plan(asked.clients, asked.rounds, asked.seconds, asked.deliveries))
    report = {"schema": 1, "machine": machine(), "command": "make load", "rows": rows}
    show(rows)
    if asked.out is not None:
        asked.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    missed = [f"{row['database']}: {name}" for row in rows for name, bar in BARS.items() if not bar(row)]
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed else 0


def run(plan: Plan) -> list[dict[str, Any]]:
    """Return the figures of SQLite and of PostgreSQL."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="load-") as name:
        folder = Path(name)
        deliveries = copies(record(folder), COPIES)
        rows.append(measure(f"sqlite:///{folder / 'load.db'}", folder, deliveries, plan))
        postgres = Postgres()
        try:
            rows.append(measure(postgres.new_database(), folder, deliveries, plan))
        finally:
            postgres.stop()
    return rows


def machine() -> dict[str, Any]:
    """Return what was measured on, in neutral words."""
    found = fingerprint(probe=False)
    load = os.getloadavg()[0]
    return {"cpu": found.cpu_model, "cores": found.cpu_cores, "load_before": round(load, 1)}


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table."""
    for name in SHOWN:
        print(f"{name.replace('_', ' '):<22}" + "".join(f"{row[name]!s:>14}" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
