"""The operators under test: eager reference, fused form, inputs and tolerance, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from prgate_kernels import adaln, gated_residual_norm, qk_norm_rope, swiglu
from prgate_kernels.adaln import Rows

Inputs = tuple[torch.Tensor, ...]
HEADS, HEAD_DIM, WIDTH, TEXT = 24, 128, 3072, 128
EPS = 1e-6


@dataclass(frozen=True)
class KernelSpec:
    """One operator. Both forms take `make_inputs(tokens, batch, device, dtype)`, and may change it.

    `bytes_moved(tokens)`: the fewest bytes through memory for bf16, each input read and output written once.
    `tolerance_ulp`: how far an element may lie from the eager order, in units of the last place. None: the
    fused form leaves out a rounding, and must lie no farther from fp64 than the eager one.
    """

    name: str
    eager: Callable[[Inputs], torch.Tensor]
    fused: Callable[[Inputs], torch.Tensor]
    make_inputs: Callable[[int, int, torch.device, torch.dtype], Inputs]
    bytes_moved: Callable[[int], int]
    tolerance_ulp: int | None = 1


def normal(shape: tuple[int, ...], device: torch.device, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Return normal values that depend on the seed and shape alone, whatever the device."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).to(device=device, dtype=dtype)


def joint_inputs(tokens: int, batch: int, device: torch.device, dtype: torch.dtype) -> Inputs:
    """Return qkv, norm weights, table and the count of text tokens; `tokens` counts the whole batch."""
    each = tokens // batch
    qkv = normal((batch, each, 3, HEADS, HEAD_DIM), device, dtype)
    weights = 1 + 0.1 * normal((2, 2, HEAD_DIM), device, dtype)
    angles = normal((each, HEAD_DIM // 2), device, torch.float32)
    table = torch.cat((angles.cos(), angles.sin()), dim=-1)
    return qkv, weights, table, torch.tensor(min(TEXT, each // 2))


def eager_joint(inputs: Inputs) -> torch.Tensor:
    """Run the joint operator as diffusers does: out of place per stream, complex fp32, then concatenated."""
    qkv, weights, table, text = inputs
    frequencies = torch.complex(table[:, : HEAD_DIM // 2], table[:, HEAD_DIM // 2 :])
    parts = []
    for which in (0, 1):
        streams = []
        for stream, rows in enumerate((slice(0, int(text)), slice(int(text), None))):
            x = qkv[:, rows, which]
            inverse = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + EPS)
            normed = (x * inverse).to(x.dtype) * weights[stream, which]
            streams.append(qk_norm_rope.rotate_complex(normed, frequencies[rows]))
        parts.append(torch.cat(streams, dim=1))
    return torch.stack(parts, dim=2)


def fused_joint(inputs: Inputs) -> torch.Tensor:
    """Run the joint in-place operator; return its Q and K."""
    qkv, weights, table, text = inputs
    return qk_norm_rope.joint_qk_norm_rope_(qkv, weights, table, int(text), EPS)[:, :, :2]


def rows_of(tokens: int) -> Rows:
    """Return one sample of so many rows, of which up to 128 are text."""
    text = min(TEXT, tokens // 2)
    return Rows(1, text, tokens - text)


def residual_inputs(tokens: int, batch: int, device: torch.device, dtype: torch.dtype) -> Inputs:
    """Return hidden, branch, and a modulation of three parts: shift, scale, gate."""
    hidden = normal((tokens, WIDTH), device, dtype)
    branch = normal((tokens, WIDTH), device, dtype, seed=1)
    return hidden, branch, 0.1 * normal((3, 2, 1, WIDTH), device, dtype)


def eager_residual(inputs: Inputs) -> torch.Tensor:
    """Run the gated residual, norm and modulation by plain PyTorch."""
    hidden, branch, (shift, scale, gate) = inputs
    rows = rows_of(hidden.shape[0])
    adaln.eager_gated_residual_(hidden, branch, gate, rows)
    return adaln.eager_norm_modulate(hidden, shift, scale, rows, EPS)


def fused_residual(inputs: Inputs) -> torch.Tensor:
    """Run the gated residual, norm and modulation in one launch."""
    hidden, branch, (shift, scale, gate) = inputs
    rows = rows_of(hidden.shape[0])
    return gated_residual_norm.gated_residual_norm_modulate_(hidden, branch, gate, (shift, scale), rows, EPS)


def eager_adaln(inputs: Inputs) -> torch.Tensor:
    """Run LayerNorm and modulation by plain PyTorch."""
    hidden, _, (shift, scale, _) = inputs
    return adaln.eager_norm_modulate(hidden, shift, scale, rows_of(hidden.shape[0]), EPS)


def fused_adaln(inputs: Inputs) -> torch.Tensor:
    """Run LayerNorm and modulation in one launch."""
    hidden, _, (shift, scale, _) = inputs
    return adaln.norm_modulate(hidden, (shift, scale), rows_of(hidden.shape[0]), EPS)


def swiglu_inputs(tokens: int, batch: int, device: torch.device, dtype: torch.dtype) -> Inputs:
    """Return a fused gate|up projection's output."""
    return (normal((tokens, 2 * 4 * WIDTH), device, dtype),)


def gelu_inputs(tokens: int, batch: int, device: torch.device, dtype: torch.dtype) -> Inputs:
    """Return rows, weight and bias of an MLP's first projection, at the scale of a trained layer."""
    weight = 0.02 * normal((4 * WIDTH, WIDTH), device, dtype, seed=1)
    return normal((tokens, WIDTH), device, dtype), weight, normal((4 * WIDTH,), device, dtype)


SPECS: Mapping[str, KernelSpec] = {
    spec.name: spec
    for spec in (
        KernelSpec(
            "qk_norm_rope", eager_joint, fused_joint, joint_inputs, lambda t: 8 * t * HEADS * HEAD_DIM
        ),
        KernelSpec(
            "gated_residual_norm", eager_residual, fused_residual, residual_inputs, lambda t: 8 * t * WIDTH
        ),
        KernelSpec("adaln", eager_adaln, fused_adaln, residual_inputs, lambda t: 4 * t * WIDTH),
        KernelSpec(
            "swiglu",
            lambda given: swiglu.eager_swiglu(*given),
            lambda given: swiglu.swiglu(*given),
            swiglu_inputs,
            lambda t: 2 * t * 12 * WIDTH,
        ),
        KernelSpec(
            "linear_gelu",
            lambda given: swiglu.eager_linear_gelu(*given),
            lambda given: swiglu.linear_gelu(*given),
            gelu_inputs,
            lambda t: 2 * (t * 5 * WIDTH + 4 * WIDTH * WIDTH),
            tolerance_ulp=None,
        ),
    )
}
