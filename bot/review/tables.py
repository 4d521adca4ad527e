"""The tables of a description, and whether a percentage follows from their numbers. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

CELL = re.compile(
    r"(?P<value>[+-]?\d{1,9}(?:\.\d{1,6})?)(?:\s?(?:±|\+/-)\s?\d{1,9}(?:\.\d{1,6})?)?"
    r"(?:\s?(?P<unit>s|ms|us|µs|GiB|GB|MiB|MB|qps|req/s|tokens/s|images/s|fps))?",
    re.IGNORECASE,
)
METRICS = re.compile(
    r"latency|throughput|qps|\bfps\b|tokens/s|images/s|ttf[tp]|tpot|\btime\b|duration|memory|mean|median|\bms\b",
    re.IGNORECASE,
)
BEFORE = re.compile(r"^(?:before|base(?:line)?|main|parent|old|eager|without)\b", re.IGNORECASE)
AFTER = re.compile(
    r"^(?:after|this(?: pr| change)?|head|new|pr|fused|with|ours|patched|optimi[sz]ed|proposed|candidate)\b",
    re.IGNORECASE,
)
COMPARES = re.compile(r"%|\bvs\b|delta|change$|Δ", re.IGNORECASE)
MOST_TABLES, MOST_ROWS, MOST_COLUMNS = 20, 60, 20  # that are read of one description
TOLERANCE = 0.051  # a percentage is compared as printed, with one decimal


@dataclass(frozen=True)
class Table:
    """A table of the description; every row has as many cells as the header."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def numbers(self, column: int) -> list[float | None]:
        """Return a column as numbers, None where a cell is none; all None where the units differ."""
        cells = [row[column].replace(",", "").replace("−", "-").strip("*_` ") for row in self.rows]
        found = [CELL.fullmatch(cell) for cell in cells]
        units = {match["unit"] for match in found if match and match["unit"]}
        return [float(match["value"]) if match and len(units) <= 1 else None for match in found]


def beside(table: Table, row: tuple[str, ...] | None = None) -> Table:
    """Return a row's (or every row's) before and after as the two rows of a table, an empty one if none."""
    kept = [(at, head) for at, head in enumerate(table.header) if not COMPARES.search(head)]
    old = [at for at, head in kept if BEFORE.search(head)]
    new = [at for at, head in kept if AFTER.search(head)]
    rows = table.rows if row is None else (row,)
    if len(old) != 1 or len(new) != 1 or not rows:
        return Table((), ())
    return Table(
        tuple(each[0] if METRICS.search(each[0]) else f"time of {each[0]}" for each in rows),
        (tuple(each[old[0]] for each in rows), tuple(each[new[0]] for each in rows)),
    )


def pairs_with(table: Table, row: tuple[str, ...]) -> tuple[Table, ...]:
    """Return a row under each of the others, as tables of two: what it is compared with is one of them."""
    return tuple(Table(table.header, (other, row)) for other in table.rows if other is not row)


def confirm(
    printed: float, tables: tuple[Table, ...], tolerance: float = TOLERANCE, gain: bool = False
) -> tuple[str | None, bool | None]:
    """Return the first metric in which two rows differ by `printed` per cent, and whether there is one.

    The first row is the base where it can be; None means that no table has numbers. With `gain` the figure
    may be printed as an improvement: with the other sign, or as the ratio of the speeds.
    """
    numeric = False
    for table in tables:
        for column, head in enumerate(table.header):
            for first, other in comparisons(table.numbers(column) if METRICS.search(head) else []):
                numeric = True
                change, speed = (other / first - 1.0) * 100.0, (first / other - 1.0) * 100.0
                may_be = (change, -change, speed, -speed) if gain else (change,)
                if any(abs(figure - printed) <= tolerance for figure in may_be):
                    return head, True
    return None, False if numeric else None


def comparisons(values: list[float | None]) -> Iterator[tuple[float, float]]:
    """Yield each pair of a row with one above it, those with the first row first."""
    known = [value for value in values if value]
    yield from ((known[0], other) for other in known[1:])
    yield from ((known[i], other) for i in range(1, len(known)) for other in known[i + 1 :])


def read_tables(lines: tuple[str, ...]) -> Iterator[Table]:
    """Yield runs of at least two lines with the same number (>= 2) of cells."""
    block: list[tuple[str, ...]] = []
    for line in (*lines, ""):
        cells = split_cells(line)
        if len(cells) >= 2 and (not block or len(cells) == len(block[0])):
            block.append(cells)
            continue
        if len(block) >= 2:
            yield Table(block[0][:MOST_COLUMNS], tuple(row for row in block[1:MOST_ROWS] if not is_rule(row)))
        block = [cells] if len(cells) >= 2 else []


def split_cells(line: str) -> tuple[str, ...]:
    """Return the cells of a line with bars or tabs."""
    if line.startswith("|"):
        return tuple(cell.strip() for cell in line.strip("|").split("|"))
    return tuple(cell.strip() for cell in line.split("\t")) if "\t" in line else ()


def is_rule(row: tuple[str, ...]) -> bool:
    """Say whether a row only draws a line."""
    return all(set(cell) <= set(":- ") for cell in row)
