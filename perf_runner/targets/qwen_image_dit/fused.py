"""The whole forward with every fused pattern: one joint hidden buffer, no concatenation, no allocation.

Rows of the hidden buffer: the text tokens of all samples, then their image tokens. A block is two norm
launches (each with the gated residual before it), one Q/K launch, attention, and eight GEMMs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from perf_runner.targets.qwen_image_dit.processors import EPS, attend
from prgate_kernels.adaln import Rows, norm_modulate
from prgate_kernels.fused_linear import project_into
from prgate_kernels.gated_residual_norm import gated_residual_norm_modulate_
from prgate_kernels.modulation_cache import ModulationCache, ModulationKey
from prgate_kernels.qk_norm_rope import joint_qk_norm_rope_, pack_norm_weights
from prgate_kernels.rope_table import joint_table
from prgate_kernels.swiglu import linear_gelu

SHIFT_1, SCALE_1, GATE_1, SHIFT_2, SCALE_2, GATE_2 = range(6)
CACHE_BYTES = 1 << 30
OVERLAP_TOKENS = 2048  # above, the image's GEMMs leave nothing for the text's to fill
Linear = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Stream:
    """Weights and biases of one stream of a block."""

    qkv: Linear
    out: Linear
    up: Linear
    down: Linear


@dataclass(frozen=True)
class BlockWeights:
    """One block: its text and image stream, and the packed Q/K norm weights."""

    text: Stream
    image: Stream
    norms: torch.Tensor


def pair(layer: Any) -> Linear:
    """Return weight and bias of a linear layer."""
    return layer.weight.detach(), layer.bias.detach()


def block_weights(block: Any) -> BlockWeights:
    """Return the weights of one of diffusers' blocks; nothing is copied but the norm weights."""
    attn = block.attn
    text_norms = (attn.norm_added_q.weight, attn.norm_added_k.weight)

    def stream(qkv: Any, out: Any, mlp: Any) -> Stream:
        return Stream(pair(qkv), pair(out), pair(mlp.net[0].proj), pair(mlp.net[2]))

    return BlockWeights(
        text=stream(attn.to_added_qkv, attn.to_add_out, block.txt_mlp),
        image=stream(attn.to_qkv, attn.to_out[0], block.img_mlp),
        norms=pack_norm_weights(text_norms, (attn.norm_q.weight, attn.norm_k.weight)).detach(),
    )


class Workspace:
    """The buffers of one shape: reused by every forward of that shape."""

    def __init__(self, model: Any, rows: Rows, image_shape: tuple[int, int, int]) -> None:
        weight = model.img_in.weight
        width, layers = weight.shape[0], len(model.transformer_blocks)
        heads = model.config.num_attention_heads

        def empty(*shape: int) -> torch.Tensor:
            return torch.empty(shape, dtype=weight.dtype, device=weight.device)

        tokens = rows.text_tokens + rows.image_tokens
        self.rows = rows
        self.hidden, self.normed, self.branch = (empty(rows.total, width) for _ in range(3))
        self.mlp = empty(rows.total, 4 * width)
        self.qkv = empty(rows.samples, tokens, 3, heads, width // heads)
        self.modulation = empty(modulation_size(layers, rows.samples, width))
        self.blocks, self.final = modulation_views(self.modulation, layers, rows.samples, width)
        rotary = model.pos_embed([image_shape], max_txt_seq_len=rows.text_tokens, device=weight.device)
        self.table = joint_table(rotary[1], rotary[0])


def modulation_size(layers: int, samples: int, width: int) -> int:
    """Return the elements of all modulations of one step."""
    return samples * width * (layers * 12 + 2)


def modulation_views(
    flat: torch.Tensor, layers: int, samples: int, width: int
) -> tuple[tuple[tuple[torch.Tensor, ...], ...], tuple[torch.Tensor, torch.Tensor]]:
    """Return six views [2, samples, width] for each block, and the final norm's (shift, scale)."""
    body = flat[: layers * 2 * samples * 6 * width].view(layers, 2, samples, 6, width)
    last = flat[layers * 2 * samples * 6 * width :].view(1, samples, 2, width)
    blocks = tuple(tuple(body[layer].unbind(2)) for layer in range(layers))
    return blocks, (last[:, :, 1], last[:, :, 0])


@torch.no_grad()  # type: ignore[untyped-decorator]
def compute_modulations(model: Any, timestep: torch.Tensor) -> torch.Tensor:
    """Return all modulations of timesteps [samples] as one flat tensor, by the model's own layers."""
    temb = model.time_text_embed(timestep.to(model.img_in.weight.dtype), model.img_in.weight)
    parts = [mod(temb) for block in model.transformer_blocks for mod in (block.txt_mod, block.img_mod)]
    last = model.norm_out.linear(model.norm_out.silu(temb))
    return torch.cat([torch.stack(parts).flatten(), last.flatten()])


class FusedDit:
    """The fused forward of a model; keeps one workspace a shape and the cache of modulations."""

    def __init__(self, model: Any, name: str, overlap_tokens: int = OVERLAP_TOKENS) -> None:
        self.model, self.name = model, name
        self.weights = [block_weights(block) for block in model.transformer_blocks]
        self.cache = ModulationCache(CACHE_BYTES)
        self.overlap_tokens = overlap_tokens
        self.side: torch.cuda.Stream | None = None

    def modulate(self, space: Workspace, sigmas: tuple[float, ...], adapter: str = "") -> None:
        """Bring the modulations of a step, one sigma a sample, into the workspace."""
        weight = self.model.img_in.weight
        key = ModulationKey(self.name, sigmas, str(weight.device), str(weight.dtype), adapter)

        def make() -> torch.Tensor:
            return compute_modulations(self.model, torch.tensor(sigmas, device=weight.device))

        space.modulation.copy_(self.cache.get(key, make))

    def both(self, rows: Rows, image: Callable[[], object], text: Callable[[], object]) -> None:
        """Run both streams' work: beside each other inside a graph of few tokens, else one after the other.

        The text's GEMMs are bound by memory, the image's by arithmetic. Outside a graph a fork costs time.
        """
        few = rows.samples * rows.image_tokens <= self.overlap_tokens
        if not (few and self.model.img_in.weight.is_cuda and torch.cuda.is_current_stream_capturing()):
            text()
            image()
            return
        self.side = self.side or torch.cuda.Stream()
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        image()
        with torch.cuda.stream(self.side):
            text()
        main.wait_stream(self.side)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def forward(self, space: Workspace, latents: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """Return the velocity [samples, image_tokens, out]; the modulations are those in the workspace."""
        model, rows = self.model, space.rows
        if latents.shape[:2] != (rows.samples, rows.image_tokens):
            raise ValueError(f"latents must be [{rows.samples}, {rows.image_tokens}, …], not {latents.shape}")
        split = rows.text
        torch.addmm(
            model.img_in.bias, latents.flatten(0, 1), model.img_in.weight.t(), out=space.hidden[split:]
        )
        prompt = model.txt_norm(text).flatten(0, 1)
        torch.addmm(model.txt_in.bias, prompt, model.txt_in.weight.t(), out=space.hidden[:split])
        first = space.blocks[0]
        norm_modulate(space.hidden, (first[SHIFT_1], first[SCALE_1]), rows, EPS, out=space.normed)
        for index, weights in enumerate(self.weights):
            self.attention(space, weights)
            mods = space.blocks[index]
            self.residual_norm(space, mods[GATE_1], (mods[SHIFT_2], mods[SCALE_2]))
            self.mlp(space, weights)
            if index + 1 < len(self.weights):
                following = space.blocks[index + 1]
                self.residual_norm(space, mods[GATE_2], (following[SHIFT_1], following[SCALE_1]))
        last = self.last_norm(space)
        projected = torch.addmm(model.proj_out.bias, last, model.proj_out.weight.t())
        return projected.view(rows.samples, rows.image_tokens, -1)

    def attention(self, space: Workspace, weights: BlockWeights) -> None:
        """Write both streams' attention output, projected, into the branch buffer."""
        rows, width = space.rows, space.hidden.shape[1]
        samples, text_tokens = rows.samples, rows.text_tokens
        normed = self.by_sample(space.normed, rows)
        flat = space.qkv.view(samples, -1, 3 * width)

        def project(stream: int, linear: Linear) -> None:
            part = flat[:, :text_tokens] if stream == 0 else flat[:, text_tokens:]
            for sample in range(samples):
                project_into(normed[stream][sample], *linear, part[sample])

        self.both(rows, lambda: project(1, weights.image.qkv), lambda: project(0, weights.text.qkv))
        joint_qk_norm_rope_(space.qkv, weights.norms, space.table, text_tokens, EPS)
        joined = attend(*space.qkv.unbind(2))
        branch = self.by_sample(space.branch, rows)

        def leave(stream: int, linear: Linear) -> None:
            part = joined[:, :text_tokens] if stream == 0 else joined[:, text_tokens:]
            for sample in range(samples):
                project_into(part[sample], *linear, branch[stream][sample])

        self.both(rows, lambda: leave(1, weights.image.out), lambda: leave(0, weights.text.out))

    @staticmethod
    def by_sample(buffer: torch.Tensor, rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
        """Return views [samples, tokens, width] of the text rows and of the image rows."""
        text = buffer[: rows.text].view(rows.samples, rows.text_tokens, -1)
        return text, buffer[rows.text :].view(rows.samples, rows.image_tokens, -1)

    def mlp(self, space: Workspace, weights: BlockWeights) -> None:
        """Write both streams' MLP output into the branch buffer."""

        def run(stream: Stream, rows: slice) -> None:
            active = linear_gelu(space.normed[rows], *stream.up, space.mlp[rows])
            torch.addmm(stream.down[1], active, stream.down[0].t(), out=space.branch[rows])

        split = space.rows.text
        image = lambda: run(weights.image, slice(split, None))  # noqa: E731
        self.both(space.rows, image, lambda: run(weights.text, slice(0, split)))

    def residual_norm(
        self, space: Workspace, gate: torch.Tensor, modulation: tuple[torch.Tensor, torch.Tensor]
    ) -> None:
        """Add the gated branch to the hidden rows and write their modulated norm."""
        gated_residual_norm_modulate_(
            space.hidden, space.branch, gate, modulation, space.rows, EPS, out=space.normed
        )

    def last_norm(self, space: Workspace) -> torch.Tensor:
        """Return the final norm of the image rows, with the last block's residual added first."""
        rows = space.rows
        images = Rows(rows.samples, 0, rows.image_tokens)
        views = [buffer[rows.text :] for buffer in (space.hidden, space.branch, space.normed)]
        gate = space.blocks[-1][GATE_2][1:]
        return gated_residual_norm_modulate_(views[0], views[1], gate, space.final, images, EPS, out=views[2])
