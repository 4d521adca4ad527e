"""Sigmas, guidance, and two ways to advance requests: a whole loop, or a step at a time by a scheduler."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from perf_runner.targets.qwen_image_dit.config import DitConfig, Workload

# The published scheduler configuration of Qwen-Image: flow matching, Euler, dynamic exponential shift.
BASE_SHIFT, MAX_SHIFT, BASE_TOKENS, MAX_TOKENS, TERMINAL = 0.5, 0.9, 256, 8192, 0.02
SCHEDULER = "FlowMatchEuler(shift 0.5..0.9 over 256..8192 tokens, exponential, terminal 0.02)"
Forward = Callable[[torch.Tensor, torch.Tensor, tuple[float, ...]], torch.Tensor]


def schedule(image_tokens: int, steps: int) -> tuple[float, ...]:
    """Return steps + 1 sigmas from 1 down to 0 (FlowMatchEulerDiscrete with dynamic shifting)."""
    slope = (MAX_SHIFT - BASE_SHIFT) / (MAX_TOKENS - BASE_TOKENS)
    mu = BASE_SHIFT + slope * (image_tokens - BASE_TOKENS)
    plain = [1.0 - (1.0 - 1.0 / steps) * i / max(steps - 1, 1) for i in range(steps)]
    shifted = [math.exp(mu) / (math.exp(mu) + 1.0 / sigma - 1.0) for sigma in plain]
    stretch = (1.0 - shifted[-1]) / (1.0 - TERMINAL) or 1.0
    return (*(1.0 - (1.0 - sigma) / stretch for sigma in shifted), 0.0)


def guide(positive: torch.Tensor, negative: torch.Tensor, scale: float) -> torch.Tensor:
    """Return the true-CFG velocity, rescaled by token to the positive branch's norm."""
    combined = negative + scale * (positive - negative)
    wanted, got = (torch.norm(x, dim=-1, keepdim=True) for x in (positive, combined))
    return combined * (wanted / got)


def euler(latents: torch.Tensor, velocity: torch.Tensor, step: torch.Tensor | float) -> torch.Tensor:
    """Return the latents one step further; computed in fp32, kept in the latents' dtype."""
    return (latents.float() + step * velocity.float()).to(latents.dtype)


@dataclass(frozen=True)
class Request:
    """One request under way: all its state. latents [1, image_tokens, 64]; texts are [1, tokens, dim]."""

    number: int
    latents: torch.Tensor
    positive: torch.Tensor
    negative: torch.Tensor
    sigmas: tuple[float, ...]
    guidance: float
    step: int = 0

    @property
    def done(self) -> bool:
        """Say whether all steps were taken."""
        return self.step + 1 >= len(self.sigmas)


def new_request(
    config: DitConfig, work: Workload, device: torch.device, number: int = 0, embeddings: int = 0
) -> Request:
    """Return a request whose noise and embeddings depend on the seed and its number alone.

    Values are drawn on the CPU, so that every device and batch gets the same. `embeddings` picks the prompt.
    """
    dtype = getattr(torch, work.dtype)

    def draw(tokens: int, width: int, salt: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(work.seed * 1_000_003 + salt)
        return torch.randn((1, tokens, width), generator=generator).to(device=device, dtype=dtype)

    text = config.joint_attention_dim
    return Request(
        number=number,
        latents=draw(work.image_tokens, config.in_channels, 1000 + number),
        positive=draw(work.text_tokens, text, 1 + 2 * embeddings),
        negative=draw(work.text_tokens, text, 2 + 2 * embeddings),
        sigmas=schedule(work.image_tokens, work.steps),
        guidance=work.true_cfg_scale,
    )


def advance(forward: Forward, requests: Sequence[Request]) -> list[Request]:
    """Return requests of equal shape and equal step one step further, as one batch of two forwards."""
    latents = torch.cat([request.latents for request in requests])
    now = tuple(request.sigmas[request.step] for request in requests)
    positive = forward(latents, torch.cat([request.positive for request in requests]), now).clone()
    negative = forward(latents, torch.cat([request.negative for request in requests]), now)
    velocity = guide(positive, negative, requests[0].guidance)
    ahead = requests[0].sigmas[requests[0].step + 1] - now[0]
    moved = euler(latents, velocity, ahead)
    return [
        replace(request, latents=part, step=request.step + 1)
        for request, part in zip(requests, moved.split(1), strict=True)
    ]


def run_whole(forward: Forward, request: Request, after_step: Callable[[], None] | None = None) -> Request:
    """Return a request after its whole loop."""
    while not request.done:
        request = advance(forward, [request])[0]
        if after_step is not None:
            after_step()
    return request


class StepScheduler:
    """Advances requests a step at a time: those of equal shape, schedule and step share a batch.

    `max_batch` bounds a batch; a request that was taken out by `cancel` leaves nothing behind.
    """

    def __init__(self, forward: Forward, max_batch: int = 8) -> None:
        if max_batch < 1:
            raise ValueError(f"max_batch must be at least 1, it is {max_batch}")
        self.forward, self.max_batch = forward, max_batch
        self.waiting: list[Request] = []

    def add(self, request: Request) -> None:
        """Take in a request, at whatever step it stands."""
        self.waiting.append(request)

    def cancel(self, number: int) -> bool:
        """Drop a request; False when it is not here."""
        kept = [request for request in self.waiting if request.number != number]
        dropped = len(kept) < len(self.waiting)
        self.waiting = kept
        return dropped

    def next_batch(self) -> list[Request]:
        """Return the oldest request and those that can share its step."""
        if not self.waiting:
            return []
        lead = self.waiting[0]
        return [request for request in self.waiting if joins(request, lead)][: self.max_batch]

    def tick(self) -> list[Request]:
        """Advance one batch by a step; return the requests that it finished."""
        batch = self.next_batch()
        if not batch:
            return []
        moved = advance(self.forward, batch)
        numbers = {request.number for request in batch}
        rest = [request for request in self.waiting if request.number not in numbers]
        self.waiting = rest + [request for request in moved if not request.done]
        return [request for request in moved if request.done]


def joins(request: Request, lead: Request) -> bool:
    """Say whether two requests can be one batch."""
    return (
        request.step == lead.step
        and request.sigmas == lead.sigmas
        and request.guidance == lead.guidance
        and request.latents.shape == lead.latents.shape
        and request.positive.shape == lead.positive.shape
    )
