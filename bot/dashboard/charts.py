"""Pictures as SVG text, drawn by the server: readable without JavaScript, colored by the style sheet."""

import math
from collections.abc import Mapping, Sequence
from statistics import median

from markupsafe import Markup, escape

from bot.dashboard.experiments import CaseView
from perf_runner.report import Scale

WIDTH, LEFT, RIGHT = 720, 64, 16
RUNS_HEIGHT, INTERVAL_HEIGHT, CURVES_HEIGHT = 220, 74, 260
TOP, BOTTOM = 28, 30
TICKS = 5


def svg(label: str, height: int, parts: Sequence[str]) -> Markup:
    """Return the picture around its parts; `label` is what a screen reader says."""
    said = escape(label)
    around = f'<div class="scroll" tabindex="0" role="region" aria-label="Picture: {said}">'
    head = f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{said}">'
    return Markup("\n".join([around + head, *parts, "</svg></div>"]))  # noqa: S704 - its texts are escaped


def words(x: float, y: float, text: str, anchor: str = "start", style: str = "") -> str:
    """Return a text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{style}">{escape(text[:60])}</text>'


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    """Return a line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>'


def dot(x: float, y: float, style: str, tip: str) -> str:
    """Return a dot with its tooltip."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{style}"><title>{escape(tip)}</title></circle>'


def grid(y: Scale, unit: str) -> list[str]:
    """Return the value axis, with a line at each round value."""
    parts = []
    for value in round_values(y.low, y.high):
        parts.append(line(LEFT, y.at(value), WIDTH - RIGHT, y.at(value), "grid"))
        parts.append(words(LEFT - 6, y.at(value) + 4, f"{value:.6g}{unit}", "end"))
    return parts


def round_values(low: float, high: float) -> list[float]:
    """Return about five values between two bounds at steps of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * size for factor in (1.0, 2.0, 5.0, 10.0) if factor * size >= rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [number * step for number in range(first, last + 1)]


def span_of(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of an axis: that of the values and a tenth of it on either side."""
    low, high = min(values), max(values)
    margin = (high - low) * 0.1 or abs(high) * 0.05 or 1.0
    return low - margin, high + margin


def runs(case: CaseView) -> Markup:
    """Return every run of a case in its order, a color an arm, blocks parted by lines, medians drawn."""
    if not case.runs:
        return Markup("")
    names = [arm.name for arm in case.arms] or sorted({run.arm for run in case.runs})
    styles = {name: f"arm{place % 4}" for place, name in enumerate(names)}
    y = Scale(*span_of([run.seconds for run in case.runs]), RUNS_HEIGHT - BOTTOM, TOP)
    x = Scale(-0.5, len(case.runs) - 0.5, LEFT, WIDTH - RIGHT)
    parts = [*grid(y, " s"), *block_edges(case, x)]
    for name in names:
        values = [run.seconds for run in case.runs if run.arm == name and not run.remark]
        if values:
            level = y.at(median(values))
            parts.append(line(LEFT, level, WIDTH - RIGHT, level, f"level {styles[name]}"))
    for place, run in enumerate(case.runs):
        style = f"{styles.get(run.arm, 'arm0')}{' void' if run.remark else ''}"
        tip = f"block {run.block + 1}, {run.arm}: {run.seconds:.5g} s {run.remark}"
        parts.append(dot(x.at(place), y.at(run.seconds), style, tip))
    parts += legend([(name, styles[name]) for name in names])
    return svg(f"Seconds of every run of {case.name}, in their order", RUNS_HEIGHT, parts)


def block_edges(case: CaseView, x: Scale) -> list[str]:
    """Return a line between two blocks, and the number of each block where there is room."""
    parts: list[str] = []
    starts = [n for n, run in enumerate(case.runs) if n == 0 or run.block != case.runs[n - 1].block]
    for place, start in enumerate(starts):
        end = starts[place + 1] if place + 1 < len(starts) else len(case.runs)
        edge = x.at(end - 0.5)
        parts.append(line(edge, TOP, edge, RUNS_HEIGHT - BOTTOM, "grid"))
        if len(starts) <= 20:
            middle = x.at((start + end - 1) / 2)
            parts.append(words(middle, RUNS_HEIGHT - 10, f"block {case.runs[start].block + 1}", "middle"))
    return parts


def legend(entries: Sequence[tuple[str, str]]) -> list[str]:
    """Return names beside their colors."""
    parts = []
    for place, (name, style) in enumerate(entries[:4]):
        left = LEFT + 6 + place * 160
        parts += [f'<circle cx="{left}" cy="12" r="4" class="{style}"/>', words(left + 10, 16, name[:20])]
    return parts


def interval(case: CaseView) -> Markup:
    """Return the change with its interval on an axis of per cent, with 0 and the margin marked."""
    if case.change_pct is None or case.low_pct is None or case.high_pct is None:
        return Markup("")
    margin = case.margin_pct or 0.0
    x = Scale(
        *span_of([case.low_pct, case.high_pct, 0.0, margin, -margin]),
        LEFT,
        WIDTH - RIGHT,
    )
    height = 34
    parts = [
        f'<rect x="{x.at(-margin):.1f}" y="14" width="{x.at(margin) - x.at(-margin):.1f}" height="40" '
        'class="margin"/>',
        line(x.at(0), 10, x.at(0), 56, "zero"),
        words(x.at(0), 70, "0 %", "middle"),
        line(x.at(case.low_pct), height, x.at(case.high_pct), height, f"bar {case.badge.tone}"),
        dot(x.at(case.change_pct), height, f"mark {case.badge.tone}", f"{case.change_pct:+.2f} %"),
    ]
    ends = ((case.low_pct, "end", -6), (case.high_pct, "start", 6))
    parts += [words(x.at(v) + off, height - 8, f"{v:+.1f} %", anchor) for v, anchor, off in ends]
    label = (
        f"Change of {case.name}: {case.change_pct:+.2f} %, between {case.low_pct:+.2f} and "
        f"{case.high_pct:+.2f} %; the margin is {margin:.1f} %"
    )
    return svg(label, INTERVAL_HEIGHT, parts)


def curves(label: str, lines: Mapping[str, Sequence[tuple[float, float]]], unit: str) -> Markup:
    """Return some curves over doubling positions (tokens): a color each, both axes logarithmic in the data.

    The points are (position, value), both above 0; they are drawn at equal steps, values by their size.
    """
    places = sorted({position for points in lines.values() for position, _ in points})
    values = [value for points in lines.values() for _, value in points]
    if not places:
        return Markup("")
    x = Scale(-0.5, len(places) - 0.5, LEFT, WIDTH - RIGHT)
    y = Scale(0.0, max(values) * 1.08, CURVES_HEIGHT - BOTTOM, TOP)
    at = {position: x.at(place) for place, position in enumerate(places)}
    parts = [*grid(y, unit), *(words(at[p], CURVES_HEIGHT - 10, f"{p:g}", "middle") for p in places)]
    for place, points in enumerate(lines.values()):
        path = " ".join(f"{at[position]:.1f},{y.at(value):.1f}" for position, value in sorted(points))
        parts.append(f'<polyline points="{path}" class="curve arm{place % 4}"/>')
        parts += [dot(at[p], y.at(v), f"arm{place % 4}", f"{p:g} tokens: {v:g}{unit}") for p, v in points]
    parts += legend([(name, f"arm{place % 4}") for place, name in enumerate(lines)])
    return svg(label, CURVES_HEIGHT, parts)


def nights(label: str, values: Sequence[float], marks: Mapping[int, str], level: float | None) -> Markup:
    """Return a series of nights, oldest first; `marks` are places with a class, `level` the baseline."""
    if not values:
        return Markup("")
    y = Scale(*span_of([*values, *([level] if level is not None else [])]), CURVES_HEIGHT - BOTTOM, TOP)
    x = Scale(-0.5, len(values) - 0.5, LEFT, WIDTH - RIGHT)
    parts = grid(y, "")
    if level is not None:
        parts.append(line(LEFT, y.at(level), WIDTH - RIGHT, y.at(level), "level baseline"))
    path = " ".join(f"{x.at(n):.1f},{y.at(value):.1f}" for n, value in enumerate(values))
    parts.append(f'<polyline points="{path}" class="curve arm0"/>')
    for n, style in marks.items():
        parts.append(line(x.at(n), TOP, x.at(n), CURVES_HEIGHT - BOTTOM, style))
    return svg(label, CURVES_HEIGHT, parts)
