"""Reads one case's nights from a CSV file: a date a row, a column a metric."""

import csv
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from perf_runner.history.signs import Night
from perf_runner.reading import InputError

NIGHTS_LIMIT = 20_000
DATE_HEADS = ("date", "night", "day")
MEDIAN_NAMES = ("_p50", "_median")


@dataclass(frozen=True)
class Series:
    """One metric over the nights that have it, oldest first; all values are finite and above 0."""

    metric: str
    nights: tuple[date, ...]
    values: tuple[float, ...]


def parse_table(text: str, where: str) -> dict[str, Series]:
    """Return the series of every column; InputError names the line that cannot be used.

    Empty cells are nights without that metric. Several rows of one night count by their median.
    """
    if not text.strip():
        raise InputError(f"{where}: empty")
    reader = csv.reader(io.StringIO(text))
    try:
        heads = [cell.strip() for cell in next(reader)]
        place = next((n for n, head in enumerate(heads) if head.lower() in DATE_HEADS), None)
        if place is None:
            raise InputError(f"{where}: the first line must name a column 'date'")
        values: dict[str, dict[date, list[float]]] = {
            head: {} for n, head in enumerate(heads) if n != place and head
        }
        for cells in reader:
            read_night(cells, heads, place, f"{where}, line {reader.line_num}", values)
            if reader.line_num > NIGHTS_LIMIT:
                raise InputError(f"{where}: more than {NIGHTS_LIMIT} lines")
    except csv.Error as error:
        raise InputError(f"{where}, line {reader.line_num}: no valid CSV ({error})") from error
    return {name: as_series(name, nights) for name, nights in values.items()}


def read_night(
    cells: Sequence[str],
    heads: Sequence[str],
    place: int,
    where: str,
    values: Mapping[str, dict[date, list[float]]],
) -> None:
    """Add one row's numbers to `values`."""
    if not any(cell.strip() for cell in cells):
        return
    if len(cells) > len(heads):
        raise InputError(f"{where}: {len(cells)} cells under {len(heads)} heads")
    try:
        night = date.fromisoformat(cells[place].strip()[:10])
    except (ValueError, IndexError) as error:
        raise InputError(f"{where}: no date of the form 2026-04-30") from error
    for head, cell in zip(heads, cells, strict=False):
        if head in values and cell.strip():
            values[head].setdefault(night, []).append(number(cell, head, where))


def number(cell: str, head: str, where: str) -> float:
    """Return a cell's number; InputError for what is no measurement."""
    try:
        value = float(cell)
    except ValueError as error:
        raise InputError(f"{where}: {head} is {cell[:40]!r}, which is no number") from error
    if not math.isfinite(value) or value <= 0:
        raise InputError(f"{where}: {head} is {cell[:40]}; a measurement is finite and above 0")
    return value


def as_series(name: str, nights: Mapping[date, Sequence[float]]) -> Series:
    """Return the nights in order."""
    ordered = sorted(nights)
    return Series(name, tuple(ordered), tuple(statistics.median(nights[night]) for night in ordered))


def choose(table: Mapping[str, Series], metric: str, where: str) -> Series:
    """Return one metric's series; InputError names those that there are."""
    if metric not in table:
        raise InputError(f"{where}: no column {metric!r}; there are {', '.join(table) or 'none'}")
    if not table[metric].values:
        raise InputError(f"{where}: the column {metric!r} is empty")
    return table[metric]


def request_summaries(table: Mapping[str, Series], metric: str) -> dict[date, Night]:
    """Return mean and median of the nights' requests where the table has both columns for `metric`."""
    mean_name = metric
    for name in MEDIAN_NAMES:
        mean_name = mean_name.replace(name, "_mean")
    median = next(
        (table[m] for m in (mean_name.replace("_mean", name) for name in MEDIAN_NAMES) if m in table), None
    )
    mean = table.get(mean_name)
    if "_mean" not in mean_name or mean is None or median is None:
        return {}
    medians = dict(zip(median.nights, median.values, strict=True))
    return {
        night: Night(value, medians[night])
        for night, value in zip(mean.nights, mean.values, strict=True)
        if night in medians
    }
