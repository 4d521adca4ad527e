"""Runs one case of the Qwen-Image suite on this machine and returns it as an acceptance record."""

import json
import statistics
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from perf_runner.bench import measure
from perf_runner.bench.world import World, environment, output_hash, workload_identity
from perf_runner.cases import SuiteCase, load_suite
from perf_runner.models import BenchmarkCase
from perf_runner.targets.qwen_image_dit import paths as p
from perf_runner.targets.qwen_image_dit.config import Workload
from perf_runner.targets.qwen_image_dit.denoise import (
    Forward,
    Request,
    StepScheduler,
    new_request,
    run_whole,
)
from prgate_kernels import path_log
from prgate_kernels.crossover import calibrated_default, fuses, resolve_min_tokens

SUITE = Path(__file__).resolve().parents[1] / "suites" / "qwen_image.json"
SMALL_PIXELS, SMALL_STEPS, SMALL_PROMPTS = 96, 3, 3
STEP_EXECUTION = "step_execution"
TESTS = {
    "fallback": "tests/kernels/test_qk_norm_rope.py",
    "rejection": "tests/kernels/test_qk_norm_rope.py",
    "abort": "tests/perf_runner/test_qwen_image_dit.py",
}
FIELDS = {
    "width": "width",
    "height": "height",
    "steps": "num-inference-steps",
    "text_tokens": "text-tokens",
    "true_cfg_scale": "true-cfg-scale",
    "seed": "seed",
}


def suite_cases() -> tuple[SuiteCase, ...]:
    """Return the cases of the Qwen-Image suite."""
    return load_suite(SUITE)


def full_name(case: BenchmarkCase) -> str:
    """Return the name by which a case is run: its test, then its own."""
    return f"{case.test_name}/{case.name}"


def workload_of(case: BenchmarkCase, *, small: bool) -> Workload:
    """Return the work of a case, cut to a small size for the small model."""
    given = {field: case.workload[key] for field, key in FIELDS.items() if key in case.workload}
    if small:
        given |= {"width": SMALL_PIXELS, "height": SMALL_PIXELS, "steps": SMALL_STEPS, "text_tokens": 16}
    return Workload.model_validate(given)


def resolve_path(world: World, wanted: str, work: Workload, batch: int = 1) -> str:
    """Return the path that `eager`, `fused` or `auto` stands for here; any other name stands for itself.

    `auto` obeys the crossover: the environment's, else the calibrated one, else 2,048 tokens.
    """
    fused = p.FUSED_GRAPH if world.device.type == "cuda" else p.FUSED
    if wanted == "auto":
        name = torch.cuda.get_device_name() if world.device.type == "cuda" else "cpu"
        versions = environment(world)["versions"]
        default = calibrated_default(name, versions["torch"], versions["triton"])
        return fused if fuses(batch, work.tokens, resolve_min_tokens(default)) else p.EAGER
    return fused if wanted == "fused" else wanted


def run_case(world: World, case: BenchmarkCase, path: str) -> dict[str, Any]:
    """Return the record of a case: the chosen path after, eager before, all raw runs, profile and hashes."""
    small = world.config.num_layers <= 8
    work = workload_of(case, small=small)
    after_name = resolve_path(world, path, work)
    prompts = min(case.requests, SMALL_PROMPTS) if small else case.requests
    after, latents = run_arm(world, case, work, after_name, prompts)
    record: dict[str, Any] = {
        "schema": 1,
        "test_name": case.test_name,
        "name": case.name,
        "path": after_name,
        "workload": workload_identity(world, work),
        "environment": environment(world),
        "after": after,
        "tests": TESTS,
    }
    if after_name != p.EAGER:
        before, reference = run_arm(world, case, work, p.EAGER, prompts)
        record["before"] = before
        record["local"] = local_delta(world, work)
        record["correctness"] = {
            "max_error": measure.relative_error(latents, reference),
            "tolerance": 0.05,
            "says": "relative error of the final latent against the unfused order; torch.compile's is larger",
        }
        record["claim"] = {"fast_path": claimed(after["path_log"])}
    record["memory_trend"] = {"samples_mb": memory_trend(world, work, after_name)}
    return record


def claimed(counts: Mapping[str, int]) -> str:
    """Return the counter that proves the fast path: the fused Q/K operator's, else the first."""
    return next((name for name in counts if name.startswith("qk_norm_rope")), next(iter(counts), ""))


def run_arm(
    world: World, case: BenchmarkCase, work: Workload, path: str, prompts: int
) -> tuple[dict[str, Any], torch.Tensor]:
    """Return one arm's evidence, and the latents of its first request."""
    forward = world.paths.use(path, work.image_shape)
    concurrency = int(case.workload.get("max-concurrency") or 1)
    begin = perf_counter()
    serve(world, case, work, forward, min(prompts, concurrency))
    measure.synchronize(world.device)
    warmup_s = perf_counter() - begin
    before = allocations(world.device)
    with path_log.counted() as counts:
        begin = perf_counter()
        runs, latents = serve(world, case, work, forward, prompts)
        measure.synchronize(world.device)
        total_s = perf_counter() - begin
    one = new_request(world.config, work, world.device)
    busy = measure.gpu_busy(lambda: forward(one.latents, one.positive, one.sigmas[:1]))
    return {
        "path": path,
        "warmup": {"requests": min(prompts, concurrency), "steps": work.steps, "seconds": round(warmup_s, 3)},
        "runs": [{"seconds": round(value, 5), "stages_s": {"denoise": round(value, 5)}} for value in runs],
        "latency_median": round(statistics.median(runs), 5),
        "throughput_qps": round(prompts / total_s, 4),
        "max_concurrency": concurrency,
        "path_log": counts,
        "output_hash": output_hash(latents),
        "forward_gpu": measure.as_record(busy),
        "allocations": allocations(world.device) - before,
        "peak_memory_mb": round(peak_mb(world.device), 1),
    }, latents


def serve(
    world: World, case: BenchmarkCase, work: Workload, forward: Forward, prompts: int
) -> tuple[list[float], torch.Tensor]:
    """Return the latency of every request and the first one's latents, whole loops or by steps."""
    if STEP_EXECUTION in case.test_name:
        concurrency = int(case.workload.get("max-concurrency") or 1)
        return serve_steps(world, work, forward, prompts, concurrency)
    found, first = [], None
    for number in range(prompts):
        request = new_request(world.config, work, world.device, number)
        measure.synchronize(world.device)
        begin = perf_counter()
        done = run_whole(forward, request)
        measure.synchronize(world.device)
        found.append(perf_counter() - begin)
        first = done.latents.clone() if first is None else first
    if first is None:
        raise ValueError("a case needs at least one request")
    return found, first


def serve_steps(
    world: World, work: Workload, forward: Forward, prompts: int, concurrency: int
) -> tuple[list[float], torch.Tensor]:
    """Return the latencies under a closed loop of `concurrency` requests, advanced by the scheduler."""
    scheduler = StepScheduler(forward, max_batch=concurrency)
    coming = deque(new_request(world.config, work, world.device, number) for number in range(prompts))
    begun: dict[int, float] = {}
    ended: dict[int, tuple[float, Request]] = {}
    while coming or scheduler.waiting:
        while coming and len(scheduler.waiting) < concurrency:
            begun[coming[0].number] = perf_counter()
            scheduler.add(coming.popleft())
        for done in scheduler.tick():
            measure.synchronize(world.device)
            ended[done.number] = (perf_counter() - begun[done.number], done)
    return [ended[number][0] for number in range(prompts)], ended[0][1].latents


def local_delta(world: World, work: Workload) -> dict[str, Any]:
    """Return the Q/K operator's own time, eager and fused, in milliseconds, at this workload's tokens."""
    from prgate_kernels.registry import SPECS

    spec = SPECS["qk_norm_rope"]
    inputs = spec.make_inputs(work.tokens, 1, world.device, torch.bfloat16)
    works = {"before": lambda: lambda: spec.eager(inputs), "after": lambda: lambda: spec.fused(inputs)}
    measure.interleaved(works, 2, world.device)
    times = measure.interleaved(works, 7, world.device)
    return {"operator": spec.name, **{name: statistics.median(values) for name, values in times.items()}}


def memory_trend(world: World, work: Workload, path: str) -> list[float]:
    """Return the memory in use after each of 12 forwards, in MB: it must not grow."""
    forward = world.paths.use(path, work.image_shape)
    request = new_request(world.config, work, world.device)
    found = []
    for _ in range(12):
        forward(request.latents, request.positive, request.sigmas[:1])
        measure.synchronize(world.device)
        found.append(round(memory_mb(world.device), 2))
    return found


def memory_mb(device: torch.device) -> float:
    """Return the memory in use: the device's, or this process's on a CPU."""
    if device.type == "cuda":
        return float(torch.cuda.memory_allocated(device)) / 1e6
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def peak_mb(device: torch.device) -> float:
    """Return the peak of the memory in use."""
    return (
        float(torch.cuda.max_memory_allocated(device)) / 1e6 if device.type == "cuda" else memory_mb(device)
    )


def allocations(device: torch.device) -> int:
    """Return how many allocations the device's allocator has served so far; 0 on a CPU."""
    if device.type != "cuda":
        return 0
    return int(torch.cuda.memory_stats(device)["allocation.all.allocated"])


def dump(document: Any) -> str:
    """Return a document as JSON."""
    return json.dumps(document, indent=1, default=str) + "\n"
