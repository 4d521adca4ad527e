"""Reads nightly rows as people publish them: CSV or Markdown tables, in several header dialects."""

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from perf_runner.history.metrics import direction, improvement_pct
from perf_runner.reading import InputError

ROWS_LIMIT = 100_000
CELL_LIMIT = 2_000
HEADERS: Mapping[str, tuple[str, ...]] = {
    "issue": ("issue", "issue number"),
    "date": ("date", "night", "day"),
    "commit": ("commit", "tip", "sha", "commit sha"),
    "hardware": ("hardware", "device", "gpu"),
    "model": ("model",),
    "test": ("test", "test name", "test case", "case"),
    "config": ("config", "configuration", "params", "workload"),
    "metric": ("metric", "metrics", "metrics failing", "failing metric"),
    "latest": ("latest", "current", "current value", "latest value", "measured", "value"),
    "baseline": ("baseline", "baseline value", "golden", "reference"),
    "change": ("vs baseline pct", "vs baseline", "vs baseline %", "change", "delta", "diff", "regression"),
    "status": ("status", "result"),
    "days": ("days failing", "trend", "trigger", "age", "duration", "consecutive runs"),
    "note": ("note", "notes", "remark"),
}
REQUIRED = ("test", "metric", "latest", "baseline")
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d{1,3})?")
RULE_LINE = re.compile(r"^[\s|:-]+$")


@dataclass(frozen=True)
class NightlyRow:
    """One metric of one case on one night: `improvement_pct` is computed, `published_pct` was printed."""

    line: int
    test: str
    metric: str
    latest: float
    baseline: float
    improvement_pct: float
    config: str = ""
    night: date | None = None
    commit: str = ""
    hardware: str = ""
    model: str = ""
    issue: str = ""
    published_pct: float | None = None
    published_days: int | None = None
    status: str = ""
    heads_swapped: bool = False
    tolerance_pct: float = 0.0

    @property
    def agrees(self) -> bool | None:
        """Say whether computed and published percentage agree to their rounding; None without the latter."""
        if self.published_pct is None:
            return None
        return abs(self.improvement_pct - self.published_pct) <= self.tolerance_pct


def parse_rows(text: str, where: str) -> tuple[list[NightlyRow], list[str]]:
    """Return the rows of a CSV file or of the Markdown tables in a text, and what was left out and why.

    InputError where there is no table with the columns that a row needs.
    """
    rows: list[NightlyRow] = []
    left_out: list[str] = []
    seen_table = False
    for heads, lines in tables(text, where):
        seen_table = True
        for number, cells in lines:
            row = read_row(dict(zip(heads, cells, strict=False)), number)
            if isinstance(row, str):
                left_out.append(f"line {number}: {row}")
            else:
                rows.append(row)
    if not seen_table:
        need = ", ".join(REQUIRED)
        raise InputError(f"{where}: no table with the columns {need} (or their other names)")
    return rows, left_out


Lines = Iterator[tuple[int, list[str]]]


def tables(text: str, where: str) -> Iterator[tuple[list[str], Lines]]:
    """Yield every table: its columns by our names, and its numbered lines."""
    lines = text.splitlines()
    if len(lines) > ROWS_LIMIT:
        raise InputError(f"{where}: {len(lines)} lines; {ROWS_LIMIT} are the limit")
    if lines and "|" not in lines[0]:
        heads = known_heads(csv_head(lines[0]))
        if heads:
            yield heads, csv_lines(text)
            return
    yield from markdown_tables(lines)


def csv_head(line: str) -> list[str]:
    """Return the cells of a CSV file's first line; none where it is no CSV, as before a Markdown table."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def known_heads(cells: Sequence[str]) -> list[str] | None:
    """Return our names of the columns ('' for others); None where a needed one is missing."""
    heads = [next((name for name, known in HEADERS.items() if plain(cell) in known), "") for cell in cells]
    return heads if all(name in heads for name in REQUIRED) else None


def plain(cell: str) -> str:
    """Return a head in lower case without marks, underscores and brackets."""
    bare = re.sub(r"[`*()\[\]]", " ", cell[:100]).replace("_", " ")
    return " ".join(bare.lower().split())


def csv_lines(text: str) -> Lines:
    """Yield the numbered lines of a CSV file after its head."""
    reader = csv.reader(io.StringIO(text))
    next(reader, None)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, [cell.strip()[:CELL_LIMIT] for cell in cells]
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: no valid CSV ({error})") from error


def markdown_tables(lines: Sequence[str]) -> Iterator[tuple[list[str], Lines]]:
    """Yield the tables of a Markdown text that have the needed columns."""
    for number, line in enumerate(lines):
        heads = known_heads(split_cells(line)) if line.count("|") >= len(REQUIRED) - 1 else None
        if heads:
            yield heads, markdown_lines(lines, number + 1)


def markdown_lines(lines: Sequence[str], start: int) -> Lines:
    """Yield a Markdown table's numbered lines, up to the first that is none."""
    for number in range(start, len(lines)):
        if "|" not in lines[number]:
            return
        if not RULE_LINE.match(lines[number]):
            yield number + 1, split_cells(lines[number])


def split_cells(line: str) -> list[str]:
    """Return the cells of a Markdown table's line."""
    return [cell.strip(" `*")[:CELL_LIMIT] for cell in line.strip().strip("|").split("|")]


def read_row(cells: Mapping[str, str], line: int) -> NightlyRow | str:
    """Return the row, or why it cannot be used."""
    latest, baseline = number_of(cells.get("latest")), number_of(cells.get("baseline"))
    way = direction(cells.get("metric", ""))
    if latest is None or baseline is None or latest <= 0 or baseline <= 0:
        return "latest and baseline must be numbers above 0"
    if way is None:
        return f"not known whether more or less of {cells.get('metric', '')[:60]!r} is better"
    night, bad = read_date(cells.get("date", ""))
    if bad:
        return bad
    published = number_of(cells.get("change"))
    swapped = are_swapped(cells, published)
    if swapped:
        latest, baseline = baseline, latest
    change = improvement_pct(baseline, latest, way)
    return NightlyRow(
        line=line,
        test=cells.get("test", ""),
        metric=cells.get("metric", ""),
        latest=latest,
        baseline=baseline,
        improvement_pct=change,
        config=cells.get("config", ""),
        night=night,
        commit=cells.get("commit", ""),
        hardware=cells.get("hardware", ""),
        model=cells.get("model", ""),
        issue=cells.get("issue", "").lstrip("#"),
        published_pct=published,
        published_days=days_of(cells.get("days")),
        status=cells.get("status", ""),
        heads_swapped=swapped,
        tolerance_pct=tolerance(cells, swapped),
    )


def are_swapped(cells: Mapping[str, str], published: float | None) -> bool:
    """Say whether the heads of latest and baseline stand over each other's values.

    The published percentage tells: it fits the row with the two exchanged and does not fit it as it stands.
    """
    latest, baseline = number_of(cells.get("latest")), number_of(cells.get("baseline"))
    way = direction(cells.get("metric", ""))
    if published is None or latest is None or baseline is None or way is None:
        return False
    stands = abs(improvement_pct(baseline, latest, way) - published)
    exchanged = abs(improvement_pct(latest, baseline, way) - published)
    return stands > tolerance(cells, swapped=False) and exchanged <= tolerance(cells, swapped=True)


def tolerance(cells: Mapping[str, str], swapped: bool) -> float:
    """Return how far a published percentage may lie off by the rounding of the three numbers of its row."""
    latest_text, baseline_text = cells.get("latest", ""), cells.get("baseline", "")
    if swapped:
        latest_text, baseline_text = baseline_text, latest_text
    latest, baseline = number_of(latest_text) or 1.0, number_of(baseline_text) or 1.0
    ratio = latest / baseline
    rounding = half_unit(latest_text) / latest + half_unit(baseline_text) / baseline
    return half_unit(cells.get("change", "")) + 100.0 * ratio * rounding + 1e-6


def half_unit(text: str) -> float:
    """Return half of the last printed digit of a number (5e-5 for 0.3672)."""
    found = NUMBER.search(text[:CELL_LIMIT])
    if not found:
        return 0.0
    digits = found.group().lower().partition("e")[0].partition(".")[2]
    return float(0.5 * 10.0 ** -len(digits))


def number_of(text: str | None) -> float | None:
    """Return the first number of a cell; None where there is none that is finite."""
    found = NUMBER.search((text or "")[:CELL_LIMIT].replace("\N{MINUS SIGN}", "-"))
    if not found:
        return None
    value = float(found.group().replace(",", ""))
    return value if math.isfinite(value) else None


def days_of(text: str | None) -> int | None:
    """Return the count of days in cells like `3 days+`, `5 days`, `1`; None where there is none."""
    found = re.search(r"\d{1,4}", (text or "")[:CELL_LIMIT])
    return int(found.group()) if found else None


def read_date(text: str) -> tuple[date | None, str]:
    """Return the night of a cell (None for an empty one) and what is wrong with it ('' for nothing)."""
    if not text:
        return None, ""
    try:
        return date.fromisoformat(text[:10]), ""
    except ValueError:
        return None, f"{text[:30]!r} is no date of the form 2026-09-18"
