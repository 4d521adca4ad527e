"""LayerNorm + modulation, and gated residual + LayerNorm + modulation, for two streams in one launch.

Rows: a hidden buffer [rows, width] holds the text tokens of every sample, then their image tokens
(`Rows`). A modulation is [streams, samples, width]; one stream or one sample is broadcast. Rounding follows
the unfused order: gate * branch, the sum (which is stored), the norm, 1 + scale, the product, the result.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as functional

from prgate_kernels import path_log
from prgate_kernels.capability import why_eager
from prgate_kernels.rope_table import describe

LARGEST_WIDTH = 16384


@dataclass(frozen=True)
class Rows:
    """How the rows of a joint buffer are laid out: `samples * text_tokens`, then `samples * image_tokens`."""

    samples: int
    text_tokens: int
    image_tokens: int

    @property
    def text(self) -> int:
        """Return the number of text rows."""
        return self.samples * self.text_tokens

    @property
    def total(self) -> int:
        """Return the number of rows."""
        return self.samples * (self.text_tokens + self.image_tokens)


def spread(values: torch.Tensor, rows: Rows) -> torch.Tensor:
    """Return a modulation [streams, samples, width] as one line a row, [rows, width]."""
    streams = values.expand(2, rows.samples, values.shape[-1])
    text = streams[0].repeat_interleave(rows.text_tokens, dim=0)
    return torch.cat((text, streams[1].repeat_interleave(rows.image_tokens, dim=0)))


def eager_norm_modulate(
    hidden: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor, rows: Rows, eps: float
) -> torch.Tensor:
    """Return LayerNorm(hidden) * (1 + scale) + shift by plain PyTorch: the reference."""
    normed = functional.layer_norm(hidden, (hidden.shape[-1],), None, None, eps)
    return normed * (1 + spread(scale, rows)) + spread(shift, rows)


def eager_gated_residual_(hidden: torch.Tensor, branch: torch.Tensor, gate: torch.Tensor, rows: Rows) -> None:
    """Add gate * branch to the hidden rows in place, by plain PyTorch."""
    hidden.add_(spread(gate, rows) * branch)


def norm_modulate(
    hidden: torch.Tensor,
    modulation: tuple[torch.Tensor, torch.Tensor],
    rows: Rows,
    eps: float,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return LayerNorm(hidden) * (1 + scale) + shift of [rows, width]; `modulation` is (shift, scale)."""
    check_rows(hidden, rows, modulation)
    target = torch.empty_like(hidden) if out is None else out
    reason = why_not_fused(hidden, modulation)
    if reason is None:
        path_log.record("adaln.fused")
        launch(hidden, None, None, modulation, rows, eps, target)
        return target
    path_log.record(f"adaln.eager:{reason}")
    return target.copy_(eager_norm_modulate(hidden, *modulation, rows, eps))


def check_rows(hidden: torch.Tensor, rows: Rows, modulation: tuple[torch.Tensor, ...]) -> None:
    """Raise a ValueError that names the first input that does not fit."""
    if hidden.ndim != 2 or hidden.shape[0] != rows.total or not hidden.is_contiguous():
        raise ValueError(f"hidden must be a dense [{rows.total}, width], it is {describe(hidden)}")
    for name, values in zip(("shift", "scale", "gate"), modulation, strict=False):
        fits = values.ndim == 3 and values.shape[0] in (1, 2) and values.shape[1] in (1, rows.samples)
        if not fits or values.shape[2] != hidden.shape[1] or values.device != hidden.device:
            raise ValueError(
                f"{name} must be [1 or 2, 1 or {rows.samples}, {hidden.shape[1]}], it is {describe(values)}"
            )


def why_not_fused(hidden: torch.Tensor, modulation: tuple[torch.Tensor, ...]) -> str | None:
    """Return why the eager path must be taken; None where the fused one is supported."""
    if hidden.shape[1] > LARGEST_WIDTH:
        return "width"
    if any(values.stride(2) != 1 or values.dtype != hidden.dtype for values in modulation):
        return "layout"
    return why_eager(hidden)


def strides(values: torch.Tensor) -> tuple[int, int]:
    """Return a modulation's strides over streams and samples, 0 where it is broadcast."""
    stream, sample = values.stride(0), values.stride(1)
    return (stream if values.shape[0] > 1 else 0, sample if values.shape[1] > 1 else 0)


def launch(  # noqa: PLR0913
    hidden: torch.Tensor,
    branch: torch.Tensor | None,
    gate: torch.Tensor | None,
    modulation: tuple[torch.Tensor, torch.Tensor] | None,
    rows: Rows,
    eps: float,
    out: torch.Tensor | None,
) -> None:
    """Launch the kernel on checked input: residual where a gate is given, norm where a modulation is."""
    from prgate_kernels.triton_adaln import norm_modulate_kernel

    if rows.total == 0:
        return
    shift, scale = modulation or (hidden, hidden)
    width = hidden.shape[1]
    norm_modulate_kernel[(rows.total,)](
        hidden, hidden if branch is None else branch, hidden if out is None else out,
        hidden if gate is None else gate, shift, scale,
        rows.text, max(rows.text_tokens, 1), max(rows.image_tokens, 1),
        *((0, 0) if gate is None else strides(gate)), *((0, 0) if modulation is None else strides(shift)),
        WIDTH=width, PADDED=1 << (width - 1).bit_length(), EPS=eps,
        RESIDUAL=gate is not None, NORM=modulation is not None, num_warps=8 if width > 1024 else 4,
        enable_fp_fusion=False,  # a fused multiply-add would leave out the rounding between the two
    )  # fmt: skip
