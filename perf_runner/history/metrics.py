"""Which way a metric is better, and which metrics are one measurement said twice."""

from perf_runner.models import Direction

LOWER = (
    "latency",
    "ttfp",
    "ttft",
    "tpot",
    "itl",
    "rtf",
    "memory",
    "e2e",
    "duration",
    "seconds",
    "_ms",
    "time",
)
HIGHER = ("throughput", "qps", "tps", "req_per", "requests_per", "goodput")


def direction(metric: str) -> Direction | None:
    """Return whether lower or higher is better; None for a name that does not tell."""
    name = metric.lower()
    if any(word in name for word in HIGHER):
        return "higher"
    return "lower" if any(word in name for word in LOWER) else None


def improvement_pct(base: float, value: float, way: Direction) -> float:
    """Return by how many per cent of `base` the value is better (above 0) or worse (below 0)."""
    change = (value - base) / base * 100.0
    return change if way == "higher" else -change


def measures_speed_of_one_stream(metric: str) -> bool:
    """Say whether a metric is latency or throughput, which at concurrency 1 are one measurement."""
    name = metric.lower()
    return direction(metric) is not None and "memory" not in name
