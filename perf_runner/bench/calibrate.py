"""Sweeps tokens on the present device and finds from how many on the fused operator never loses."""

import statistics
from dataclasses import asdict
from typing import Any

import torch

from perf_runner.bench import measure
from perf_runner.bench.tables import OPERATOR_TOKENS, batched
from perf_runner.bench.world import installed
from prgate_kernels.crossover import QK_NORM_ROPE, Calibration, crossover_of
from prgate_kernels.registry import SPECS, KernelSpec

NOISE = 0.02


def device_name(device: torch.device) -> str:
    """Return the name under which a calibration is stored."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def driver() -> str:
    """Return the GPU driver's version, or `none`."""
    from perf_runner.machine import read_gpus

    gpus = read_gpus()
    return gpus[0].driver if gpus else "none"


def sweep(spec: KernelSpec, device: torch.device, repeats: int) -> dict[int, tuple[float, float]]:
    """Return tokens -> (eager, fused) median microseconds a call, host time included."""
    found = {}
    tokens_list = OPERATOR_TOKENS if device.type == "cuda" else OPERATOR_TOKENS[:2]
    for tokens in tokens_list:
        inputs = spec.make_inputs(tokens, 1, device, torch.bfloat16)
        works = {
            "eager": lambda inputs=inputs: batched(lambda: spec.eager(inputs)),
            "fused": lambda inputs=inputs: batched(lambda: spec.fused(inputs)),
        }
        measure.interleaved(works, 2, device)
        times = measure.interleaved(works, repeats, device)
        eager, fused = (statistics.median(times[name]) * 50.0 for name in works)
        found[tokens] = (eager, fused)
    return found


def calibrate(repeats: int = 11) -> tuple[list[Calibration], dict[str, Any]]:
    """Return the crossover of every operator on this device, and the times that it rests on."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    versions = installed()
    entries, rows = [], {}
    for name in (QK_NORM_ROPE, "gated_residual_norm", "adaln"):
        times = sweep(SPECS[name], device, repeats)
        stack = (device_name(device), driver(), versions["torch"], versions["triton"])
        entries.append(Calibration(name, crossover_of(times, NOISE), *stack))
        rows[name] = [
            {"tokens": tokens, "eager_us": round(eager, 2), "fused_us": round(fused, 2)}
            for tokens, (eager, fused) in times.items()
        ]
    return entries, {"calibrations": [asdict(entry) for entry in entries], "times": rows}
