"""The paths of one model, from diffusers as shipped to the fused forward in a CUDA graph.

All share the same weights, so that a run can interleave them. A path is chosen by `Paths.use`, which sets
the blocks' processors and compiled form, and is then a function of (latents, text, sigmas).
"""

from collections.abc import Callable
from typing import Any

import torch

from perf_runner.targets.qwen_image_dit import peer
from perf_runner.targets.qwen_image_dit.config import DitConfig
from perf_runner.targets.qwen_image_dit.denoise import Forward
from perf_runner.targets.qwen_image_dit.fused import FusedDit, Workspace
from perf_runner.targets.qwen_image_dit.graphs import Graphed
from perf_runner.targets.qwen_image_dit.processors import (
    CountingEagerProcessor,
    EagerProcessor,
    JointProcessor,
    PerStreamProcessor,
)
from prgate_kernels.adaln import Rows
from prgate_kernels.crossover import DEFAULT_MIN_TOKENS, fuses, resolve_min_tokens

DIFFUSERS, EAGER, UPSTREAM, HOISTED = "diffusers", "eager", "upstream", "upstream_hoisted"
GATED, QK_OP, COMPILED, COMPILED_GRAPH = "gated", "qk_op", "compiled", "compiled_graph"
FUSED, FUSED_GRAPH, ONE_STREAM = "fused", "fused_graph", "fused_graph_one_stream"
ALL_PATHS = (
    DIFFUSERS, EAGER, UPSTREAM, HOISTED, GATED, QK_OP, COMPILED, COMPILED_GRAPH,
    FUSED, ONE_STREAM, FUSED_GRAPH,
)  # fmt: skip
CPU_PATHS = (DIFFUSERS, EAGER, GATED, QK_OP, FUSED)
MAX_SHAPES = 16
Shape = tuple[int, int, tuple[int, int, int]]


class PathUnavailableError(RuntimeError):
    """A path that cannot be had here: a peer that is not installed, or a GPU that is not there."""


class Paths:
    """The paths of one model on one device."""

    def __init__(self, model: Any, config: DitConfig, seed: int = 0) -> None:
        from diffusers.models.transformers.transformer_qwenimage import QwenDoubleStreamAttnProcessor2_0

        self.model = model
        self.cuda = model.img_in.weight.device.type == "cuda"
        self.compiled: list[Any] | None = None
        self.graphs: dict[tuple[str, Shape], Graphed] = {}
        self.spaces: dict[tuple[str, Shape], Workspace] = {}
        name = f"{config.digest()}:{seed}"
        dit = FusedDit(model, name)
        one_stream = FusedDit(model, name, overlap_tokens=0)
        self.fused = {FUSED: dit, ONE_STREAM: one_stream, FUSED_GRAPH: dit}
        operator = peer.load() if self.cuda else None
        self.processors: dict[str, Any] = {
            DIFFUSERS: QwenDoubleStreamAttnProcessor2_0(),
            EAGER: CountingEagerProcessor(),
            QK_OP: JointProcessor(),
            COMPILED: EagerProcessor(),
        }
        self.processors[COMPILED_GRAPH] = self.processors[COMPILED]
        self.gate = PerStreamProcessor(operator or our_operator(), "upstream" if operator else "fused")
        self.processors[GATED] = self.gate
        if operator is not None:
            self.processors[UPSTREAM] = PerStreamProcessor(operator, "upstream")
            self.processors[HOISTED] = PerStreamProcessor(operator, "upstream", hoisted=True)

    def available(self) -> tuple[str, ...]:
        """Return the paths that can be had here."""
        known = self.processors.keys() | self.fused.keys()
        return tuple(name for name in (ALL_PATHS if self.cuda else CPU_PATHS) if name in known)

    def use(self, name: str, image_shape: tuple[int, int, int]) -> Forward:
        """Switch the model to a path and return its forward for images of a shape in tokens."""
        if name not in self.available():
            raise PathUnavailableError(f"the path {name} is not available here: {self.why_not(name)}")
        if name in self.fused:
            return self.use_fused(name, image_shape)
        self.install(self.processors[name], name in (COMPILED, COMPILED_GRAPH))
        if name == COMPILED_GRAPH:
            return self.graphed(name, image_shape)
        if name == GATED:
            return self.gated(image_shape)
        return lambda latents, text, sigmas: self.plain(latents, text, self.timestep(sigmas), image_shape)

    def why_not(self, name: str) -> str:
        """Return why a path is not available."""
        if name in (UPSTREAM, HOISTED) and self.cuda:
            return "vllm-omni is not installed"
        return "it needs a CUDA device" if name in ALL_PATHS else "no such path"

    def install(self, processor: Any, compiled: bool) -> None:
        """Give every block a processor, and its compiled form or none."""
        blocks = self.model.transformer_blocks
        for block in blocks:
            block.attn.processor = processor
        if compiled and self.compiled is None:
            for block in blocks:
                block.compile(fullgraph=True, dynamic=False)
            self.compiled = [block._compiled_call_impl for block in blocks]
        for index, block in enumerate(blocks):
            block._compiled_call_impl = self.compiled[index] if compiled and self.compiled else None

    def timestep(self, sigmas: tuple[float, ...]) -> torch.Tensor:
        """Return sigmas as a tensor on the model's device; equal ones are filled there without a copy."""
        device = self.model.img_in.weight.device
        if len(set(sigmas)) == 1:
            return torch.full((len(sigmas),), sigmas[0], dtype=torch.float32, device=device)
        return torch.tensor(sigmas, device=device)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def plain(
        self,
        latents: torch.Tensor,
        text: torch.Tensor,
        timestep: torch.Tensor,
        image_shape: tuple[int, int, int],
    ) -> torch.Tensor:
        """Return the velocity by diffusers' own forward."""
        shapes = [[image_shape]] * latents.shape[0]
        output: torch.Tensor = self.model(
            hidden_states=latents,
            encoder_hidden_states=text,
            timestep=timestep,
            img_shapes=shapes,
            return_dict=False,
        )[0]
        return output

    def gated(self, image_shape: tuple[int, int, int]) -> Forward:
        """Return the forward that resolves the threshold once and takes the eager or the fused operator."""

        def forward(latents: torch.Tensor, text: torch.Tensor, sigmas: tuple[float, ...]) -> torch.Tensor:
            tokens = latents.shape[1] + text.shape[1]
            self.gate.fuse = fuses(latents.shape[0], tokens, resolve_min_tokens(DEFAULT_MIN_TOKENS))
            return self.plain(latents, text, self.timestep(sigmas), image_shape)

        return forward

    def graphed(self, name: str, image_shape: tuple[int, int, int]) -> Forward:
        """Return the forward that captures each new shape once and replays it."""

        def function(latents: torch.Tensor, text: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
            return self.plain(latents, text, timestep, image_shape)

        def forward(latents: torch.Tensor, text: torch.Tensor, sigmas: tuple[float, ...]) -> torch.Tensor:
            timestep = self.timestep(sigmas)
            key = (name, (latents.shape[0], text.shape[1], image_shape))
            if key not in self.graphs:
                function(latents, text, timestep)
                self.keep(key, Graphed(function, (latents, text, timestep)))
            return self.graphs[key](latents, text, timestep)

        return forward

    def keep(self, key: tuple[str, Shape], graph: Graphed) -> None:
        """Store a graph; the oldest goes when there are too many shapes."""
        if len(self.graphs) >= MAX_SHAPES:
            oldest = next(iter(self.graphs))
            del self.graphs[oldest]
            self.spaces.pop(oldest, None)
        self.graphs[key] = graph

    def forget(self) -> None:
        """Drop graphs and workspaces: their memory is for other shapes."""
        self.graphs.clear()
        self.spaces.clear()

    def forget_schedule(self) -> None:
        """Drop the cached modulations: the next forward is the first of its schedule."""
        for dit in self.fused.values():
            dit.cache.clear()

    def space(self, name: str, shape: Shape) -> Workspace:
        """Return the workspace of a shape."""
        key = (name, shape)
        if key not in self.spaces:
            samples, text_tokens, image_shape = shape
            rows = Rows(samples, text_tokens, image_shape[0] * image_shape[1] * image_shape[2])
            self.spaces[key] = Workspace(self.model, rows, image_shape)
        return self.spaces[key]

    def use_fused(self, name: str, image_shape: tuple[int, int, int]) -> Forward:
        """Return the fused forward, in a CUDA graph where the path says so."""
        dit, in_graph = self.fused[name], name != FUSED

        def forward(latents: torch.Tensor, text: torch.Tensor, sigmas: tuple[float, ...]) -> torch.Tensor:
            shape = (latents.shape[0], text.shape[1], image_shape)
            space = self.space(name, shape)
            dit.modulate(space, sigmas)
            if not in_graph:
                return dit.forward(space, latents, text)
            key = (name, shape)
            if key not in self.graphs:
                self.keep(key, Graphed(lambda x, y: dit.forward(space, x, y), (latents, text)))
            return self.graphs[key](latents, text)

        return forward


def our_operator() -> Callable[..., Any]:
    """Return our operator of the same contract, where the peer's is not installed."""
    from prgate_kernels.qk_norm_rope import fused_qk_norm_rope

    return fused_qk_norm_rope
