"""Renders result tables as Markdown: the kernel page shows exactly these."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def markdown(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)]) + "\n"


def brief(value: object) -> str:
    """Return a number with three significant digits; an absent one as a dash."""
    return f"{value:.3g}" if isinstance(value, float) else "–" if value is None else str(value)


def forward_table(table: Row) -> str:
    """Return one forward of every path."""
    rows = []
    for row in table["rows"]:
        gpu = row["gpu"] or {}
        rows.append(
            (
                row["pixels"],
                row["path"],
                f"{row['wall_ms']:.1f}",
                brief(gpu.get("busy_ms")),
                brief(row["wall_over_busy"]),
                gpu.get("kernels", "–"),
                f"{row['first_use_of_schedule_ms']:.1f}",
                brief(row["error_to_eager"]),
            )
        )
    head = (
        "px",
        "path",
        "wall ms",
        "GPU-busy ms",
        "wall / busy",
        "launches",
        "first of schedule ms",
        "error",
    )
    return markdown(head, rows)


def denoise_table(table: Row) -> str:
    """Return the denoise loops."""
    head = ("path", "seconds", "against eager", "95 % interval", "error")
    rows = [
        (
            row["path"],
            row["seconds"],
            f"{row['change_pct']:+.1f} %",
            f"{row['low_pct']:+.1f} to {row['high_pct']:+.1f}",
            brief(row["error_to_eager"]),
        )
        for row in table["rows"]
    ]
    return markdown(head, rows)


def operator_table(table: Row) -> str:
    """Return the operators over tokens."""
    head = (
        "operator",
        "B*S",
        "B",
        "eager µs",
        "fused µs",
        "change",
        "95 % interval",
        "GPU µs",
        "of copy rate",
    )
    rows = [
        (
            row["operator"],
            row["tokens"],
            row["batch"],
            row["eager_us"],
            row["fused_us"],
            f"{row['change_pct']:+.1f} %",
            f"{row['low_pct']:+.1f} to {row['high_pct']:+.1f}",
            row["fused_gpu_us"],
            f"{row['copy_share_pct']:.0f} %",
        )
        for row in table["rows"]
    ]
    return markdown(head, rows)


def trajectory_table(table: Row) -> str:
    """Return the errors over the steps."""
    length = max((len(row["error_by_step"]) for row in table["rows"]), default=0)
    head = ("path", *(f"step {number}" for number in range(1, length + 1)))
    return markdown(head, [(row["path"], *map(brief, row["error_by_step"])) for row in table["rows"]])


def steps_table(table: Row) -> str:
    """Return step execution over concurrency."""
    head = ("concurrency", "seconds", "seconds a request", "largest error to the whole loop")
    names = ("concurrency", "seconds", "seconds_a_request", "largest_error_to_whole_loop")
    return markdown(head, [[brief(row[name]) for name in names] for row in table["rows"]])


RENDERERS: Mapping[str, tuple[str, Callable[[Row], str]]] = {
    "forward": ("One forward", forward_table),
    "denoise": ("Denoise loop, 512x512, 20 steps, true CFG", denoise_table),
    "denoise-1024": ("Denoise loop, 1024x1024, 8 steps, true CFG", denoise_table),
    "operators": ("Operators, bf16", operator_table),
    "trajectory": ("Relative error of the latents against the unfused order", trajectory_table),
    "steps": ("Step execution, 512x512, 20 steps", steps_table),
}


def render_all(tables: Mapping[str, Row]) -> str:
    """Return every table under its heading, and what could not be run."""
    parts = []
    for name, table in tables.items():
        title, renderer = RENDERERS[name]
        parts.append(f"## {title}\n\n{renderer(table)}")
        parts += [f"{row['path']}: not measured, {row['why']}.\n" for row in table["missing"]]
    return "\n".join(parts)


def render_case(record: Row) -> str:
    """Return one case in a line or two."""
    after = record["after"]
    text = f"{record['test_name']}/{record['name']}: {after['path']} {after['latency_median']} s"
    before = record.get("before")
    if before:
        change = (after["latency_median"] / before["latency_median"] - 1.0) * 100.0
        error = record["correctness"]["max_error"]
        text += f", {before['path']} {before['latency_median']} s ({change:+.1f} %), error {error:.2e}"
    return text
