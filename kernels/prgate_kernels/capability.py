"""Whether a tensor can be given to a Triton kernel here; the reason why not goes to the path log."""

import functools
import importlib.util
import os

import torch

SUPPORTED_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
FEWEST_CAPABILITY = (8, 0)  # bf16 arithmetic


def interpreting() -> bool:
    """Say whether Triton runs its kernels on the CPU (`TRITON_INTERPRET=1`)."""
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


@functools.cache
def has_triton() -> bool:
    """Say whether Triton can be imported."""
    return importlib.util.find_spec("triton") is not None


@functools.cache
def cuda_too_old(index: int) -> bool:
    """Say whether a CUDA device is below the oldest supported compute capability."""
    return bool(torch.cuda.get_device_capability(index) < FEWEST_CAPABILITY)


def why_eager(x: torch.Tensor) -> str | None:
    """Return why a tensor must take the eager path; None where the fused one is supported."""
    if x.dtype not in SUPPORTED_DTYPES:
        return "dtype"
    if not has_triton():
        return "no_triton"
    if x.device.type == "cuda":
        return "capability" if cuda_too_old(x.device.index or 0) else None
    return None if x.device.type == "cpu" and interpreting() else "device"
