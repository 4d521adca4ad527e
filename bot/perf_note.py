"""The performance note: from a run's state and its results to what a reader needs first. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from bot.actions import CheckConclusion, CheckStatus
from bot.comments import Frame, render, signed
from bot.escape import code
from perf_runner.models import Block, CaseResult, Outcome, Sample

RunState = Literal["queued", "running", "done", "failed", "canceled", "void"]
SHOWN_BLOCKS = 60


@dataclass(frozen=True, slots=True)
class PerfView:
    """A run as it stands; `asked_by` None means that the changed paths called for it.

    `ahead` counts the runs before it in its queue, `progress` is the runner's own word on how far it is.
    """

    state: RunState
    cases: tuple[str, ...]
    base_sha: str
    queue: str = ""
    asked_by: str | None = None
    ahead: int | None = None
    progress: str | None = None
    results: tuple[CaseResult, ...] = ()
    error: str | None = None
    run_url: str | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """The stage whose time moved most between base and head, in seconds a request."""

    name: str
    base_s: float
    head_s: float
    total_delta_s: float

    @property
    def delta_s(self) -> float:
        """Return how much longer the stage takes on the head."""
        return self.head_s - self.base_s


@dataclass(frozen=True, slots=True)
class RunRow:
    """One raw run, for the fold."""

    block: int
    arm: str
    seconds: float
    remark: str


def perf_note(view: PerfView, frame: Frame) -> str:
    """Return the performance note."""
    return render(
        "perf",
        "perf",
        frame,
        view=view,
        headline=headline(view),
        advice=advice(view, f"@{frame.handle}"),
        results=view.results,
        stages={result.case.name: moved_stage(result) for result in view.results if is_change(result)},
        runs={result.case.name: raw_runs(result) for result in view.results},
        shown_blocks=SHOWN_BLOCKS,
    )


def overall(results: Sequence[CaseResult]) -> Outcome | None:
    """Return the worst decision of a run; None where no case was decided."""
    found = {result.decision.decision for result in results if result.decision is not None}
    if Outcome.REGRESSION in found:
        return Outcome.REGRESSION
    undecided = any(result.decision is None for result in results)
    if found and (undecided or Outcome.INCONCLUSIVE in found):
        return Outcome.INCONCLUSIVE
    return Outcome.NO_REGRESSION if found else None


def headline(view: PerfView) -> str:
    """Return the note's first line: the answer before anything else."""
    if view.state == "queued":
        return "Performance: queued"
    if view.state == "running":
        return "Performance: being measured"
    if view.state == "canceled":
        return "Performance: the measurement was stopped"
    if view.state == "void":
        return "Performance: this head is not measured"
    outcome = overall(view.results)
    if view.state == "failed" or outcome is None:
        return "Performance: could not be measured"
    return f"Performance: {verdict_words(view.results, outcome)}"


def verdict_words(results: Sequence[CaseResult], outcome: Outcome) -> str:
    """Return the decision in words, with its interval where there is only one case."""
    of_it = [result for result in results if result.decision and result.decision.decision is outcome]
    words = {
        Outcome.REGRESSION: "slower",
        Outcome.INCONCLUSIVE: "inconclusive",
        Outcome.NO_REGRESSION: "faster" if all_improved(results) else "no regression",
    }[outcome]
    if len(results) == 1:
        return f"{words}, {interval(results[0])}"
    return f"{words} in {len(of_it)} of {len(results)} cases"


def all_improved(results: Sequence[CaseResult]) -> bool:
    """Say whether every case's upper bound is below 0."""
    return all(result.decision is not None and result.decision.improved for result in results)


def interval(result: CaseResult) -> str:
    """Return `+10.9 % (+9.8 % to +12.0 %)`, or that there is none."""
    decision = result.decision
    if decision is None or decision.change_pct is None:
        return "no accepted block"
    if decision.low_pct is None or decision.high_pct is None:
        return signed(decision.change_pct)
    return f"{signed(decision.change_pct)} ({signed(decision.low_pct)} to {signed(decision.high_pct)})"


def advice(view: PerfView, at: str) -> str:
    """Return what to do next, in one or two sentences of Markdown."""
    if view.state in ("queued", "running"):
        return f"This note is updated in place. `{at} cancel` stops it."
    if view.state == "canceled":
        return f"A maintainer's `{at} bench` measures again."
    if view.state == "void":
        return f"A new commit came; what was measured before does not count for it. `{at} bench` measures it."
    outcome = overall(view.results)
    if view.state == "failed" or outcome is None:
        return f"Nothing was decided, for or against. `{at} bench` tries again."
    if outcome is Outcome.REGRESSION:
        return slower_advice(view.results)
    if outcome is Outcome.INCONCLUSIVE:
        return f"The noise of this machine hides the answer. `{at} more` adds blocks to the ones below."
    return "No action needed."


def slower_advice(results: Sequence[CaseResult]) -> str:
    """Return where to look first: the stage that moved in the worst case."""
    slow = [one for one in results if one.decision and one.decision.decision is Outcome.REGRESSION]
    worst = max(slow, key=lambda one: (one.decision.change_pct or 0.0) if one.decision else 0.0)
    stage = moved_stage(worst)
    if stage is None:
        return "Please make it faster again, or say in the description what the time buys."
    return (
        f"Look at the stage {code(stage.name)} of {code(worst.case.name)} first: it moved by "
        f"{stage.delta_s:+.3g} s, the whole request by {stage.total_delta_s:+.3g} s."
    )


def is_change(result: CaseResult) -> bool:
    """Say whether the case was decided to be slower or faster: only then a stage's move means something."""
    decision = result.decision
    return decision is not None and (decision.decision is Outcome.REGRESSION or decision.improved)


def moved_stage(result: CaseResult) -> Stage | None:
    """Return the stage that moved most in the direction of the whole; None where stages are not reported."""
    base, head = samples(result, "base"), samples(result, "head")
    if not base or not head:
        return None
    total = median(one.seconds for one in head) - median(one.seconds for one in base)
    names = set.intersection(*(set(sample.stages_s) for sample in (*base, *head)))
    stages = [stage_between(name, base, head, total) for name in sorted(names)]
    moved = [stage for stage in stages if stage.delta_s * total > 0]
    return max(moved, key=lambda stage: abs(stage.delta_s), default=None)


def stage_between(name: str, base: Sequence[Sample], head: Sequence[Sample], total_s: float) -> Stage:
    """Return one stage's medians in both arms."""
    return Stage(
        name, median(one.stages_s[name] for one in base), median(one.stages_s[name] for one in head), total_s
    )


def samples(result: CaseResult, arm: str) -> list[Sample]:
    """Return an arm's valid runs over all blocks."""
    return [sample for block in result.blocks for sample in block.arms.get(arm, ()) if sample.valid]


def raw_runs(result: CaseResult) -> list[RunRow]:
    """Return every run of the first `SHOWN_BLOCKS` blocks, in the order in which they ran."""
    return [row for block in result.blocks[:SHOWN_BLOCKS] for row in block_rows(block)]


def block_rows(block: Block) -> list[RunRow]:
    """Return a block's runs in their order."""
    left = {arm: list(runs) for arm, runs in block.arms.items()}
    order = block.order or tuple(arm for arm, runs in block.arms.items() for _ in runs)
    ordered = [(arm, left[arm].pop(0)) for arm in order if left.get(arm)]
    return [RunRow(block.number, arm, run.seconds, "; ".join(run.problems)) for arm, run in ordered]


def check_state(view: PerfView) -> tuple[CheckStatus, CheckConclusion | None]:
    """Return the check run's status and conclusion; the mode may still soften a failure."""
    if view.state == "queued":
        return "queued", None
    if view.state == "running":
        return "in_progress", None
    outcome = overall(view.results) if view.state == "done" else None
    if outcome is Outcome.REGRESSION:
        return "completed", "failure"
    return "completed", "success" if outcome is Outcome.NO_REGRESSION else "neutral"
