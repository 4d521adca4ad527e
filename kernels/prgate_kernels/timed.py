"""What a case times of an operator: `command = ["prgate_kernels.timed:request"]`, target `operator`.

The case's workload names it: `{"operator": "adaln", "tokens": 1024, "batch": 1, "dtype": "bfloat16", "path":
"auto", "device": "cuda"}`. Path `eager` runs the reference, `auto` what the operator itself chooses.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

import torch

from prgate_kernels import path_log
from prgate_kernels.registry import SPECS, Inputs, KernelSpec

MOST_TOKENS = 1 << 20


class Request(Protocol):
    """A request to time, which says afterwards what it did."""

    describe: Callable[[], dict[str, Any]]

    def __call__(self) -> None:
        """Do the work once and wait for the accelerator."""


def request(workload: Mapping[str, Any]) -> Request:
    """Return the request of a workload. ValueError for an operator, path or size that is not known."""
    spec = spec_of(workload)
    tokens, batch = size_of(workload)
    device = torch.device(workload.get("device") or ("cuda" if torch.cuda.is_available() else "cpu"))
    dtype = getattr(torch, str(workload.get("dtype", "bfloat16")), None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"dtype is {workload.get('dtype')!r}; one is 'bfloat16' or 'float32'")
    path = workload.get("path", "auto")
    if path not in ("eager", "auto"):
        raise ValueError(f"path is {path!r}; it is 'eager' or 'auto'")
    form = spec.eager if path == "eager" else spec.fused
    made = (tokens, batch, device, dtype)
    named = {
        "operator": spec.name,
        "tokens": tokens,
        "batch": batch,
        "dtype": str(dtype),
        "device": device.type,
    }
    return timed(form, lambda: spec.make_inputs(*made), named, device)


def spec_of(workload: Mapping[str, Any]) -> KernelSpec:
    """Return the operator that a workload names."""
    name = workload.get("operator")
    if name not in SPECS:
        raise ValueError(f"operator is {name!r}; there are {', '.join(SPECS)}")
    return SPECS[str(name)]


def size_of(workload: Mapping[str, Any]) -> tuple[int, int]:
    """Return tokens and batch of a workload."""
    tokens, batch = workload.get("tokens", 1024), workload.get("batch", 1)
    if not isinstance(tokens, int) or not isinstance(batch, int) or not 1 <= batch <= tokens <= MOST_TOKENS:
        raise ValueError(f"tokens and batch must be whole numbers, 1 <= batch <= tokens <= {MOST_TOKENS}")
    return tokens, batch


def timed(
    form: Callable[[Inputs], torch.Tensor],
    make: Callable[[], Inputs],
    named: Mapping[str, Any],
    device: torch.device,
) -> Request:
    """Return the request around one form of an operator; its path counts from now on."""
    inputs, before = make(), path_log.snapshot()

    def once() -> None:
        form(inputs)
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    def describe() -> dict[str, Any]:
        taken = path_log.since(before)
        # An operator may work in place: what it gives is told by fresh inputs, not by those that were timed.
        output = form(make()).detach().to("cpu").contiguous()
        digest = hashlib.sha256(output.view(torch.uint8).numpy().tobytes()).hexdigest()
        return {"workload": dict(named), "path_log": taken or {"eager": 1}, "output_hash": digest[:32]}

    made = cast("Request", once)
    made.describe = describe
    return made
