"""Attention processors of diffusers' blocks: all else of the block stays as diffusers ships it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as functional

from prgate_kernels import path_log
from prgate_kernels.qk_norm_rope import joint_qk_norm_rope_, pack_norm_weights, rotate_complex
from prgate_kernels.rope_table import joint_table, pack_frequencies

EPS = 1e-6
Op = Callable[..., tuple[torch.Tensor, torch.Tensor]]
Pair = tuple[torch.Tensor, torch.Tensor]


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return attention of [batch, tokens, heads, dim] views as [batch, tokens, heads * dim]."""
    views = (x.transpose(1, 2) for x in (q, k, v))
    return functional.scaled_dot_product_attention(*views).transpose(1, 2).flatten(2)


def project_out(attention: Any, joined: torch.Tensor, text_tokens: int) -> Pair:
    """Return the image's and the text's part through their output projections."""
    image = attention.to_out[0](joined[:, text_tokens:].contiguous())
    return image, attention.to_add_out(joined[:, :text_tokens].contiguous())


def split_heads(projected: torch.Tensor, head_dim: int) -> tuple[torch.Tensor, ...]:
    """Return q, k and v [batch, tokens, heads, dim] of a fused projection, as views."""
    return tuple(part.unflatten(-1, (-1, head_dim)) for part in projected.chunk(3, dim=-1))


class EagerProcessor:
    """One QKV projection a stream, diffusers' norm, fp32 complex rotation, concatenation."""

    def __call__(
        self,
        attn: Any,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        encoder_hidden_states_mask: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        image_rotary_emb: Any = None,
    ) -> Pair:
        """Return the image's and the text's attention output."""
        head_dim = attn.inner_dim // attn.heads
        image = split_heads(attn.to_qkv(hidden_states), head_dim)
        text = split_heads(attn.to_added_qkv(encoder_hidden_states), head_dim)
        image_q, image_k = self.norm_rope(image, (attn.norm_q, attn.norm_k), image_rotary_emb[0])
        text_q, text_k = self.norm_rope(text, (attn.norm_added_q, attn.norm_added_k), image_rotary_emb[1])
        joined = attend(
            torch.cat((text_q, image_q), dim=1),
            torch.cat((text_k, image_k), dim=1),
            torch.cat((text[2], image[2]), dim=1),
        )
        return project_out(attn, joined, encoder_hidden_states.shape[1])

    def norm_rope(self, qkv: tuple[torch.Tensor, ...], norms: Any, frequencies: torch.Tensor) -> Pair:
        """Return q and k of one stream, normalised and rotated."""
        return (
            rotate_complex(norms[0](qkv[0]), frequencies),
            rotate_complex(norms[1](qkv[1]), frequencies),
        )


class CountingEagerProcessor(EagerProcessor):
    """The eager processor, with its path counted (not for torch.compile: counters are no graph)."""

    def norm_rope(self, qkv: tuple[torch.Tensor, ...], norms: Any, frequencies: torch.Tensor) -> Pair:
        """Return q and k of one stream, normalised and rotated."""
        path_log.record("qk_norm_rope.eager")
        return super().norm_rope(qkv, norms, frequencies)


@dataclass
class PerStreamProcessor(EagerProcessor):
    """A fused operator a stream with vllm-omni's contract; the table is built in every call, or once.

    `fuse` is set once a forward by the gate: False takes the eager chain.
    """

    operator: Op
    name: str
    hoisted: bool = False
    fuse: bool = True

    def __post_init__(self) -> None:
        self.tables: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def norm_rope(self, qkv: tuple[torch.Tensor, ...], norms: Any, frequencies: torch.Tensor) -> Pair:
        """Return q and k of one stream, normalised and rotated."""
        if not self.fuse:
            path_log.record("qk_norm_rope.eager")
            return super().norm_rope(qkv, norms, frequencies)
        path_log.record(f"qk_norm_rope.{self.name}")
        batch, tokens, heads, head_dim = qkv[0].shape
        table = self.table(frequencies)
        table = table.unsqueeze(0).expand(batch, -1, -1).reshape(batch * tokens, head_dim)
        flat = [x.reshape(batch * tokens, heads, head_dim) for x in qkv[:2]]
        weights = (norms[0].weight, norms[1].weight)
        q, k = self.operator(flat[0], flat[1], *weights, table, EPS, interleaved=True)
        return q.view(batch, tokens, heads, head_dim), k.view(batch, tokens, heads, head_dim)

    def table(self, frequencies: torch.Tensor) -> torch.Tensor:
        """Return the packed table, from the store where it is hoisted out of the block."""
        if not self.hoisted:
            return pack_frequencies(frequencies)
        key = frequencies.shape[0]
        kept = self.tables.get(key)
        if kept is None or kept[0].data_ptr() != frequencies.data_ptr():
            kept = self.tables[key] = (frequencies, pack_frequencies(frequencies))
        return kept[1]


class JointProcessor:
    """Our operator alone: projections write into row ranges of one buffer, one launch in place, no copies."""

    def __init__(self) -> None:
        self.weights: dict[int, torch.Tensor] = {}
        self.table_of: tuple[Any, torch.Tensor] | None = None

    def __call__(
        self,
        attn: Any,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        encoder_hidden_states_mask: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        image_rotary_emb: Any = None,
    ) -> Pair:
        """Return the image's and the text's attention output."""
        batch, text_tokens = encoder_hidden_states.shape[:2]
        tokens = text_tokens + hidden_states.shape[1]
        heads, head_dim = attn.heads, attn.inner_dim // attn.heads
        qkv = hidden_states.new_empty((batch, tokens, 3 * attn.inner_dim))
        added, own = attn.to_added_qkv, attn.to_qkv
        for sample in range(batch):
            rows = qkv[sample]
            torch.addmm(added.bias, encoder_hidden_states[sample], added.weight.t(), out=rows[:text_tokens])
            torch.addmm(own.bias, hidden_states[sample], own.weight.t(), out=rows[text_tokens:])
        buffer = qkv.view(batch, tokens, 3, heads, head_dim)
        joint_qk_norm_rope_(buffer, self.packed(attn), self.table(image_rotary_emb), text_tokens, EPS)
        return project_out(attn, attend(*buffer.unbind(2)), text_tokens)

    def packed(self, attn: Any) -> torch.Tensor:
        """Return the norm weights of a layer as the operator wants them, packed once."""
        found = self.weights.get(id(attn))
        if found is None:
            text = (attn.norm_added_q.weight, attn.norm_added_k.weight)
            found = pack_norm_weights(text, (attn.norm_q.weight, attn.norm_k.weight))
            self.weights[id(attn)] = found
        return found

    def table(self, rotary: Any) -> torch.Tensor:
        """Return the joint table, built once for one forward's rotary factors."""
        if self.table_of is None or self.table_of[0] is not rotary:
            self.table_of = (rotary, joint_table(rotary[1], rotary[0]))
        return self.table_of[1]
