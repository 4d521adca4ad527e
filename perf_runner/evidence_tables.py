"""Reads the tables of a benchmark page (`perf_runner.bench.tables`) as evidence: a path against eager.

A table tells of many paths; each is a claim of its own, against the row `eager` of the same work. A table
shows raw runs and counters; memory, tests and local figures are in a record of one path, so those checks say
that they are missing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from perf_runner.evidence_models import ArmEvidence, Evidence, mapping, number, numbers
from perf_runner.reading import InputError

RUNS = (("runs_s", 1.0), ("runs_ms", 1e-3))
BASE_PATH = "eager"
NEEDED = "`before` and `after` with three or more raw runs each, their path log and output hash"


def is_table(document: Mapping[str, Any]) -> bool:
    """Say whether a document is a table of several measurements rather than one result."""
    return isinstance(document.get("rows"), list) or "calibrations" in document


def read_table(document: Mapping[str, Any], where: str) -> list[tuple[str, Evidence]]:
    """Return name and evidence of each path of a table; InputError where its rows hold no raw runs."""
    rows = [mapping(row) for row in document.get("rows") or ()]
    timed = [row for row in rows if run_seconds(row)]
    name = str(document.get("table") or "calibration")[:100]
    if not timed:
        raise InputError(
            f"{where}: the table {name!r} holds no raw runs, so it is no record of a claim: {NEEDED}"
        )
    after = [row for row in timed if row.get("path") != BASE_PATH]
    return [(title(name, row), claim(document, row, base_of(row, timed))) for row in after]


def run_seconds(row: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the raw runs of a row in seconds."""
    for key, scale in RUNS:
        if key in row:
            return tuple(value * scale for value in numbers(row[key]))
    return ()


def title(table: str, row: Mapping[str, Any]) -> str:
    """Return what a row is called: its table, its work, its path."""
    words = [f"{key} {row[key]}" for key in ("pixels", "concurrency") if key in row]
    return " ".join([table, *words, str(row.get("path", ""))]).strip()[:300]


def base_of(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the eager row of the same work."""
    same = [one for one in rows if one.get("path") == BASE_PATH and one.get("pixels") == row.get("pixels")]
    return same[0] if same else None


def claim(document: Mapping[str, Any], row: Mapping[str, Any], base: Mapping[str, Any] | None) -> Evidence:
    """Return the evidence of one row against its base."""
    workload = {**mapping(document.get("workload"))}
    if "pixels" in row:
        workload["pixels"] = row["pixels"]
    error = number(row.get("error_to_eager"))
    return Evidence(
        after=arm(row, workload),
        before=arm(base, workload) if base else None,
        workload=workload,
        environment=mapping(document.get("environment")),
        correctness={} if error is None else {"max_error": error},
        claim={},
    )


def arm(row: Mapping[str, Any], workload: Mapping[str, Any]) -> ArmEvidence:
    """Return one row as a side of a comparison."""
    times = run_seconds(row)
    counts = {str(k): n for k, v in mapping(row.get("path_log")).items() if (n := number(v)) is not None}
    hashed = row.get("output_hash")
    return ArmEvidence(
        run_seconds=times,
        requests=len(times),
        path_log=counts,
        output_hash=hashed if isinstance(hashed, str) else None,
        workload=workload,
    )
