"""What rows weigh, and what a year of pull requests comes to: `python -m tests.load.sizing [--out FILE]`.

Rows are weighed in PostgreSQL with their indexes: deliveries and jobs of the recorded mix as the inbox writes
them, everything else as the pages' benchmark fills a store. Real webhooks and logs are longer than recorded
ones; `PAYLOAD_BYTES` and `LOG_BYTES` are plain assumptions, stated with the result.
"""

import argparse
import json
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, select, text, update
from sqlalchemy.orm import Session

from bot import inbox
from bot.db.engine import open_engine, open_sessions
from bot.db.migrate import upgrade
from bot.db.models import Base, Job, JobState
from bot.demo.recorded.logs import __file__ as recorded_logs
from bot.dispatch import jobs_for
from bot.events import parse
from bot.settings import Settings
from bot.webhook import Reading, understand
from tests.bot.dashboard.filling import Size, fill
from tests.load.mix import Recorded, copies, record
from tests.postgres import Postgres

SIZE = Size(pulls=500, failures=20_000, cases=40)
READING = Reading(parse, jobs_for)
MIB, GIB = 1024**2, 1024**3
PAYLOAD_BYTES = 5_000  # zlib-compressed; GitHub's events about pull requests are 20 to 30 kB of JSON
LOG_BYTES = 40_000  # zlib-compressed, of one red job: a log of about 400 kB
# A year of one repository, for each of its pull requests.
A_PULL = {
    "delivery": 60,  # comments, labels, pushes, and three events a CI job of a dozen
    "job": 40,
    "decision": 20,
    "event": 40,
    "comment": 5,
    "ci_job": 100,
    "outcome": 10,
    "log": 6,
    "run": 0.2,
    "run_block": 1.5,
    "pull": 1,
}
# Days that a table keeps its rows; those not named keep them for ever.
KEPT_DAYS = {
    "delivery": Settings.model_fields["keep_payload_days"].default * 3,  # the id; the payload goes sooner
    "job": Settings.model_fields["keep_payload_days"].default,
    "event": 7,
    "log": Settings.model_fields["keep_log_days"].default,
    "ci_job": 45,
    "outcome": Settings.model_fields["keep_log_days"].default,
}


@dataclass(frozen=True)
class Weight:
    """A table: its rows, and what one takes on disk with its indexes."""

    table: str
    rows: int
    bytes_per_row: float


def weigh(engine: Engine) -> Iterator[Weight]:
    """Yield the weight of every table that has rows enough to tell."""
    with Session(engine) as session:
        for table in Base.metadata.sorted_tables:
            rows = session.scalar(select(func.count()).select_from(table)) or 0
            size = session.scalar(text("SELECT pg_total_relation_size(:name)"), {"name": table.name}) or 0
            if rows >= 100:
                yield Weight(table.name, rows, size / rows)


def receive(engine: Engine, deliveries: list[Recorded]) -> None:
    """Write deliveries and their jobs as the inbox does, and end the jobs so that none stands for another."""
    sessions = open_sessions(engine)
    for number, one in enumerate(deliveries):
        incoming = understand(READING, f"delivery-{number:09d}", one.event, one.body)
        if incoming.jobs:
            with sessions.begin() as session:
                inbox.save_repositories(session, [incoming])
                inbox.store(session, [incoming])
                waiting = update(Job).where(Job.state == JobState.QUEUED)
                session.execute(waiting.values(state=JobState.DONE, dedupe_key=None))


def weights(folder: Path) -> dict[str, Weight]:
    """Return what rows weigh, each table from the store that fills it."""
    mix = record(folder)
    postgres = Postgres()
    found: dict[str, Weight] = {}
    try:
        for work in (lambda engine: fill(engine, SIZE), lambda engine: receive(engine, copies(mix, 15))):
            engine = open_engine(postgres.new_database())
            upgrade(engine)
            work(engine)
            found |= {one.table: one for one in weigh(engine)}
            engine.dispose()
    finally:
        postgres.stop()
    return found


def recorded(mix: tuple[Recorded, ...]) -> dict[str, float]:
    """Return how long recorded bodies and logs are, raw and compressed, in bytes."""
    bodies = [one.body for one in mix]
    logs = [path.read_bytes() for path in Path(recorded_logs).parent.glob("*.txt")]
    return {
        "payload_raw": sum(map(len, bodies)) / len(bodies),
        "payload_compressed": sum(len(zlib.compress(one, 1)) for one in bodies) / len(bodies),
        "log_ratio": sum(map(len, logs)) / sum(len(zlib.compress(one)) for one in logs),
    }


def a_year(found: dict[str, Weight], payload: float, pulls: int) -> dict[str, dict[str, float]]:
    """Return rows and bytes that stand after a year of so many pull requests, by table."""
    lines = {}
    for table, each in A_PULL.items():
        days = min(365, KEPT_DAYS.get(table, 365))
        rows = pulls * each * days / 365
        lines[table] = {
            "rows": round(rows),
            "bytes": round(rows * row_bytes(table, found, payload)),
            "days": days,
        }
    bodies = pulls * A_PULL["delivery"] * min(365, Settings.model_fields["keep_payload_days"].default) / 365
    lines["payloads of them"] = {"rows": round(bodies), "bytes": round(bodies * PAYLOAD_BYTES), "days": 30}
    return lines


def row_bytes(table: str, found: dict[str, Weight], payload: float) -> float:
    """Return what a row takes: weighed, or for the few that nothing fills here, a kilobyte."""
    if table == "log":
        return LOG_BYTES
    weighed = found[table].bytes_per_row if table in found else 1_000.0
    return weighed - payload if table == "delivery" else weighed


def report() -> dict[str, Any]:
    """Return the whole measurement."""
    with tempfile.TemporaryDirectory(prefix="sizing-") as name:
        (Path(name) / "mix").mkdir()
        (Path(name) / "rows").mkdir()
        lengths = recorded(record(Path(name) / "mix"))
        found = weights(Path(name) / "rows")
    year = a_year(found, lengths["payload_compressed"], 10_000)
    return {
        "schema": 1,
        "command": "python -m tests.load.sizing",
        "assumed": {"payload_bytes": PAYLOAD_BYTES, "log_bytes": LOG_BYTES, "rows_a_pull": A_PULL},
        "recorded": {name: round(value, 1) for name, value in lengths.items()},
        "bytes_per_row": {name: round(one.bytes_per_row) for name, one in sorted(found.items())},
        "year_of_10000_pulls": year,
        "year_total_gib": round(sum(line["bytes"] for line in year.values()) / GIB, 2),
    }


def main() -> int:
    """Print the tables, and write the report where asked."""
    options = argparse.ArgumentParser(prog="python -m tests.load.sizing", description=__doc__)
    options.add_argument("--out", type=Path, default=None, help="write the report here")
    asked = options.parse_args()
    found = report()
    for table, size in found["bytes_per_row"].items():
        print(f"{table:<20}{size:>10,} bytes a row")
    for table, line in found["year_of_10000_pulls"].items():
        print(
            f"{table:<20}{line['rows']:>12,} rows{line['bytes'] / MIB:>10,.0f} MiB  kept {line['days']} days"
        )
    print(f"after a year: {found['year_total_gib']} GiB")
    if asked.out is not None:
        asked.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
