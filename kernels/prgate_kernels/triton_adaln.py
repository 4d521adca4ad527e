"""Triton kernel of gated residual + LayerNorm + modulation; launched by `adaln` and `gated_residual_norm`."""

# mypy: ignore-errors
# ruff: noqa: N803, PLR0913

import triton
import triton.language as tl


@triton.jit
def norm_modulate_kernel(
    hidden_ptr,
    branch_ptr,
    out_ptr,
    gate_ptr,
    shift_ptr,
    scale_ptr,
    text_rows,
    text_tokens,
    image_tokens,
    gate_stream_stride,
    gate_sample_stride,
    mod_stream_stride,
    mod_sample_stride,
    WIDTH: tl.constexpr,
    PADDED: tl.constexpr,
    EPS: tl.constexpr,
    RESIDUAL: tl.constexpr,
    NORM: tl.constexpr,
):
    """One program: one row. Every value the unfused order would store is rounded here as well."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, PADDED)
    mask = columns < WIDTH
    is_text = row < text_rows
    stream = tl.where(is_text, 0, 1)
    sample = tl.where(is_text, row // text_tokens, (row - text_rows) // image_tokens)
    raw = tl.load(hidden_ptr + row * WIDTH + columns, mask=mask, other=0.0)
    x = raw.to(tl.float32)
    if RESIDUAL:
        gate_at = gate_ptr + stream * gate_stream_stride + sample * gate_sample_stride
        gate = tl.load(gate_at + columns, mask=mask, other=0.0).to(tl.float32)
        branch = tl.load(branch_ptr + row * WIDTH + columns, mask=mask, other=0.0).to(tl.float32)
        gated = (gate * branch).to(raw.dtype).to(tl.float32)
        summed = (x + gated).to(raw.dtype)
        tl.store(hidden_ptr + row * WIDTH + columns, summed, mask=mask)
        x = summed.to(tl.float32)
    if NORM:
        mean = tl.sum(x, axis=0) / WIDTH
        centred = tl.where(mask, x - mean, 0.0)
        inverse = tl.rsqrt(tl.sum(centred * centred, axis=0) / WIDTH + EPS)
        normed = (centred * inverse).to(raw.dtype).to(tl.float32)
        at = stream * mod_stream_stride + sample * mod_sample_stride + columns
        scale = tl.load(scale_ptr + at, mask=mask, other=0.0).to(tl.float32)
        shift = tl.load(shift_ptr + at, mask=mask, other=0.0).to(tl.float32)
        factor = (1.0 + scale).to(raw.dtype).to(tl.float32)
        scaled = (normed * factor).to(raw.dtype).to(tl.float32)
        tl.store(out_ptr + row * WIDTH + columns, (scaled + shift).to(raw.dtype), mask=mask)


@triton.jit
def swiglu_kernel(gate_up_ptr, out_ptr, row_stride, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """One program: `BLOCK` columns of one row of silu(gate) * up, rounded after the activation."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < WIDTH
    raw = tl.load(gate_up_ptr + row * row_stride + columns, mask=mask, other=0.0)
    gate = raw.to(tl.float32)
    up = tl.load(gate_up_ptr + row * row_stride + WIDTH + columns, mask=mask, other=0.0).to(tl.float32)
    active = (gate / (1.0 + tl.exp(-gate))).to(raw.dtype).to(tl.float32)
    tl.store(out_ptr + row * WIDTH + columns, (active * up).to(raw.dtype), mask=mask)
