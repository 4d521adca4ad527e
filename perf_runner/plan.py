"""The pure half of an experiment: what to measure, in which order, what counts, and what the gate says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from perf_runner.gate import (
    DEFAULT_ALPHA,
    DEFAULT_MARGIN,
    DEFAULT_MAX_BLOCKS,
    GateSettings,
    margin_for,
    replay,
)
from perf_runner.models import Arm, BenchmarkCase, Block, Decision, Frozen, Recovery, Sample, TargetKind
from perf_runner.results import block_problems
from perf_runner.targets import Measured
from perf_runner.three_arms import recovery

# A run must not claim more time than passed outside; 5 ms for the clocks and the pipe.
CLAIM_TOLERANCE, CLAIM_SLACK_S = 1.02, 0.005
# Arms that account for very different shares of the time that passed were not timed alike.
SHARE_RATIO = 2.0
# A process per run spends most of its time on starting; a server's requests overlap.
SHARE_CHECKED = (TargetKind.SESSION, TargetKind.OPERATOR, TargetKind.QWEN_IMAGE_DIT)


class Progress(Frozen):
    """How far a case is; `low_pct` and `high_pct` bound the change by what was measured so far.

    `stage` says in words what is being done, where a run has more to do than one case's blocks.
    """

    case: str
    blocks_done: int
    blocks_max: int
    runs_done: int
    elapsed_s: float
    change_pct: float | None = None
    low_pct: float | None = None
    high_pct: float | None = None
    stage: str = Field(default="", max_length=300)


@dataclass(frozen=True)
class Plan:
    """What to measure: the first arm is the base, the last the head, those between are for comparison."""

    case: BenchmarkCase
    arms: tuple[Arm, ...]
    settings: GateSettings
    time_budget_s: float = 900.0
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the arms' names in order."""
        return tuple(arm.name for arm in self.arms)


@dataclass(frozen=True)
class GateOverrides:
    """What the caller asks of the gate; None leaves it to the case, else to the noise."""

    margin: float | None = None
    alpha: float | None = None
    max_blocks: int | None = None
    prior_sd: float | None = None
    prior_df: float | None = None


def settings_for(case: BenchmarkCase, asked: GateOverrides) -> GateSettings:
    """Return the gate's settings: asked for, else the case's, else the margin that the noise prior allows."""
    prior_sd = asked.prior_sd or case.prior_sd
    by_noise = margin_for(prior_sd) if prior_sd else DEFAULT_MARGIN
    return GateSettings(
        margin=asked.margin or case.margin or by_noise,
        alpha=asked.alpha or DEFAULT_ALPHA,
        max_blocks=asked.max_blocks or DEFAULT_MAX_BLOCKS,
        prior_sd=prior_sd,
        prior_df=asked.prior_df or case.prior_df,
    )


def run_order(names: Sequence[str]) -> tuple[str, ...]:
    """Return the order of one block's runs: forth and back, which cancels a steady drift."""
    return (*names, *reversed(names))


def pairs(blocks: Sequence[Block], base: str, head: str) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Return what the gate is fed: base and head seconds of each block."""
    return [(block.seconds(base), block.seconds(head)) for block in blocks]


def decide(blocks: Sequence[Block], plan: Plan) -> Decision | None:
    """Return the gate's decision over all blocks so far, None to go on."""
    return replay(pairs(blocks, plan.names[0], plan.names[-1]), plan.settings).decision


def conclude(blocks: Sequence[Block], plan: Plan, why: str) -> Decision:
    """Return the decision as it stands, inconclusive with `why` where the blocks have not decided."""
    return replay(pairs(blocks, plan.names[0], plan.names[-1]), plan.settings).conclude(why)


def progress_of(blocks: Sequence[Block], plan: Plan, runs_done: int, elapsed_s: float) -> Progress:
    """Return how far an experiment is, with the interval as it stands."""
    stand = conclude(blocks, plan, "going on") if blocks else None
    return Progress(
        case=plan.case.name,
        blocks_done=len(blocks),
        blocks_max=plan.settings.max_blocks,
        runs_done=runs_done,
        elapsed_s=round(elapsed_s, 1),
        change_pct=stand.change_pct if stand else None,
        low_pct=stand.low_pct if stand else None,
        high_pct=stand.high_pct if stand else None,
    )


def claim_problem(arm: str, measured: Measured) -> str | None:
    """Return why a run's latencies cannot be true: one after the other they exceed the time that passed."""
    claimed_s = sum(measured.sample.latencies_s) or measured.sample.seconds
    if claimed_s > measured.wall_s * CLAIM_TOLERANCE + CLAIM_SLACK_S:
        return f"{arm} reports {claimed_s:.3f} s of latencies in a run that took {measured.wall_s:.3f} s"
    return None


def share_problem(runs: Mapping[str, Sequence[Measured]]) -> str | None:
    """Return why the arms were not timed alike: they account for very different shares of their time.

    A revision that does its work outside of what its benchmark times, or turns back its clock, shows here.
    """
    shares = {
        arm: sum(sum(run.sample.latencies_s) for run in taken) / sum(run.wall_s for run in taken)
        for arm, taken in runs.items()
    }
    if min(shares.values()) <= 0 or max(shares.values()) <= SHARE_RATIO * min(shares.values()):
        return None
    said = ", ".join(f"{arm} {share:.0%}" for arm, share in shares.items())
    return f"the arms do not time the same part of their work (timed share of each run: {said})"


def block_problem(runs: Mapping[str, Sequence[Measured]], kind: TargetKind) -> tuple[str, bool] | None:
    """Return why the runs of one block do not count, and whether another try would end the same."""
    unequal = block_problems({arm: [run.sample for run in taken] for arm, taken in runs.items()})
    if unequal:
        return "; ".join(unequal[:3]), True
    if kind in SHARE_CHECKED and (problem := share_problem(runs)):
        return problem, False
    return None


def recovery_of(blocks: Sequence[Block], plan: Plan) -> Recovery | None:
    """Return what the last of three arms took back of the slowdown between the other two.

    Whichever of them is shown to be faster is the parent: a fix is measured against the main branch, which is
    slow, beside the commit before the slowdown, or the other way round.
    """
    if len(plan.arms) != 3 or not blocks:
        return None
    first, second, fixed = plan.names
    forth = recovery(blocks, (first, second, fixed), plan.settings)
    return forth or recovery(blocks, (second, first, fixed), plan.settings)


def merged_arms(blocks: Sequence[Block]) -> dict[str, list[Sample]]:
    """Return every run of each arm over all blocks."""
    merged: dict[str, list[Sample]] = {}
    for block in blocks:
        for arm, samples in block.arms.items():
            merged.setdefault(arm, []).extend(samples)
    return merged
