"""Triton kernels of Q/K RMSNorm + rotary embedding; launched by `qk_norm_rope`. All arithmetic in fp32."""

# mypy: ignore-errors
# ruff: noqa: N803, PLR0913

import triton
import triton.language as tl


@triton.jit
def joint_in_place_kernel(
    qkv_ptr,
    table_ptr,
    weight_ptr,  # [2 streams, q | k, head_dim]
    sequence,
    text_tokens,
    row_stride,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    EPS: tl.constexpr,
    TILE: tl.constexpr,
    TWO_ROUNDINGS: tl.constexpr,
):
    """One program: `TILE` heads of one token. Q and K lie side by side, so heads run over both."""
    row = tl.program_id(0).to(tl.int64)
    heads = tl.program_id(1) * TILE + tl.arange(0, TILE)
    dims = tl.arange(0, HEAD_DIM)
    position = row % sequence
    stream = tl.where(position < text_tokens, 0, 1)
    mask = (heads < 2 * HEADS)[:, None]
    pointers = qkv_ptr + row * row_stride + heads[:, None] * HEAD_DIM + dims[None, :]
    raw = tl.load(pointers, mask=mask, other=0.0)
    x = raw.to(tl.float32)
    which = tl.where(heads >= HEADS, 1, 0)
    weight_rows = weight_ptr + (stream * 2 + which)[:, None] * HEAD_DIM + dims[None, :]
    weight = tl.load(weight_rows).to(tl.float32)
    inverse = tl.rsqrt(tl.sum(x * x, axis=1) / HEAD_DIM + EPS)
    normed = x * inverse[:, None]
    if TWO_ROUNDINGS:
        normed = normed.to(raw.dtype).to(tl.float32)
    normed = (normed * weight).to(raw.dtype).to(tl.float32)
    first, second = tl.split(tl.reshape(normed, (TILE, HEAD_DIM // 2, 2)))
    pairs = tl.arange(0, HEAD_DIM // 2)
    table = table_ptr + position * HEAD_DIM + pairs
    cos = tl.load(table)[None, :]
    sin = tl.load(table + HEAD_DIM // 2)[None, :]
    rotated = tl.join(first * cos - second * sin, first * sin + second * cos)
    tl.store(pointers, tl.reshape(rotated, (TILE, HEAD_DIM)).to(raw.dtype), mask=mask)


@triton.jit
def out_of_place_kernel(
    q_ptr,
    k_ptr,
    q_weight_ptr,
    k_weight_ptr,
    table_ptr,
    q_out_ptr,
    k_out_ptr,
    q_stride_t,
    q_stride_h,
    q_stride_d,
    k_stride_t,
    k_stride_h,
    k_stride_d,
    table_stride,
    Q_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PADDED: tl.constexpr,
    HALF: tl.constexpr,
    EPS: tl.constexpr,
    TILE: tl.constexpr,
    Q_GROUPS: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    TWO_ROUNDINGS: tl.constexpr,
):
    """One program: `TILE` heads of one token of Q, or of K for the groups beyond Q's. Outputs are dense."""
    token = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1)
    if group < Q_GROUPS:
        rotate_group(
            q_ptr + token * q_stride_t, q_weight_ptr, table_ptr + token * table_stride,
            q_out_ptr + token * Q_HEADS * HEAD_DIM, group, q_stride_h, q_stride_d,
            Q_HEADS, HEAD_DIM, PADDED, HALF, EPS, TILE, INTERLEAVED, TWO_ROUNDINGS,
        )  # fmt: skip
    else:
        rotate_group(
            k_ptr + token * k_stride_t, k_weight_ptr, table_ptr + token * table_stride,
            k_out_ptr + token * KV_HEADS * HEAD_DIM, group - Q_GROUPS, k_stride_h, k_stride_d,
            KV_HEADS, HEAD_DIM, PADDED, HALF, EPS, TILE, INTERLEAVED, TWO_ROUNDINGS,
        )  # fmt: skip


@triton.jit
def rotate_group(
    x_ptr,
    weight_ptr,
    table_ptr,
    out_ptr,
    group,
    stride_h,
    stride_d,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PADDED: tl.constexpr,
    HALF: tl.constexpr,
    EPS: tl.constexpr,
    TILE: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    TWO_ROUNDINGS: tl.constexpr,
):
    """Normalise and rotate one group of heads; lanes beyond the rotary width pass through."""
    heads = (group * TILE + tl.arange(0, TILE)).to(tl.int64)[:, None]
    dims = tl.arange(0, PADDED)
    mask = (heads < HEADS) & (dims < HEAD_DIM)[None, :]
    rotated_lane = dims < 2 * HALF
    if INTERLEAVED:
        partner = tl.where(rotated_lane, dims ^ 1, dims)
        pair = tl.where(rotated_lane, dims // 2, 0)
        leading = dims % 2 == 0
    else:
        partner = tl.where(rotated_lane, tl.where(dims < HALF, dims + HALF, dims - HALF), dims)
        pair = tl.where(rotated_lane, tl.where(dims < HALF, dims, dims - HALF), 0)
        leading = dims < HALF
    raw = tl.load(x_ptr + heads * stride_h + dims[None, :] * stride_d, mask=mask, other=0.0)
    other = tl.load(x_ptr + heads * stride_h + partner[None, :] * stride_d, mask=mask, other=0.0).to(
        tl.float32
    )
    x = raw.to(tl.float32)
    inverse = tl.rsqrt(tl.sum(x * x, axis=1) / HEAD_DIM + EPS)[:, None]
    x, other = x * inverse, other * inverse
    if TWO_ROUNDINGS:
        x, other = x.to(raw.dtype).to(tl.float32), other.to(raw.dtype).to(tl.float32)
    lanes = dims < HEAD_DIM
    weight = tl.load(weight_ptr + dims, mask=lanes, other=0.0).to(tl.float32)[None, :]
    partner_weight = tl.load(weight_ptr + partner, mask=lanes, other=0.0).to(tl.float32)[None, :]
    x = (x * weight).to(raw.dtype).to(tl.float32)
    other = (other * partner_weight).to(raw.dtype).to(tl.float32)
    cos = tl.load(table_ptr + pair).to(tl.float32)[None, :]
    sin = tl.load(table_ptr + pair + HALF).to(tl.float32)[None, :]
    turned = tl.where(leading[None, :], x * cos - other * sin, x * cos + other * sin)
    result = tl.where(rotated_lane[None, :], turned, x)
    tl.store(out_ptr + heads * HEAD_DIM + dims[None, :], result.to(raw.dtype), mask=mask)
