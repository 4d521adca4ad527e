"""The rules of the review: one concern a file, each a pure function `check(change) -> findings`."""

from collections.abc import Callable, Iterable

from bot.review.change import Change
from bot.review.models import Finding
from bot.review.rules import (
    caches,
    collectives,
    evidence,
    fused_paths,
    host_sync,
    invariants,
    rounding,
    tail_latency,
    triton_kernels,
    unused_masks,
)

Rule = Callable[[Change], Iterable[Finding]]

RULES: tuple[Rule, ...] = (
    host_sync.check,
    invariants.check,
    fused_paths.check,
    triton_kernels.check,
    unused_masks.check,
    caches.check,
    rounding.check,
    collectives.check,
    tail_latency.check,
    evidence.check,
)
