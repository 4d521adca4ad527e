"""Supporting signs: what else moved, and what that says of code, host or single requests. Never a verdict."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

STALL_EXCESS = 0.06  # mean over median of a night's requests
STALL_NIGHTS = 28
FLAT = 0.03
MOVED = 0.05
BATCHING_FLAT = 0.20  # throughput this alike over concurrencies is flat
BATCHING_GROWTH = 0.7  # of the growth that serving one by one would give
BUSY_PCT = 70.0
FULL_CLOCK = 0.97


@dataclass(frozen=True)
class Night:
    """One night's two summaries of the same requests."""

    mean: float
    median: float


def is_stall(night: Night, before: Sequence[Night]) -> bool:
    """Say whether single requests hung: the mean is up and the median is not.

    The mean must exceed the median by 6 %, and must have moved at least twice as far as the median did
    against the nights before (when there are any).
    """
    if night.mean / night.median - 1.0 < STALL_EXCESS:
        return False
    recent = before[-STALL_NIGHTS:]
    if not recent:
        return True
    usual_mean = statistics.median(one.mean for one in recent)
    usual_median = statistics.median(one.median for one in recent)
    return night.mean / usual_mean - 1.0 > 2.0 * (night.median / usual_median - 1.0)


def is_host_bound(changes: Mapping[int, float]) -> bool:
    """Say whether small pictures got slower and large ones did not. `changes`: pixels -> slowdown fraction.

    Small work waits for the host (launches, Python); large work for the GPU.
    """
    if len(changes) < 2:
        return False
    ordered = [changes[pixels] for pixels in sorted(changes)]
    return ordered[0] > MOVED and abs(ordered[-1]) < FLAT


def lost_batching(points: Mapping[int, tuple[float, float]]) -> bool:
    """Say whether requests are served one by one. `points`: concurrency -> (latency, throughput)."""
    if len(points) < 2:
        return False
    fewest, most = min(points), max(points)
    throughput = [points[level][1] for level in (fewest, most)]
    flat = throughput[1] / throughput[0] - 1.0 < BATCHING_FLAT
    growth = points[most][0] / points[fewest][0]
    return flat and growth > BATCHING_GROWTH * most / fewest


@dataclass(frozen=True)
class GpuTelemetry:
    """What the GPU did while it was measured: shares of the top clock, busy per cent, throttle bits set."""

    clock_ratio: float
    busy_pct: float
    throttle_reasons: tuple[str, ...] = ()


def bound_by(telemetry: GpuTelemetry) -> str:
    """Return "gpu throttled", "host", "gpu" or "unclear" for a slow run."""
    real = [reason for reason in telemetry.throttle_reasons if reason.lower() not in ("", "none", "gpu_idle")]
    if real:
        return "gpu throttled"
    if telemetry.clock_ratio >= FULL_CLOCK and telemetry.busy_pct < BUSY_PCT:
        return "host"
    return "gpu" if telemetry.busy_pct >= BUSY_PCT else "unclear"


@dataclass(frozen=True)
class StageMove:
    """The stage whose time moved most, in seconds, and its share of the whole change."""

    stage: str
    change_s: float
    share: float


def moved_stage(base: Mapping[str, float], head: Mapping[str, float]) -> StageMove | None:
    """Return the stage (seconds by name) that moved most; None without stages that both have."""
    changes = {name: head[name] - base[name] for name in base.keys() & head.keys()}
    if not changes:
        return None
    name = max(sorted(changes), key=lambda stage: abs(changes[stage]))
    whole = sum(changes.values())
    return StageMove(name, changes[name], changes[name] / whole if whole else 0.0)
