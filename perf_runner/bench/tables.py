"""The tables of the kernel page: each is one sub-run that returns JSON and ends within eight minutes."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from perf_runner.bench import measure
from perf_runner.bench.world import World, output_hash, workload_identity
from perf_runner.targets.qwen_image_dit import paths as p
from perf_runner.targets.qwen_image_dit.config import Workload
from perf_runner.targets.qwen_image_dit.denoise import (
    Forward,
    Request,
    StepScheduler,
    advance,
    new_request,
    run_whole,
)
from prgate_kernels import path_log, registry

Table = dict[str, Any]
PEERS = (p.UPSTREAM, p.HOISTED)
OPERATOR_TOKENS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


def wanted_paths(world: World, names: Sequence[str]) -> tuple[list[str], list[dict[str, str]]]:
    """Return those paths that can be had, and a row for each that cannot."""
    have = world.paths.available()
    missing = [{"path": name, "why": world.paths.why_not(name)} for name in names if name not in have]
    return [name for name in names if name in have], missing


def small_or(world: World, sizes: Sequence[int]) -> Sequence[int]:
    """Return the sizes in pixels, or one small size for the small model."""
    return sizes if world.config.num_layers > 8 else (96,)


def forward_work(world: World, name: str, work: Workload) -> Callable[[], Callable[[], torch.Tensor]]:
    """Return what switches a path in and gives one forward of it as a call."""
    request = new_request(world.config, work, world.device)

    def ready() -> Callable[[], torch.Tensor]:
        forward = world.paths.use(name, work.image_shape)
        return lambda: forward(request.latents, request.positive, request.sigmas[:1])

    return ready


def forwards(world: World, repeats: int) -> Table:
    """Return one forward of every path at 512, 1024 and 1536: wall, GPU-busy, launches, first use, error."""
    rows: list[dict[str, Any]] = []
    missing: list[dict[str, str]] = []
    for pixels in small_or(world, (512, 1024, 1536)):
        work = Workload(width=pixels, height=pixels)
        names, missing = wanted_paths(world, p.ALL_PATHS if pixels < 1500 else heavy_paths())
        rows += forward_rows(world, work, names, repeats if pixels < 1500 else max(3, repeats // 3))
        world.paths.forget()
    return {"rows": rows, "missing": missing}


def heavy_paths() -> tuple[str, ...]:
    """Return the paths that are compared at the largest size."""
    return (p.EAGER, p.QK_OP, p.COMPILED_GRAPH, p.FUSED, p.FUSED_GRAPH)


def forward_rows(world: World, work: Workload, names: Sequence[str], repeats: int) -> list[dict[str, Any]]:
    """Return a row a path at one size."""
    works = {name: forward_work(world, name, work) for name in names}
    outputs, first_ms, counts = {}, {}, {}
    for name, ready in works.items():
        run = ready()
        run()  # builds, compiles, captures
        world.paths.forget_schedule()
        with path_log.counted() as counts[name]:
            first_ms[name] = measure.wall_ms(run, world.device)[0]
        outputs[name] = run().clone()
    times = measure.interleaved(works, repeats, world.device)
    base = outputs[p.EAGER]
    rows = []
    for name, ready in works.items():
        run = ready()
        warm = [measure.wall_ms(run, world.device) for _ in range(WARM_CALLS)]  # as warm as the profiled one
        busy = measure.gpu_busy(run)
        warm_ms, host = (statistics.median(part) for part in zip(*warm, strict=True))
        rows.append(
            {
                "pixels": work.width,
                "path": name,
                "wall_ms": round(statistics.median(times[name]), 3),
                "runs_ms": [round(value, 3) for value in times[name]],
                "host_ms": round(host, 3),
                "gpu": measure.as_record(busy),
                "wall_over_busy": round(warm_ms / busy.busy_ms, 3) if busy else None,
                "first_use_of_schedule_ms": round(first_ms[name], 3),
                "error_to_eager": measure.relative_error(outputs[name], base),
                "path_log": counts[name],
                "output_hash": output_hash(outputs[name]),
            }
        )
    return rows


def denoise_work(
    world: World, name: str, request: Request, work: Workload
) -> Callable[[], Callable[[], Request]]:
    """Return what switches a path in and gives its whole denoise loop as a call."""

    def ready() -> Callable[[], Request]:
        forward = world.paths.use(name, work.image_shape)
        return lambda: run_whole(forward, request)

    return ready


def denoise(world: World, repeats: int, pixels: int = 512, steps: int = 20) -> Table:
    """Return the whole denoise loop of every path against eager, with intervals over interleaved rounds."""
    pixels = small_or(world, (pixels,))[0]
    work = Workload(width=pixels, height=pixels, steps=steps)
    names, missing = wanted_paths(world, p.ALL_PATHS)
    request = new_request(world.config, work, world.device)
    works = {name: denoise_work(world, name, request, work) for name in names}
    counts: dict[str, Mapping[str, int]] = {}
    latents = {}
    for name, ready in works.items():
        with path_log.counted() as counts[name]:
            latents[name] = ready()().latents.clone()
    times = measure.interleaved(works, repeats, world.device)
    rows = [denoise_row(name, times, counts[name], latents[name], latents[p.EAGER]) for name in works]
    world.paths.forget()
    return {"workload": workload_identity(world, work), "rows": rows, "missing": missing}


def denoise_row(
    name: str,
    times: Mapping[str, Sequence[float]],
    counts: Mapping[str, int],
    latents: torch.Tensor,
    reference: torch.Tensor,
) -> dict[str, Any]:
    """Return one path's row: seconds, and its change against eager with a 95 % interval."""
    change, low, high = measure.ratio_interval(times[p.EAGER], times[name])
    return {
        "path": name,
        "seconds": round(statistics.median(times[name]) / 1e3, 4),
        "runs_s": [round(value / 1e3, 4) for value in times[name]],
        "change_pct": round(change, 2),
        "low_pct": round(low, 2),
        "high_pct": round(high, 2),
        "path_log": counts,
        "error_to_eager": measure.relative_error(latents, reference),
        "output_hash": output_hash(latents),
    }


def denoise_1024(world: World, repeats: int) -> Table:
    """Return the denoise loop at 1024x1024 with 8 steps."""
    return denoise(world, max(3, repeats // 3), 1024, 8)


def trajectory(world: World, repeats: int) -> Table:
    """Return the error of the latents after each of 4 steps, and of one block, against the eager order."""
    pixels = small_or(world, (512,))[0]
    work = Workload(width=pixels, height=pixels, steps=4)
    names, missing = wanted_paths(world, p.ALL_PATHS)
    request = new_request(world.config, work, world.device)
    followed = {name: follow(world, name, request, work) for name in [p.EAGER, *names] if name in names}
    rows = [
        {
            "path": name,
            "error_by_step": [
                measure.relative_error(value, wanted)
                for value, wanted in zip(followed[name], followed[p.EAGER], strict=True)
            ],
        }
        for name in names
    ]
    return {"workload": workload_identity(world, work), "rows": rows, "missing": missing}


def follow(world: World, name: str, request: Request, work: Workload) -> list[torch.Tensor]:
    """Return the latents after every step of a path."""
    forward, found = world.paths.use(name, work.image_shape), []
    while not request.done:
        request = advance(forward, [request])[0]
        found.append(request.latents.clone())
    return found


def operators(world: World, repeats: int) -> Table:
    """Return every operator fused and eager over B*S tokens, and its rate against a copy."""
    if world.device.type != "cuda":
        return {"rows": [], "missing": [{"path": "operators", "why": "it needs a CUDA device"}]}
    rows = [
        operator_row(spec, tokens, batch, repeats, world.device)
        for spec in registry.SPECS.values()
        for tokens in OPERATOR_TOKENS
        for batch in ((1, 2) if spec.name == "qk_norm_rope" else (1,))
    ]
    return {"rows": rows, "missing": []}


def operator_row(
    spec: registry.KernelSpec, tokens: int, batch: int, repeats: int, device: torch.device
) -> dict[str, Any]:
    """Return one operator at one size: host-included and GPU-only time, rate, and error, bf16."""
    inputs = spec.make_inputs(tokens, batch, device, torch.bfloat16)
    fresh = spec.make_inputs(tokens, batch, device, torch.bfloat16)
    wanted, got = spec.eager(inputs), spec.fused(fresh)
    errors = {
        "relative_error": measure.relative_error(got, wanted),
        **ulps_apart(got, wanted),
        **errors_to_fp64(spec, tokens, batch, device, {"eager": wanted, "fused": got}),
    }
    fused = lambda: spec.fused(inputs)  # noqa: E731
    eager = lambda: spec.eager(inputs)  # noqa: E731
    times = measure.interleaved(
        {"eager": lambda: batched(eager), "fused": lambda: batched(fused)}, repeats, device
    )
    change, low, high = measure.ratio_interval(times["eager"], times["fused"])
    moved = spec.bytes_moved(tokens)
    source = torch.empty(moved // 4, dtype=torch.bfloat16, device=device)
    target = torch.empty_like(source)
    gpu = statistics.median(measure.event_us(fused, 10, 10, graph=True))
    copy = statistics.median(measure.event_us(lambda: target.copy_(source), 10, 10, graph=True))
    return {
        "operator": spec.name, "tokens": tokens, "batch": batch,
        "eager_us": round(statistics.median(times["eager"]) * 1e3 / CALLS, 2),
        "fused_us": round(statistics.median(times["fused"]) * 1e3 / CALLS, 2),
        "change_pct": round(change, 1), "low_pct": round(low, 1), "high_pct": round(high, 1),
        "fused_gpu_us": round(gpu, 2), "copy_us": round(copy, 2),
        "copy_share_pct": round(copy / gpu * 100, 1),
        "gb_per_s": round(moved / gpu / 1e3, 1), **errors,
    }  # fmt: skip


CALLS = 20
WARM_CALLS = 8
LARGEST_FP64_TOKENS = 4096


def errors_to_fp64(
    spec: registry.KernelSpec,
    tokens: int,
    batch: int,
    device: torch.device,
    outputs: Mapping[str, torch.Tensor],
) -> dict[str, float]:
    """Return each output's relative error against the eager form in fp64 on the same bf16 inputs."""
    if tokens > LARGEST_FP64_TOKENS:
        return {}
    inputs = spec.make_inputs(tokens, batch, device, torch.bfloat16)
    wide = tuple(x.double() if x.dtype == torch.bfloat16 else x for x in inputs)
    exact = spec.eager(wide)
    return {f"{name}_error_to_fp64": measure.relative_error(out, exact) for name, out in outputs.items()}


def batched(work: measure.Work) -> measure.Work:
    """Return a call that works 20 times, so that launches queue as they do in a model."""

    def run() -> None:
        for _ in range(CALLS):
            work()

    return run


def ulps_apart(value: torch.Tensor, reference: torch.Tensor) -> dict[str, float]:
    """Return how many elements differ, and how many by more than one bf16 unit in the last place."""
    lines = [as_line(x) for x in (value, reference)]
    apart = (lines[0] - lines[1]).abs()
    return {
        "differing_pct": round(float((apart > 0).double().mean()) * 100, 4),
        "above_one_ulp_pct": round(float((apart > 1).double().mean()) * 100, 4),
        "most_ulps": int(apart.max()),
    }


def as_line(x: torch.Tensor) -> torch.Tensor:
    """Return bf16 values as integers in which neighbours differ by one."""
    bits = x.contiguous().view(torch.int16).to(torch.int32)
    return torch.where(bits < 0, -32768 - bits, bits)


def steps(world: World, repeats: int) -> Table:
    """Return step execution at concurrency 1, 2, 4 and 8 beside whole loops, and the latents' difference."""
    pixels = small_or(world, (512,))[0]
    work = Workload(width=pixels, height=pixels, steps=20 if world.config.num_layers > 8 else 3)
    name = p.FUSED_GRAPH if world.device.type == "cuda" else p.FUSED
    forward = world.paths.use(name, work.image_shape)
    alone = {
        number: run_whole(forward, new_request(world.config, work, world.device, number)).latents.clone()
        for number in range(8)
    }
    rows = [step_row(world, work, forward, concurrency, alone) for concurrency in (1, 2, 4, 8)]
    return {"workload": workload_identity(world, work), "path": name, "rows": rows, "missing": []}


def step_row(
    world: World, work: Workload, forward: Forward, concurrency: int, alone: Mapping[int, torch.Tensor]
) -> dict[str, Any]:
    """Return seconds a request at one concurrency, after one warm-up round."""

    def run() -> list[Request]:
        scheduler, done = StepScheduler(forward), []
        for number in range(concurrency):
            scheduler.add(new_request(world.config, work, world.device, number))
        while scheduler.waiting:
            done += scheduler.tick()
        return done

    run()
    found: list[Request] = []
    times = [measure.wall_ms(lambda: found.extend(run()), world.device)[0] / 1e3 for _ in range(3)]
    errors = [measure.relative_error(item.latents, alone[item.number]) for item in found]
    return {
        "concurrency": concurrency,
        "seconds": round(statistics.median(times), 4),
        "seconds_a_request": round(statistics.median(times) / concurrency, 4),
        "runs_s": [round(value, 4) for value in times],
        "largest_error_to_whole_loop": max(errors),
    }


TABLES: Mapping[str, Callable[[World, int], Table]] = {
    "forward": forwards,
    "denoise": denoise,
    "denoise-1024": denoise_1024,
    "operators": operators,
    "trajectory": trajectory,
    "steps": steps,
}
REPEATS: Mapping[str, int] = {"operators": 15, "forward": 12, "denoise": 6, "denoise-1024": 6}
