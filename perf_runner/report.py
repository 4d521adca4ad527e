"""What a reader gets to see of an experiment: tables of runs and stages, the plot of its runs, signs.

Tables are pandas frames (a Markdown writer is here, too); the plot is SVG text without script or style sheet,
so that it can stand behind a link, and the same numbers as columns for uPlot.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from perf_runner.gate import pair
from perf_runner.history.signs import GpuTelemetry, StageMove, bound_by, moved_stage
from perf_runner.models import Block, CaseResult, Sample

if TYPE_CHECKING:
    import pandas as pd

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 30, 34
COLORS = ("#2563a8", "#c2410c", "#4d7c0f", "#7e22ce")  # each at least 4.5:1 on white
TICKS = 4
LABEL_LIMIT = 40


def arm_names(result: CaseResult) -> list[str]:
    """Return the arms that ran, in the order in which they were named."""
    named = [arm.name for arm in result.arms]
    return named or list(dict.fromkeys(name for block in result.blocks for name in block.arms))


def samples_of(blocks: Sequence[Block], arm: str) -> list[Sample]:
    """Return an arm's runs over all blocks."""
    return [sample for block in blocks for sample in block.arms.get(arm, ())]


def summary_table(result: CaseResult) -> "pd.DataFrame":
    """Return one row an arm: revision, runs, median and range in seconds, change against the first arm."""
    import pandas as pd

    names = arm_names(result)
    shas = {arm.name: arm.sha[:12] for arm in result.arms}
    rows = []
    for name in names:
        times = [sample.seconds for sample in samples_of(result.blocks, name)]
        if times:
            rows.append(
                {
                    "arm": name,
                    "revision": shas.get(name, ""),
                    "runs": len(times),
                    "median_s": statistics.median(times),
                    "min_s": min(times),
                    "max_s": max(times),
                    "change_pct": change_pct(result.blocks, names[0], name),
                }
            )
    return pd.DataFrame(rows, columns=["arm", "revision", "runs", "median_s", "min_s", "max_s", "change_pct"])


def change_pct(blocks: Sequence[Block], base: str, head: str) -> float:
    """Return the mean paired change of one arm against another in per cent (0 for an arm and itself)."""
    if base == head:
        return 0.0
    changes = [pair(block.seconds(base), block.seconds(head)).change for block in blocks]
    return math.expm1(statistics.fmean(changes)) * 100.0


def runs_table(result: CaseResult) -> "pd.DataFrame":
    """Return every run: block, arm, place in the block, seconds, requests, paths taken."""
    import pandas as pd

    rows = []
    for block in result.blocks:
        taken = dict.fromkeys(block.arms, 0)
        for place, arm in enumerate(block.order or tuple(block.arms), start=1):
            if taken.get(arm, 0) >= len(block.arms.get(arm, ())):
                continue
            sample = block.arms[arm][taken[arm]]
            taken[arm] += 1
            paths = ", ".join(f"{name} {count}" for name, count in sorted(sample.path_log.items()))
            rows.append((block.number, arm, place, sample.seconds, len(sample.latencies_s) or 1, paths))
    return pd.DataFrame(rows, columns=["block", "arm", "place", "seconds", "requests", "paths"])


def stage_table(result: CaseResult) -> "pd.DataFrame":
    """Return a row a stage: median seconds of the first and the last arm, and the change."""
    import pandas as pd

    names = arm_names(result)
    base, head = (stage_medians(samples_of(result.blocks, name)) for name in (names[0], names[-1]))
    rows = [
        (name, base[name], head[name], head[name] - base[name], (head[name] / base[name] - 1.0) * 100.0)
        for name in base
        if name in head and base[name] > 0
    ]
    return pd.DataFrame(rows, columns=["stage", "base_s", "head_s", "change_s", "change_pct"])


def stage_medians(samples: Sequence[Sample]) -> dict[str, float]:
    """Return each stage's median over runs."""
    names = list(dict.fromkeys(name for sample in samples for name in sample.stages_s))
    return {
        name: statistics.median(sample.stages_s[name] for sample in samples if name in sample.stages_s)
        for name in names
    }


def stage_that_moved(result: CaseResult) -> StageMove | None:
    """Return the stage with most of the change between first and last arm; None without stages."""
    names = arm_names(result)
    if not names:
        return None
    return moved_stage(*(stage_medians(samples_of(result.blocks, name)) for name in (names[0], names[-1])))


def bound_sentence(telemetry: GpuTelemetry) -> str:
    """Return whether host or GPU bounds the runs, with the numbers that say so."""
    numbers = (
        f"GPU busy {telemetry.busy_pct:.0f} %, clock at {telemetry.clock_ratio * 100:.0f} % of its maximum"
    )
    words = {
        "host": "host-bound",
        "gpu": "GPU-bound",
        "gpu throttled": "the GPU throttled",
        "unclear": "neither host nor GPU is clearly the bound",
    }
    throttle = f", throttle: {', '.join(telemetry.throttle_reasons)}" if telemetry.throttle_reasons else ""
    return f"{words[bound_by(telemetry)]} ({numbers}{throttle})"


def markdown(frame: "pd.DataFrame", digits: Mapping[str, int] | None = None) -> str:
    """Return a frame as a Markdown table; `digits` are the decimals of number columns (4).

    Text cells are cut and lose what would break the table; a caller escapes them for its medium.
    """
    wanted = digits or {}

    def cell(column: str, value: Any) -> str:
        if isinstance(value, float):
            return "" if math.isnan(value) else f"{value:.{wanted.get(column, 4)}f}"
        return " ".join(str(value)[:200].replace("|", "/").split())

    columns = [str(column) for column in frame.columns]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for row in frame.itertuples(index=False):
        lines.append(f"| {' | '.join(cell(c, v) for c, v in zip(columns, row, strict=True))} |")
    return "\n".join(lines)


@dataclass(frozen=True)
class Scale:
    """A linear map of values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        span = (self.high - self.low) or 1.0
        return round(self.start + (value - self.low) / span * (self.end - self.start), 1)


def plot_columns(result: CaseResult) -> list[list[float | None]]:
    """Return the runs as uPlot's columns: run number, then one column an arm (None where another arm ran)."""
    names = arm_names(result)
    frame = runs_table(result)
    numbers: list[float | None] = [float(n) for n in range(1, len(frame) + 1)]
    columns: list[list[float | None]] = [
        [
            float(seconds) if arm == name else None
            for arm, seconds in zip(frame["arm"], frame["seconds"], strict=True)
        ]
        for name in names
    ]
    return [numbers, *columns]


def runs_svg(result: CaseResult) -> str:
    """Return the plot of all runs in their order, a color an arm, blocks parted by lines, as SVG text."""
    numbers, *columns = plot_columns(result)
    values = [value for column in columns for value in column if value is not None]
    title = f"{result.case.name}: seconds of each run, in order"
    if not values:
        return frame_svg(title, [text_element(WIDTH / 2, HEIGHT / 2, "no runs", "middle")])
    margin = (max(values) - min(values)) * 0.1 or max(values) * 0.05
    y = Scale(min(values) - margin, max(values) + margin, HEIGHT - BOTTOM, TOP)
    x = Scale(0.5, len(numbers) + 0.5, LEFT, WIDTH - RIGHT)
    parts = [*axis(y), *block_lines(result, x)]
    for place, (name, column) in enumerate(zip(arm_names(result), columns, strict=True)):
        color = COLORS[place % len(COLORS)]
        points = [(n, value) for n, value in enumerate(column, start=1) if value is not None]
        parts += [dot(x.at(n), y.at(value), color, f"{name}, run {n}: {value:.4f} s") for n, value in points]
        parts += legend(place, name, color)
    return frame_svg(title, parts)


def frame_svg(title: str, parts: Sequence[str]) -> str:
    """Return the SVG document around its parts."""
    label = escape(title, {'"': "&quot;"})
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img" aria-label="{label}" font-family="sans-serif" font-size="12">'
    )
    ground = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", ground, *parts, "</svg>\n"])


def text_element(x: float, y: float, text: str, anchor: str = "start", color: str = "#333333") -> str:
    """Return a text."""
    shown = escape(text[:LABEL_LIMIT])
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{color}">{shown}</text>'


def line(x1: float, y1: float, x2: float, y2: float, color: str) -> str:
    """Return a line."""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{color}"/>'


def dot(x: float, y: float, color: str, tip: str) -> str:
    """Return a run's dot with its tooltip."""
    return f'<circle cx="{x}" cy="{y}" r="4" fill="{color}"><title>{escape(tip)}</title></circle>'


def axis(y: Scale) -> list[str]:
    """Return the value axis with its grid."""
    parts = []
    for step in range(TICKS + 1):
        value = y.low + (y.high - y.low) * step / TICKS
        height = y.at(value)
        parts.append(line(LEFT, height, WIDTH - RIGHT, height, "#e5e5e5"))
        parts.append(text_element(LEFT - 6, height + 4, f"{value:.4g} s", "end"))
    return parts


def block_lines(result: CaseResult, x: Scale) -> list[str]:
    """Return a line between blocks and each block's number."""
    parts, first = [], 1
    for block in result.blocks:
        count = sum(len(samples) for samples in block.arms.values())
        edge = x.at(first + count - 0.5)
        parts.append(line(edge, TOP, edge, HEIGHT - BOTTOM, "#cccccc"))
        middle = x.at(first + (count - 1) / 2)
        parts.append(text_element(middle, HEIGHT - 12, f"block {block.number + 1}", "middle", "#666666"))
        first += count
    return parts


def legend(place: int, name: str, color: str) -> list[str]:
    """Return one arm's entry of the legend."""
    left = LEFT + place * 150
    return [dot(left, 14, color, name), text_element(left + 10, 18, name)]
