"""A bisect as a run of the lane: every block that was measured is stored, so another worker can go on.

Its record needs no store of its own. The search is begun anew, and what was measured already is decided at
once: the gate is replayed from the blocks of each experiment.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from perf_runner.bisect_run import BisectRecord, Steps, run
from perf_runner.checkout import Repository
from perf_runner.experiment import Experiment, Hooks
from perf_runner.gate import DEFAULT_MAX_BLOCKS
from perf_runner.measure import measure_case
from perf_runner.models import BenchmarkCase, Block, CaseResult, Machine
from perf_runner.plan import GateOverrides, Progress
from perf_runner.protocol import RunSpec
from perf_runner.workspace import Request, Workspace

SHOWN_SHA = 12


@dataclass
class Search:
    """One bisect under way. `keep` is told each block under its experiment's name, `show` the progress.

    `begin` is handed each experiment before it runs, to cancel it by.
    """

    spec: RunSpec
    workspace: Workspace
    machine: Machine
    keep: Callable[[str, Block], None]
    show: Callable[[Progress], None]
    begin: Callable[[Experiment], None]
    stage: str = ""
    tried: Counter[tuple[str, str]] = field(default_factory=Counter)
    started_s: float = field(default_factory=time.monotonic)

    def run(self) -> BisectRecord:
        """Return the record of the search; ValueError says why there is nothing to search."""
        good, bad = (self.workspace.repository.resolve(arm.sha) for arm in self.spec.arms[:2])
        commits = commits_of(self.workspace.repository, good, bad)
        record = BisectRecord(good=good, bad=bad, case=case_name(self.case))
        blocks = self.spec.max_blocks or DEFAULT_MAX_BLOCKS
        return run(commits, record, Steps(self.measure, lambda kept: None, self.say, blocks))

    @property
    def case(self) -> str | BenchmarkCase:
        """The one case to measure; ValueError where the run names none or several."""
        if len(self.spec.cases) != 1:
            raise ValueError("a bisect measures one case")
        return self.spec.cases[0]

    def measure(self, base: str, head: str, margin: float | None) -> CaseResult:
        """Return the experiment of two commits, going on from what is stored of it."""
        self.tried[base, head] += 1
        name = experiment_name(base, head, self.tried[base, head])
        left_s = self.spec.time_budget_s - (time.monotonic() - self.started_s)
        if left_s <= 0:
            raise ValueError(f"the time budget of {self.spec.time_budget_s:.0f} s ran out")
        overrides = GateOverrides(margin=margin, alpha=self.spec.alpha, max_blocks=self.spec.max_blocks)
        allowed = self.spec.allow_changed_lock
        request = Request((("base", base), ("head", head)), self.case, overrides, left_s, allowed)
        hooks = Hooks(on_block=lambda block: self.keep(name, block), on_progress=self.show_stage)
        stored: Sequence[Block] = self.spec.blocks.get(name, ())
        return measure_case(self.workspace, request, hooks, stored, self.machine, self.begin)

    def say(self, text: str) -> None:
        """Let the next progress say what is being done."""
        self.stage = text[:300]

    def show_stage(self, progress: Progress) -> None:
        """Show an experiment's progress with the stage of the search."""
        self.show(progress.model_copy(update={"stage": self.stage}))


def commits_of(repository: Repository, good: str, bad: str) -> tuple[str, ...]:
    """Return the commits from good to bad, both included; ValueError where bad does not follow good."""
    commits = (good, *repository.commits_between(good, bad))
    if commits[-1] != bad or repository.merge_base(good, bad) != good:
        raise ValueError("the good revision must be an ancestor of the bad one")
    return commits


def case_name(case: str | BenchmarkCase) -> str:
    """Return the name of a case."""
    return case if isinstance(case, str) else case.name


def experiment_name(base: str, head: str, attempt: int) -> str:
    """Return the name under which the blocks of one experiment are stored."""
    return f"{base[:SHOWN_SHA]}..{head[:SHOWN_SHA]} ({attempt})"
