"""Gate-up activations: SwiGLU of a fused gate|up projection, and a linear layer with GELU in its epilogue."""

import torch
import torch.nn.functional as functional

from prgate_kernels import path_log
from prgate_kernels.capability import why_eager
from prgate_kernels.rope_table import describe

BLOCK = 1024


def eager_swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    """Return silu(gate) * up of `[..., gate | up]` by plain PyTorch: the reference."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.silu(gate) * up


def swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    """Return silu(gate) * up of `[rows, gate | up]` by one launch, else eagerly."""
    if gate_up.ndim != 2 or gate_up.shape[1] % 2:
        raise ValueError(f"gate_up must be [rows, 2 * width], it is {describe(gate_up)}")
    reason = why_eager(gate_up) or ("layout" if gate_up.stride(1) != 1 else None)
    if reason is not None:
        path_log.record(f"swiglu.eager:{reason}")
        return eager_swiglu(gate_up)
    from prgate_kernels.triton_adaln import swiglu_kernel

    path_log.record("swiglu.fused")
    rows, width = gate_up.shape[0], gate_up.shape[1] // 2
    out = torch.empty((rows, width), dtype=gate_up.dtype, device=gate_up.device)
    if rows and width:
        swiglu_kernel[(rows, -(-width // BLOCK))](gate_up, out, gate_up.stride(0), WIDTH=width, BLOCK=BLOCK)
    return out


def eager_linear_gelu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return GELU (tanh) of a linear layer by plain PyTorch: the reference."""
    return functional.gelu(functional.linear(x, weight, bias), approximate="tanh")


def linear_gelu(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    """Return GELU (tanh) of `x` [rows, in] through weight [out, in]: in the GEMM's epilogue on CUDA.

    The epilogue activates the fp32 accumulator, so one rounding to the dtype is left out.
    """
    if x.ndim != 2 or weight.ndim != 2 or x.shape[1] != weight.shape[1] or bias.shape != weight.shape[:1]:
        raise ValueError(f"x {describe(x)}, weight {describe(weight)}, bias {describe(bias)} do not fit")
    if x.device.type != "cuda" or x.dtype not in (torch.float16, torch.bfloat16):
        path_log.record("linear_gelu.eager:device")
        value = eager_linear_gelu(x, weight, bias)
        return value if out is None else out.copy_(value)
    path_log.record("linear_gelu.fused")
    if out is None:
        return torch._addmm_activation(bias, x, weight.t(), use_gelu=True)
    return torch._addmm_activation(bias, x, weight.t(), use_gelu=True, out=out)
