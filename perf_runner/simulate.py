"""Simulated worlds for the gate and the rules it replaces: `python -m perf_runner.simulate` prints the table.

Each trial is a series of blocks, four runs each, in log seconds. The vectorised gate here agrees with
`perf_runner.gate` on every sequence (tests); it exists so that a cell of 20,000 trials takes seconds.
"""

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from perf_runner.gate import (
    MIN_BLOCKS,
    NOISY_AFTER,
    PAIRS_FOR_VETO,
    STEADY_ERRORS,
    VETO_SDS,
    GateSettings,
)
from perf_runner.stats import MAD_TO_SD, inflation, mixture_radius

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
RAMP = 0.0015  # of the drift, per run
WALK = 0.0015  # sd of the drift's random step, per run
WARM_UP, WARM_UP_RUNS = 0.02, 6.0
OUTLIERS, OUTLIER_FROM, OUTLIER_TO = 0.05, 0.10, 0.30
BURST_STARTS, BURST_RUNS = 0.01, 2  # a disturbance that lasts: it can hit both head runs of one block
NODE = 0.10  # how much slower another host is
HISTORY_NIGHTS = 7
IMPROVED_BY = 0.95  # a baseline "improved by 5 %"


class World(StrEnum):
    """What disturbs the runs, besides their own noise."""

    IID = "iid"
    DRIFT = "drift"
    OUTLIERS = "outliers"
    NODE = "node"
    ALL = "all"
    BURSTS = "bursts"


@dataclass(frozen=True)
class Rates:
    """What a rule said over many trials (per cent), and the runs it took (mean)."""

    regression: float
    no_regression: float
    inconclusive: float
    runs: float


def drift(shape: tuple[int, int], chance: np.random.Generator) -> Floats:
    """Return the log drift of runs in order: a ramp, a random walk, and a warm-up that fades."""
    order = np.arange(shape[1])
    ramp = chance.choice([-1.0, 1.0], (shape[0], 1)) * RAMP * order
    walk = np.cumsum(chance.normal(0.0, WALK, shape), axis=1)
    return np.asarray(ramp + walk + np.log1p(WARM_UP * np.exp(-order / WARM_UP_RUNS)))


def outliers(shape: tuple[int, int], chance: np.random.Generator) -> Floats:
    """Return the log slowdown of single runs that something else disturbed."""
    hit = chance.random(shape) < OUTLIERS
    return np.asarray(hit * np.log1p(chance.uniform(OUTLIER_FROM, OUTLIER_TO, shape)))


def bursts(shape: tuple[int, int], chance: np.random.Generator) -> Floats:
    """Return the log slowdown of disturbances that last two runs each."""
    starts = chance.random(shape) < BURST_STARTS
    size = starts * np.log1p(chance.uniform(OUTLIER_FROM, OUTLIER_TO, shape))
    later = np.pad(size, ((0, 0), (BURST_RUNS - 1, 0)))[:, : shape[1]]
    return np.asarray(np.maximum(size, later))


def runs(world: World, shape: tuple[int, int], sd: float, chance: np.random.Generator) -> Floats:
    """Return log seconds of `shape` (trials, runs in order) on one host."""
    values = chance.normal(0.0, sd, shape)
    if world in (World.DRIFT, World.ALL):
        values = values + drift(shape, chance)
    if world in (World.OUTLIERS, World.ALL):
        values = values + outliers(shape, chance)
    if world is World.BURSTS:
        values = values + bursts(shape, chance)
    return values


def simulate_blocks(
    world: World, trials: int, effect: float, sd: float = 0.01, blocks: int = 20, seed: int = 0
) -> tuple[Floats, Floats]:
    """Return log seconds of base and head, each (trials, blocks, 2), in A B B A order on one host.

    `effect` is head's true slowdown. A block runs on one host, so another host's offset is in both arms.
    """
    chance = np.random.default_rng([seed, int(effect * 1e6), int(sd * 1e6), list(World).index(world)])
    values = runs(world, (trials, blocks * 4), sd, chance)
    if world in (World.NODE, World.ALL):
        values = values + math.log1p(NODE)
    ordered = values.reshape(trials, blocks, 4)
    return ordered[:, :, [0, 3]], ordered[:, :, [1, 2]] + math.log1p(effect)


@dataclass(frozen=True)
class Verdicts:
    """The gate's decisions over trials. `outcome`: 1 regression, 0 inconclusive, -1 no regression."""

    outcome: npt.NDArray[np.int8]
    fed: npt.NDArray[np.int64]
    accepted: npt.NDArray[np.int64]
    change: Floats
    low: Floats
    high: Floats

    def rates(self) -> Rates:
        """Return the decisions as shares and the mean count of runs."""
        slower, confirmed, left_open = (100.0 * float(np.mean(self.outcome == value)) for value in (1, -1, 0))
        return Rates(slower, confirmed, left_open, 4.0 * float(np.mean(self.fed)))


def accepted_at(base_gap: Floats, head_gap: Floats, looks: int, settings: GateSettings) -> Bools:
    """Return which of the first `looks` blocks count, (trials, looks)."""
    base, head = np.abs(base_gap[:, :looks]), np.abs(head_gap[:, :looks])
    if settings.prior_sd is not None:
        limit = np.full(len(base), VETO_SDS * math.sqrt(2.0) * settings.prior_sd)
    elif 2 * looks < PAIRS_FOR_VETO:
        limit = np.full(len(base), np.inf)
    else:
        spread = MAD_TO_SD * np.median(np.concatenate([base, head], axis=1), axis=1)
        limit = np.where(spread > 0, VETO_SDS * spread, np.inf)
    return np.asarray((base <= limit[:, None]) & (head <= limit[:, None]))


def widths(n: npt.NDArray[np.int64], settings: GateSettings) -> tuple[Floats, Floats]:
    """Return how many block sds the bounds lie below and above the mean after `n` accepted blocks."""
    known = settings.prior_sd is not None
    table = np.full((2, int(n.max(initial=0)) + 1), np.inf)
    for count in range(1, table.shape[1]):
        freedom = settings.prior_df + count - 1 if known else float(count - 1)
        if freedom > 0:
            for row, alpha in enumerate((settings.alpha, settings.confirm_alpha)):
                table[row, count] = inflation(alpha, freedom) * mixture_radius(count, alpha)
    return table[0, n], table[1, n]


@dataclass(frozen=True)
class Looks:
    """What is known of every trial at one look; the fields are those of `gate.Look`."""

    accepted: npt.NDArray[np.int64]
    change: Floats
    low: Floats
    high: Floats
    steady: Bools


def look(change: Floats, within: Floats, counted: Bools, settings: GateSettings) -> Looks:
    """Return every trial's look over its counted blocks."""
    n = counted.sum(axis=1)
    divisor = np.maximum(n, 1)
    mean = np.where(counted, change, 0.0).sum(axis=1) / divisor
    squares = np.where(counted, (change - mean[:, None]) ** 2, 0.0).sum(axis=1)
    inside = np.where(counted, within, 0.0).sum(axis=1) / divisor
    if settings.prior_sd is None:
        between = squares / np.maximum(n - 1, 1)
    else:
        freedom = settings.prior_df + divisor - 1
        between = (settings.prior_df * settings.prior_sd**2 + squares) / freedom
    sd = np.sqrt(np.maximum(between, inside))
    down, up = widths(n, settings)
    known = n > (0 if settings.prior_sd is not None else 1)
    down, up = np.where(known, down, 0.0), np.where(known, up, 0.0)
    return Looks(
        n,
        mean,
        np.where(known, mean - down * sd, -np.inf),
        np.where(known, mean + up * sd, np.inf),
        is_steady(change, counted, mean, sd),
    )


def is_steady(change: Floats, counted: Bools, mean: Floats, sd: Floats) -> Bools:
    """Say of every trial whether its mean without the largest block lies above 0, too."""
    n = counted.sum(axis=1)
    others = np.maximum(n - 1, 1)
    largest = np.where(n > 0, np.where(counted, change, -np.inf).max(axis=1), 0.0)
    rest = (mean * n - largest) / others
    return np.asarray((n > 1) & (rest > STEADY_ERRORS * sd / np.sqrt(others)))


def decide_all(base: Floats, head: Floats, settings: GateSettings) -> Verdicts:
    """Return the gate's decision of every trial; `base` and `head` are log seconds (trials, blocks, 2).

    A trial whose blocks end before a decision is inconclusive, with all of its blocks fed.
    """
    trials, blocks = base.shape[:2]
    change = (head.sum(axis=2) - base.sum(axis=2)) / 2.0
    base_gap, head_gap = base[:, :, 0] - base[:, :, 1], head[:, :, 0] - head[:, :, 1]
    within = (base_gap**2 + head_gap**2) / 4.0
    last = min(blocks, 2 * settings.max_blocks)
    result = Verdicts(
        np.zeros(trials, np.int8),
        np.full(trials, last),
        np.zeros(trials, np.int64),
        *(np.full(trials, np.nan) for _ in range(3)),
    )
    waiting = np.arange(trials)
    for fed in range(1, last + 1):
        counted = accepted_at(base_gap[waiting], head_gap[waiting], fed, settings)
        seen = look(change[waiting, :fed], within[waiting, :fed], counted, settings)
        outcome, ended = judge_all(fed, seen, settings)
        ended |= fed == last
        at = waiting[ended]
        result.outcome[at], result.fed[at], result.accepted[at] = outcome[ended], fed, seen.accepted[ended]
        for name in ("change", "low", "high"):
            getattr(result, name)[at] = getattr(seen, name)[ended]
        waiting = waiting[~ended]
    return result


def judge_all(fed: int, seen: Looks, settings: GateSettings) -> tuple[npt.NDArray[np.int8], Bools]:
    """Return every trial's outcome at one look and whether the trial ends there."""
    n, enough = seen.accepted, seen.accepted >= MIN_BLOCKS
    confirmed = enough & (seen.high < math.log1p(settings.margin))
    slower = enough & ~confirmed & (seen.low > 0) & seen.steady
    noisy = (fed >= NOISY_AFTER) & (2 * (fed - n) > fed)
    ended = confirmed | slower | noisy | (n >= settings.max_blocks) | (fed >= 2 * settings.max_blocks)
    return np.where(slower, 1, np.where(confirmed, -1, 0)).astype(np.int8), ended


def gate_rates(world: World, trials: int, effect: float, seed: int = 0) -> Rates:
    """Return what the gate says in one cell: run noise 1 %, margin 2 %."""
    base, head = simulate_blocks(world, trials, effect, seed=seed)
    return decide_all(base, head, GateSettings(prior_sd=0.01)).rates()


def other_host(world: World) -> float:
    """Return the log offset between the host of the baseline and that of the head."""
    return math.log1p(NODE) if world in (World.NODE, World.ALL) else 0.0


def golden_rates(world: World, trials: int, effect: float, seed: int = 0, factor: float = 1.0) -> Rates:
    """Return what "10 % over the mean of seven nights" says, the head being one run on another host."""
    chance = np.random.default_rng([seed, 1, int(effect * 1e6), list(World).index(world)])
    nights = runs(world, (trials * HISTORY_NIGHTS, 4), 0.01, chance)[:, 0].reshape(trials, HISTORY_NIGHTS)
    head = runs(world, (trials, 4), 0.01, chance)[:, 0] + math.log1p(effect) + other_host(world)
    baseline = np.exp(nights).mean(axis=1) * factor
    return share_slower(np.exp(head) > baseline * 1.10, 1.0)


def medians_rates(world: World, trials: int, effect: float, seed: int = 0) -> Rates:
    """Return what "the median of 3 runs against that of 3 on another host, 5 %" says."""
    chance = np.random.default_rng([seed, 2, int(effect * 1e6), list(World).index(world)])
    base = np.median(runs(world, (trials, 3), 0.01, chance), axis=1)
    head = np.median(runs(world, (trials, 3), 0.01, chance), axis=1) + math.log1p(effect) + other_host(world)
    return share_slower(head - base > math.log1p(0.05), 6.0)


def mann_whitney_rates(world: World, trials: int, effect: float, seed: int = 0) -> Rates:
    """Return what a one-sided Mann-Whitney test at 1 % says of 10 runs and then 10 on another host."""
    chance = np.random.default_rng([seed, 3, int(effect * 1e6), list(World).index(world)])
    values = runs(world, (trials, 20), 0.01, chance)
    head = values[:, 10:] + math.log1p(effect) + other_host(world)
    wins = (head[:, :, None] > values[:, None, :10]).sum(axis=(1, 2))
    return share_slower(wins >= MANN_WHITNEY_CRITICAL, 20.0)


MANN_WHITNEY_CRITICAL = 81  # P(U >= 81) = 0.0095 for 10 against 10 without ties


def share_slower(slower: Bools, run_count: float) -> Rates:
    """Return the rates of a rule that knows "slower" and "passed" only."""
    share = 100.0 * float(np.mean(slower))
    return Rates(share, 100.0 - share, 0.0, run_count)


Rule = Callable[[World, int, float], Rates]
RULES: dict[str, Rule] = {
    "golden 10 %": golden_rates,
    "3+3 medians": medians_rates,
    "Mann-Whitney 10+10": mann_whitney_rates,
    "gate": gate_rates,
}
EFFECTS = (0.0, 0.02, 0.05, 0.109)


def cells(trials: int) -> Iterator[tuple[str, World, float, Rates]]:
    """Yield every rule, world and effect with its rates."""
    for name, rule in RULES.items():
        for effect in EFFECTS:
            for world in World:
                yield name, world, effect, rule(world, trials, effect)


def sensitivity(trials: int) -> str:
    """Return what a wrong noise prior does to the gate, as Markdown: all nuisances, prior 1 %, margin 2 %."""
    lines = [
        "| true run noise | regression at 0 % | confirmed at 0 % | runs | regression at +5 % |",
        "|" + "---|" * 5,
    ]
    for sd in (0.0025, 0.005, 0.01, 0.015, 0.02, 0.03):
        settings = GateSettings(prior_sd=0.01)
        same, slower = (
            decide_all(*simulate_blocks(World.ALL, trials, effect, sd), settings).rates()
            for effect in (0.0, 0.05)
        )
        shares = f"{same.regression:.2f} % | {same.no_regression:.1f} % | {same.runs:.1f}"
        lines.append(f"| {sd * 100:g} % | {shares} | {slower.regression:.1f} % |")
    return "\n".join(lines)


def table(trials: int) -> str:
    """Return the table of deploy/docs/math.md as Markdown."""
    lines = [
        "| rule | true change | world | regression % | no regression % | inconclusive % | runs |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, world, effect, r in cells(trials):
        shares = f"{r.regression:.2f} | {r.no_regression:.2f} | {r.inconclusive:.2f}"
        lines.append(f"| {name} | {effect * 100:+.1f} % | {world.value} | {shares} | {r.runs:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Print both tables; an argument sets the trials of a cell (20,000)."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print(table(trials))
    print()
    print(sensitivity(trials))


if __name__ == "__main__":
    main()
