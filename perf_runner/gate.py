"""The sequential gate: blocks of interleaved runs in, one Decision out. Pure: no clock, files or chance.

A gate keeps nothing but its blocks and judges all of them anew after each one, so resuming, recovering from a
crash and asking for more blocks are one path: feed the stored blocks again. Formulas: deploy/docs/math.md.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real

from perf_runner.models import Decision, Outcome
from perf_runner.stats import inflation, mixture_radius, spread_of_pairs, to_percent

DEFAULT_MARGIN = 0.02
DEFAULT_ALPHA = 0.03
DEFAULT_MAX_BLOCKS = 10
BLOCKS_LIMIT = 1000
MIN_BLOCKS = 2  # a verdict needs a repeat: one disturbance can hit both head runs of one block
VETO_SDS = 4.0  # of the difference of two runs of one arm
STEADY_ERRORS = 1.0  # a red verdict stands without its largest block: its mean is this many errors above 0
NOISY_AFTER = 8  # blocks fed before "more than half vetoed" ends an experiment
CONFIRM_RATIO = 5.0 / 3.0  # level of the upper bound over that of the lower
PAIRS_FOR_VETO = 6  # without a prior: same-arm pairs needed before their spread may veto
MARGINS = ((0.010, 0.02), (0.015, 0.03), (0.030, 0.05))  # (block sd up to, margin)
WIDEST_MARGIN = 0.08


@dataclass(frozen=True)
class GateSettings:
    """What a gate is told. `margin` is a fraction; `prior_sd` the sd of an A/A block's log ratio."""

    margin: float = DEFAULT_MARGIN
    alpha: float = DEFAULT_ALPHA
    max_blocks: int = DEFAULT_MAX_BLOCKS
    prior_sd: float | None = None
    prior_df: float = 10.0

    def __post_init__(self) -> None:
        """Refuse what has no meaning; ValueError names the setting."""
        if not is_number(self.margin) or not 0 < self.margin < 1:
            raise ValueError(f"margin must be a fraction between 0 and 1, not {self.margin!r}")
        if not is_number(self.alpha) or not 0 < self.alpha < 0.25:
            raise ValueError(f"alpha must lie between 0 and 0.25, not {self.alpha!r}")
        if not is_number(self.max_blocks) or self.max_blocks not in range(1, BLOCKS_LIMIT + 1):
            raise ValueError(
                f"max_blocks must be a whole number from 1 to {BLOCKS_LIMIT}, not {self.max_blocks!r}"
            )
        if self.prior_sd is not None and (not is_number(self.prior_sd) or self.prior_sd <= 0):
            raise ValueError(f"prior_sd must be a finite number above 0, not {self.prior_sd!r}")
        if not is_number(self.prior_df) or self.prior_df <= 0:
            raise ValueError(f"prior_df must be a finite number above 0, not {self.prior_df!r}")

    @property
    def confirm_alpha(self) -> float:
        """Return the level of the upper bound, which confirms "no regression"."""
        return min(CONFIRM_RATIO * self.alpha, 0.4)


@dataclass(frozen=True)
class PairedBlock:
    """One A B B A block in logs: the change of head against base, and each arm's disagreement with itself."""

    change: float
    base_difference: float
    head_difference: float

    @property
    def within(self) -> float:
        """Return this block's own estimate of the variance of `change` (2 degrees of freedom)."""
        return (self.base_difference**2 + self.head_difference**2) / 4.0


@dataclass(frozen=True)
class Look:
    """What is known after some blocks: all in logs; None while nothing was accepted.

    `steady`: no single block carries the slowdown.
    """

    fed: int
    accepted: int
    vetoed_by: Counter[str]
    change: float | None
    low: float | None
    high: float | None
    steady: bool = False


def is_number(value: object) -> bool:
    """Say whether `value` is a finite real number and no bool."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def pair(base: Sequence[float], head: Sequence[float]) -> PairedBlock:
    """Return the block of two base and two head times in seconds; ValueError for anything else."""
    for name, values in (("base", base), ("head", head)):
        if len(values) != 2:
            raise ValueError(
                f"{name} holds {len(values)} runs: a block is two of base and two of head (A B B A)"
            )
        for value in values:
            if not is_number(value) or value <= 0:
                raise ValueError(f"{name} holds {value!r}: a time must be a finite number above 0")
    (first, last), (second, third) = ([math.log(float(v)) for v in values] for values in (base, head))
    return PairedBlock((second + third - first - last) / 2.0, first - last, second - third)


def margin_for(sd: float) -> float:
    """Return the margin that a block sd allows: 2, 3, 5 or 8 per cent (as a fraction)."""
    return next((margin for limit, margin in MARGINS if sd <= limit), WIDEST_MARGIN)


def veto_limit(blocks: Sequence[PairedBlock], settings: GateSettings) -> float:
    """Return the log difference of two runs of one arm above which their block does not count."""
    sd = settings.prior_sd
    if sd is None:
        pairs = [value for block in blocks for value in (block.base_difference, block.head_difference)]
        sd = spread_of_pairs(pairs) if len(pairs) >= PAIRS_FOR_VETO else 0.0
    return VETO_SDS * math.sqrt(2.0) * sd if sd > 0 else math.inf


def look_at(blocks: Sequence[PairedBlock], settings: GateSettings) -> Look:
    """Return the estimate and both bounds after `blocks`, vetoed ones left out."""
    limit = veto_limit(blocks, settings)
    accepted, vetoed = [], Counter[str]()
    for block in blocks:
        arms = [abs(block.base_difference) > limit, abs(block.head_difference) > limit]
        if any(arms):
            vetoed["both" if all(arms) else "base" if arms[0] else "head"] += 1
        else:
            accepted.append(block)
    return bounded(accepted, settings, len(blocks), vetoed)


def bounded(accepted: Sequence[PairedBlock], settings: GateSettings, fed: int, vetoed: Counter[str]) -> Look:
    """Return the look over the accepted blocks: mean log change and its always-valid bounds."""
    n = len(accepted)
    if n == 0:
        return Look(fed, 0, vetoed, None, None, None)
    mean = math.fsum(block.change for block in accepted) / n
    variance, freedom = noise(accepted, mean, settings)
    if freedom <= 0:
        return Look(fed, n, vetoed, mean, None, None)
    sd = math.sqrt(variance)
    down, up = (
        inflation(alpha, freedom) * sd * mixture_radius(n, alpha)
        for alpha in (settings.alpha, settings.confirm_alpha)
    )
    return Look(fed, n, vetoed, mean, mean - down, mean + up, is_steady(accepted, mean, sd))


def is_steady(accepted: Sequence[PairedBlock], mean: float, sd: float) -> bool:
    """Say whether the mean without the largest block lies above 0, too: one burst must not decide."""
    others = len(accepted) - 1
    if others < 1:
        return False
    rest = (mean * (others + 1) - max(block.change for block in accepted)) / others
    return rest > STEADY_ERRORS * sd / math.sqrt(others)


def noise(accepted: Sequence[PairedBlock], mean: float, settings: GateSettings) -> tuple[float, float]:
    """Return the variance of one block's change and its degrees of freedom: the larger of two estimates."""
    n = len(accepted)
    squares = math.fsum((block.change - mean) ** 2 for block in accepted)
    within = math.fsum(block.within for block in accepted) / n
    if settings.prior_sd is None:
        return max(squares / (n - 1) if n > 1 else 0.0, within), float(n - 1)
    freedom = settings.prior_df + n - 1
    between = (settings.prior_df * settings.prior_sd**2 + squares) / freedom
    return max(between, within), freedom


class SequentialGate:
    """Decides after each block whether head is slower than base, is not, or more blocks are needed."""

    def __init__(
        self,
        margin: float = DEFAULT_MARGIN,
        alpha: float = DEFAULT_ALPHA,
        max_blocks: int = DEFAULT_MAX_BLOCKS,
        prior_sd: float | None = None,
        prior_df: float = 10.0,
    ) -> None:
        self.settings = GateSettings(margin, alpha, max_blocks, prior_sd, prior_df)
        self.blocks: list[PairedBlock] = []
        self.decision: Decision | None = None

    def update(self, base: Sequence[float], head: Sequence[float]) -> Decision | None:
        """Add one block (seconds, lower is better); return the decision, or None to go on.

        ValueError for NaN, zero, negative or unequal input, and for a block after the decision.
        """
        if self.decision is not None:
            raise ValueError("this gate has decided; replay the blocks in a new one with a higher max_blocks")
        self.blocks.append(pair(base, head))
        self.decision = judge(look_at(self.blocks, self.settings), self.settings)
        return self.decision

    def conclude(self, why: str) -> Decision:
        """Return the decision as it stands: inconclusive with `why` where the blocks have not decided."""
        look = look_at(self.blocks, self.settings)
        return self.decision or describe(Outcome.INCONCLUSIVE, why, look, self.settings)


def replay(
    blocks: Iterable[tuple[Sequence[float], Sequence[float]]], settings: GateSettings
) -> SequentialGate:
    """Return a gate that has seen `blocks` (base, head) up to its decision; later blocks are left unread."""
    s = settings
    gate = SequentialGate(s.margin, s.alpha, s.max_blocks, s.prior_sd, s.prior_df)
    for base, head in blocks:
        if gate.update(base, head) is not None:
            break
    return gate


def judge(look: Look, settings: GateSettings) -> Decision | None:
    """Return the decision that a look allows; None to go on."""
    if look.accepted >= MIN_BLOCKS and look.low is not None and look.high is not None:
        if look.high < math.log1p(settings.margin):
            return describe(Outcome.NO_REGRESSION, why_confirmed(look, settings), look, settings)
        if look.low > 0 and look.steady:
            return describe(Outcome.REGRESSION, why_slower(look), look, settings)
    vetoed = look.fed - look.accepted
    if look.fed >= NOISY_AFTER and 2 * vetoed > look.fed:
        return describe(Outcome.INCONCLUSIVE, why_noisy(look), look, settings)
    if look.accepted >= settings.max_blocks:
        why = f"{look.accepted} blocks leave it open: the interval holds both 0 and the margin"
        return describe(Outcome.INCONCLUSIVE, why, look, settings)
    if look.fed >= 2 * settings.max_blocks:
        return describe(Outcome.INCONCLUSIVE, why_noisy(look), look, settings)
    return None


def why_confirmed(look: Look, settings: GateSettings) -> str:
    """Say why nothing got slower."""
    high = to_percent(look.high or 0.0)
    if high < 0:
        return f"head is faster: even the upper bound, {high:+.1f} %, is below 0"
    return f"the upper bound, {high:+.1f} %, is below the margin of {settings.margin * 100:g} %"


def why_slower(look: Look) -> str:
    """Say why head counts as slower."""
    return f"head is slower: even the lower bound, {to_percent(look.low or 0.0):+.1f} %, is above 0"


def why_noisy(look: Look) -> str:
    """Say which arm's runs disagreed with each other."""
    vetoed = look.fed - look.accepted
    text = f"noisy host: in {vetoed} of {look.fed} blocks the runs of one arm disagreed"
    for arm in ("base", "head"):
        if vetoed >= 3 and look.vetoed_by[arm] * 4 >= 3 * vetoed:
            text += f"; it is mostly {arm} that is unstable"
    return text


def describe(outcome: Outcome, why: str, look: Look, settings: GateSettings) -> Decision:
    """Return the decision in the report's units."""
    low, high = look.low, look.high
    return Decision(
        decision=outcome,
        why=why,
        change_pct=None if look.change is None else to_percent(look.change),
        low_pct=None if low is None else to_percent(low),
        high_pct=None if high is None else to_percent(high),
        margin_pct=settings.margin * 100.0,
        alpha=settings.alpha,
        blocks_used=look.accepted,
        blocks_vetoed=look.fed - look.accepted,
        runs_used=4 * look.fed,
        improved=high is not None and high < 0 and outcome is Outcome.NO_REGRESSION,
    )
