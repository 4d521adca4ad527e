"""A fix measured beside the commit that was slow and the one before it: what came back, and what is left."""

from collections.abc import Sequence

from perf_runner.gate import GateSettings, Look, look_at, pair
from perf_runner.models import Block, Recovery
from perf_runner.stats import to_percent


def recovery(blocks: Sequence[Block], arms: tuple[str, str, str], settings: GateSettings) -> Recovery | None:
    """Return how much of the slowdown of `slow` against `parent` the `fixed` arm took back.

    `arms`: names of parent, slow and fixed. Each contrast has an always-valid interval; the share's bounds
    combine their worst ends. None while slow is not shown to be slower than parent.
    """
    parent, slow, fixed = arms
    lost = contrast(blocks, parent, slow, settings)
    left = contrast(blocks, parent, fixed, settings)
    if lost.low is None or lost.high is None or lost.change is None or lost.low <= 0:
        return None
    if left.low is None or left.high is None or left.change is None:
        return None
    worst = max(left.high / lost.low, left.high / lost.high)
    best = min(left.low / lost.low, left.low / lost.high)
    return Recovery(
        recovered_pct=(1.0 - left.change / lost.change) * 100.0,
        recovered_low_pct=(1.0 - worst) * 100.0,
        recovered_high_pct=(1.0 - best) * 100.0,
        residual_pct=to_percent(left.change),
        residual_low_pct=to_percent(left.low),
        residual_high_pct=to_percent(left.high),
    )


def contrast(blocks: Sequence[Block], base: str, head: str, settings: GateSettings) -> Look:
    """Return the look of one arm against another over all blocks."""
    return look_at([pair(block.seconds(base), block.seconds(head)) for block in blocks], settings)
