"""hidden += gate * branch, then LayerNorm + modulation of it, in one launch (rows, rounding: see `adaln`)."""

import torch

from prgate_kernels import path_log
from prgate_kernels.adaln import (
    Rows,
    check_rows,
    eager_gated_residual_,
    eager_norm_modulate,
    launch,
    strides,
    why_not_fused,
)
from prgate_kernels.rope_table import describe


def gated_residual_norm_modulate_(  # noqa: PLR0913
    hidden: torch.Tensor,
    branch: torch.Tensor,
    gate: torch.Tensor,
    modulation: tuple[torch.Tensor, torch.Tensor],
    rows: Rows,
    eps: float,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Update hidden [rows, width] in place; return its norm, modulated by (shift, scale).

    The sum is rounded to hidden's dtype before the norm reads it: the unfused path stores it. ValueError
    for wrong input; unsupported input takes the eager path.
    """
    check_rows(hidden, rows, (*modulation, gate))
    if branch.shape != hidden.shape or branch.dtype != hidden.dtype or not branch.is_contiguous():
        raise ValueError(f"branch must be a dense copy of hidden's form, it is {describe(branch)}")
    target = torch.empty_like(hidden) if out is None else out
    reason = why_not_fused(hidden, (*modulation, gate))
    if reason is None and strides(modulation[0]) != strides(modulation[1]):
        reason = "layout"
    if reason is None:
        path_log.record("gated_residual_norm.fused")
        launch(hidden, branch, gate, modulation, rows, eps, target)
        return target
    path_log.record(f"gated_residual_norm.eager:{reason}")
    eager_gated_residual_(hidden, branch, gate, rows)
    return target.copy_(eager_norm_modulate(hidden, *modulation, rows, eps))
