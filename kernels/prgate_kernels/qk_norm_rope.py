"""Q/K RMSNorm followed by rotary embedding: joint and in place, or out of place with vllm-omni's contract.

Rounding follows the unfused order: the normalised value is rounded to the activation's dtype before the
rotation, which runs in fp32, and is rounded once at its end. `two_roundings` also rounds before the weight is
applied, as diffusers' RMSNorm does; vllm-omni and `torch.nn.functional.rms_norm` round once.
"""

import torch
import torch.nn.functional as functional

from prgate_kernels import path_log
from prgate_kernels.capability import SUPPORTED_DTYPES, why_eager
from prgate_kernels.rope_table import describe, without_batch

NAME = "qk_norm_rope"
JOINT_FUSED = "qk_norm_rope.joint.fused"
FUSED = "qk_norm_rope.fused"
LARGEST_HEAD_DIM = 256
JOINT_TILE = 8
TILE = 4


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, *, two_roundings: bool) -> torch.Tensor:
    """Return the RMS-normalised last axis in `x`'s dtype, with one or two roundings."""
    if not two_roundings:
        return functional.rms_norm(x.float(), (x.shape[-1],), weight.float(), eps).to(x.dtype)
    inverse = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    return (x.float() * inverse).to(x.dtype) * weight


def rotate_complex(x: torch.Tensor, frequencies: torch.Tensor) -> torch.Tensor:
    """Return `x` [batch, tokens, heads, dim] rotated by complex factors in fp32: diffusers' order."""
    turned = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * frequencies.unsqueeze(1)
    return torch.view_as_real(turned).flatten(3).type_as(x)


def rotate_table(
    x: torch.Tensor, table: torch.Tensor, *, interleaved: bool, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Return `x` [..., tokens, heads, dim] rotated by a packed table [tokens, rotary_dim] in `dtype`.

    With `dtype` bf16 this is vllm-omni's eager order; with fp32 or fp64 it is the reference.
    """
    half, width = table.shape[-1] // 2, table.shape[-1]
    cos, sin = table[:, None, :half].to(dtype), table[:, None, half:].to(dtype)
    rotary, rest = x[..., :width].to(dtype), x[..., width:].to(dtype)
    first, second = (
        (rotary[..., 0::2], rotary[..., 1::2]) if interleaved else (rotary[..., :half], rotary[..., half:])
    )
    turned = (first * cos - second * sin, second * cos + first * sin)
    joined = torch.stack(turned, dim=-1).flatten(-2) if interleaved else torch.cat(turned, dim=-1)
    return torch.cat((joined, rest), dim=-1).to(x.dtype)


def eager_qk_norm_rope(  # noqa: PLR0913
    q: torch.Tensor,
    k: torch.Tensor,
    weights: tuple[torch.Tensor, torch.Tensor],
    table: torch.Tensor,
    eps: float,
    *,
    interleaved: bool = True,
    two_roundings: bool = False,
    rotation_dtype: torch.dtype = torch.float32,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return normalised and rotated q and k [tokens, heads, dim] by plain PyTorch: the reference."""
    normed = (rms_norm(x, w, eps, two_roundings=two_roundings) for x, w in zip((q, k), weights, strict=True))
    turned = [rotate_table(x, table, interleaved=interleaved, dtype=rotation_dtype) for x in normed]
    return turned[0], turned[1]


def fused_qk_norm_rope(  # noqa: PLR0913
    q: torch.Tensor,
    k: torch.Tensor,
    q_weight: torch.Tensor,
    k_weight: torch.Tensor,
    rope_table: torch.Tensor,
    eps: float,
    *,
    interleaved: bool = False,
    two_roundings: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return normalised and rotated copies of q and k by one launch, else eagerly (see the path log).

    q [tokens, q_heads, head_dim], k [tokens, kv_heads, head_dim], any strides; weights [head_dim];
    rope_table [tokens, rotary_dim], `[cos | sin]`, in the activation's dtype or fp32. Pairs are adjacent when
    `interleaved`, else half-split. ValueError for wrong input.
    """
    table = without_batch(rope_table, q.shape[0] if q.ndim == 3 else 0)
    check_streams(q, k, (q_weight, k_weight), table)
    reason = why_eager(q) or ("head_dim" if q.shape[-1] > LARGEST_HEAD_DIM else None)
    if reason is not None:
        path_log.record(f"{NAME}.eager:{reason}")
        weights = (q_weight, k_weight)
        return eager_qk_norm_rope(
            q, k, weights, table, eps, interleaved=interleaved, two_roundings=two_roundings
        )
    path_log.record(FUSED)
    return launch_out_of_place(q, k, (q_weight, k_weight), table, eps, (interleaved, two_roundings))


def check_streams(
    q: torch.Tensor, k: torch.Tensor, weights: tuple[torch.Tensor, torch.Tensor], table: torch.Tensor
) -> None:
    """Raise a ValueError that names the first input that does not fit."""
    if q.ndim != 3 or k.ndim != 3:
        raise ValueError(f"q and k must be [tokens, heads, head_dim]; q is {describe(q)}, k is {describe(k)}")
    if q.shape[0] != k.shape[0] or q.shape[2] != k.shape[2]:
        raise ValueError(f"q and k must agree in tokens and head_dim; q is {describe(q)}, k is {describe(k)}")
    if q.dtype != k.dtype or q.device != k.device:
        raise ValueError(f"q and k must agree in dtype and device; q is {describe(q)}, k is {describe(k)}")
    if not q.is_floating_point():
        raise ValueError(f"q must be floating point, it is {describe(q)}")
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(f"q's heads ({q.shape[1]}) must be a multiple of k's ({k.shape[1]})")
    for name, weight in zip(("q_weight", "k_weight"), weights, strict=True):
        if weight.shape != (q.shape[2],) or weight.device != q.device:
            raise ValueError(f"{name} must be [{q.shape[2]}] on {q.device}, it is {describe(weight)}")
    check_table(table, q)


def check_table(table: torch.Tensor, q: torch.Tensor) -> None:
    """Raise a ValueError unless a table fits q [tokens, heads, head_dim]."""
    tokens, width, head_dim = q.shape[0], table.shape[1], q.shape[2]
    if table.shape[0] != tokens:
        raise ValueError(f"rope_table must have {tokens} rows, it is {describe(table)}")
    if width % 2 or not 2 <= width <= head_dim:
        raise ValueError(f"rotary_dim must be even and from 2 to {head_dim}, it is {width}")
    if table.device != q.device or table.dtype not in (q.dtype, torch.float32):
        raise ValueError(f"rope_table must be float32 or {q.dtype} on {q.device}, it is {describe(table)}")


def launch_out_of_place(
    q: torch.Tensor,
    k: torch.Tensor,
    weights: tuple[torch.Tensor, torch.Tensor],
    table: torch.Tensor,
    eps: float,
    options: tuple[bool, bool],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch the kernel on checked input; `options` are (interleaved, two_roundings)."""
    from prgate_kernels.triton_qk_norm_rope import out_of_place_kernel

    tokens, q_heads, head_dim = q.shape
    kv_heads = k.shape[1]
    q_out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    k_out = torch.empty(k.shape, dtype=k.dtype, device=k.device)
    if tokens == 0:
        return q_out, k_out
    table = table if table.stride(1) == 1 else table.contiguous()
    groups = -(-q_heads // TILE)
    out_of_place_kernel[(tokens, groups + -(-kv_heads // TILE))](
        q, k, weights[0].contiguous(), weights[1].contiguous(), table, q_out, k_out,
        *q.stride(), *k.stride(), table.stride(0),
        Q_HEADS=q_heads, KV_HEADS=kv_heads, HEAD_DIM=head_dim,
        PADDED=max(2, 1 << (head_dim - 1).bit_length()), HALF=table.shape[1] // 2, EPS=eps,
        TILE=TILE, Q_GROUPS=groups, INTERLEAVED=options[0], TWO_ROUNDINGS=options[1], num_warps=1,
    )  # fmt: skip
    return q_out, k_out


def pack_norm_weights(
    text: tuple[torch.Tensor, torch.Tensor], image: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """Return the norm weights of both streams as one dense [2, 2, head_dim]: streams, then q and k."""
    return torch.stack([torch.stack(text), torch.stack(image)]).contiguous()


def joint_qk_norm_rope_(
    qkv: torch.Tensor,
    weights: torch.Tensor,
    table: torch.Tensor,
    text_tokens: int,
    eps: float,
    *,
    two_roundings: bool = True,
) -> torch.Tensor:
    """Normalise and rotate Q and K of a text+image buffer in place, by one launch; return the buffer.

    qkv [batch, tokens, 3, heads, head_dim], dense, the text tokens first; weights [2, 2, head_dim] of
    `pack_norm_weights`; table fp32 [tokens, head_dim] `[cos | sin]`, adjacent pairs. V is left alone.
    """
    check_joint(qkv, weights, table, text_tokens)
    head_dim = qkv.shape[-1]
    reason = why_eager(qkv) or ("head_dim" if head_dim & (head_dim - 1) or head_dim > 256 else None)
    if reason is None:
        path_log.record(JOINT_FUSED)
        return launch_joint(qkv, weights, table, text_tokens, eps, two_roundings)
    path_log.record(f"{NAME}.joint.eager:{reason}")
    return eager_joint_(qkv, weights, table, text_tokens, eps, two_roundings)


def check_joint(qkv: torch.Tensor, weights: torch.Tensor, table: torch.Tensor, text_tokens: int) -> None:
    """Raise a ValueError that names the first input that does not fit."""
    if qkv.ndim != 5 or qkv.shape[2] != 3 or not qkv.is_contiguous():
        raise ValueError(f"qkv must be a dense [batch, tokens, 3, heads, head_dim], it is {describe(qkv)}")
    head_dim = qkv.shape[4]
    if head_dim % 2 or tuple(weights.shape) != (2, 2, head_dim) or not weights.is_contiguous():
        raise ValueError(f"weights must be a dense [2, 2, {head_dim}], they are {describe(weights)}")
    if tuple(table.shape) != (qkv.shape[1], head_dim) or not table.is_contiguous():
        raise ValueError(f"table must be a dense [{qkv.shape[1]}, {head_dim}], it is {describe(table)}")
    if table.dtype != torch.float32 or qkv.dtype not in (*SUPPORTED_DTYPES, torch.float64):
        raise ValueError(f"table must be float32 and qkv floating: {describe(table)}, {describe(qkv)}")
    if not qkv.device == weights.device == table.device:
        raise ValueError(f"qkv, weights and table must be on one device, not {qkv.device} and {table.device}")
    if not 0 <= text_tokens <= qkv.shape[1]:
        raise ValueError(f"text_tokens must be from 0 to {qkv.shape[1]}, it is {text_tokens}")


def launch_joint(
    qkv: torch.Tensor,
    weights: torch.Tensor,
    table: torch.Tensor,
    text_tokens: int,
    eps: float,
    two_roundings: bool,
) -> torch.Tensor:
    """Launch the in-place kernel on checked input."""
    from prgate_kernels.triton_qk_norm_rope import joint_in_place_kernel

    batch, tokens, _, heads, head_dim = qkv.shape
    if batch * tokens == 0:
        return qkv
    joint_in_place_kernel[(batch * tokens, -(-2 * heads // JOINT_TILE))](
        qkv, table, weights, tokens, text_tokens, qkv.stride(1),
        HEADS=heads, HEAD_DIM=head_dim, EPS=eps, TILE=JOINT_TILE, TWO_ROUNDINGS=two_roundings, num_warps=4,
    )  # fmt: skip
    return qkv


def eager_joint_(
    qkv: torch.Tensor,
    weights: torch.Tensor,
    table: torch.Tensor,
    text_tokens: int,
    eps: float,
    two_roundings: bool,
) -> torch.Tensor:
    """Do the same by plain PyTorch, in place."""
    rotation = torch.float64 if qkv.dtype == torch.float64 else torch.float32
    for stream, rows in enumerate((slice(0, text_tokens), slice(text_tokens, None))):
        for which in (0, 1):
            part = qkv[:, rows, which]
            normed = rms_norm(part, weights[stream, which], eps, two_roundings=two_roundings)
            part.copy_(rotate_table(normed, table[rows], interleaved=True, dtype=rotation))
    return qkv
