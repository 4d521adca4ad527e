"""Timing on a device: interleaved wall times, GPU-busy time from the profiler, intervals of ratios."""

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

Work = Callable[[], object]
Ready = Callable[[], Work]
RESAMPLES = 2000


def synchronize(device: torch.device) -> None:
    """Wait for the device; the CPU has nothing to wait for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def wall_ms(work: Work, device: torch.device) -> tuple[float, float]:
    """Return the wall time of one call and the host's part (until it returned), both in milliseconds."""
    synchronize(device)
    begin = time.perf_counter()
    work()
    returned = time.perf_counter()
    synchronize(device)
    return (time.perf_counter() - begin) * 1e3, (returned - begin) * 1e3


def interleaved(works: Mapping[str, Ready], repeats: int, device: torch.device) -> dict[str, list[float]]:
    """Return wall times in milliseconds, `repeats` of each; every other round runs in the reverse order.

    Each work is first made ready (a path is switched in), which is not timed.
    """
    found: dict[str, list[float]] = {name: [] for name in works}
    for number in range(repeats):
        for name in list(works) if number % 2 == 0 else list(works)[::-1]:
            found[name].append(wall_ms(works[name](), device)[0])
    return found


@dataclass(frozen=True)
class Busy:
    """What the GPU did in one call. Times in ms; `busy_ms` is the union of all kernels' and copies' times."""

    busy_ms: float
    span_ms: float
    kernels: int
    gaps_ms: float
    h2d_copies: int
    d2h_copies: int
    top_ms: dict[str, float]


def gpu_busy(work: Work) -> Busy | None:
    """Return the profile of one call; None where there is no GPU."""
    if not torch.cuda.is_available():
        return None
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        work()
        torch.cuda.synchronize()
    spans = [
        (event.time_range.start, event.time_range.end, event.name)
        for event in profiler.events()
        if event.device_type == DeviceType.CUDA
    ]
    return summarize_spans(sorted(spans))


def summarize_spans(spans: Sequence[tuple[float, float, str]]) -> Busy | None:
    """Return the sums over device activities (start, end in microseconds, name), sorted by start."""
    if not spans:
        return None
    busy, reached = 0.0, -math.inf
    by_name: dict[str, float] = {}
    for start, end, name in spans:
        busy += max(0.0, end - max(start, reached))
        reached = max(reached, end)
        by_name[name[:80]] = by_name.get(name[:80], 0.0) + (end - start) / 1e3
    span = reached - spans[0][0]
    top = sorted(by_name.items(), key=lambda item: -item[1])[:12]
    copies = [name for _, _, name in spans]
    return Busy(
        busy_ms=busy / 1e3,
        span_ms=span / 1e3,
        kernels=len(spans),
        gaps_ms=(span - busy) / 1e3,
        h2d_copies=sum("HtoD" in name for name in copies),
        d2h_copies=sum("DtoH" in name for name in copies),
        top_ms={name: round(value, 3) for name, value in top},
    )


def as_record(busy: Busy | None) -> dict[str, Any] | None:
    """Return a profile as JSON."""
    if busy is None:
        return None
    record = asdict(busy)
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in record.items()}


def ratio_interval(base: Sequence[float], head: Sequence[float], seed: int = 0) -> tuple[float, float, float]:
    """Return the median of head over base in per cent change, and its 95 % bootstrap interval over the pairs.

    `base` and `head` are paired by round; ValueError when they differ in length or are empty.
    """
    changes = [(h / b - 1.0) * 100.0 for b, h in zip(base, head, strict=True)]
    if not changes:
        raise ValueError("there is no pair to compare")
    rng = random.Random(seed)  # noqa: S311
    draws = sorted(statistics.median(rng.choices(changes, k=len(changes))) for _ in range(RESAMPLES))
    return statistics.median(changes), draws[int(0.025 * RESAMPLES)], draws[int(0.975 * RESAMPLES)]


def event_us(work: Work, repeats: int, inner: int, *, graph: bool) -> list[float]:
    """Return GPU times of one call in microseconds, by events around `inner` calls or one graph of them."""
    run = (lambda: [work() for _ in range(inner)]) if not graph else captured(work, inner)
    for _ in range(3):
        run()
    found = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) * 1e3 / inner)
    return found


def captured(work: Work, inner: int) -> Work:
    """Return the replay of a graph of `inner` calls."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(inner):
            work()
    replay: Work = graph.replay
    return replay


def relative_error(value: torch.Tensor, reference: torch.Tensor) -> float:
    """Return |value - reference| / |reference|, in fp64."""
    wanted = reference.double()
    return float((value.double() - wanted).norm() / wanted.norm())
