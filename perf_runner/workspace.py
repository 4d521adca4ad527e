"""From a repository and two revisions to a plan and the places where its arms run."""

import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perf_runner.cases import CONFIG_PATH, CaseError, find_case, parse_config
from perf_runner.checkout import Harness, Repository, plan_harness
from perf_runner.config import PerfConfig
from perf_runner.models import Arm, BenchmarkCase
from perf_runner.plan import GateOverrides, Plan, settings_for
from perf_runner.sandbox import Limits, Sandbox
from perf_runner.targets import Workplace

UNSANDBOXED_NOTE = "The code ran WITHOUT a sandbox: this host offers none, and the caller allowed it."
START_UP_ALLOWANCE_S = 120.0


@dataclass(frozen=True)
class Request:
    """What to measure: arms as (name, revision), the base first and the head last, and one case."""

    arms: tuple[tuple[str, str], ...]
    case: str | BenchmarkCase
    overrides: GateOverrides = field(default_factory=GateOverrides)
    time_budget_s: float | None = None


@dataclass(frozen=True)
class Workspace:
    """A repository of ours, a folder to write trees to, and how its code is confined (None: not at all)."""

    repository: Repository
    folder: Path
    sandbox: Sandbox | None
    interpreter: Path = field(default_factory=lambda: Path(sys.executable))

    def prepare(self, request: Request) -> tuple[Plan, dict[str, Workplace]]:
        """Write the arms' trees and return the plan; CaseError or CheckoutError says what is wrong."""
        arms = [Arm(name=name, sha=self.repository.resolve(rev), label=rev) for name, rev in request.arms]
        base, head = arms[0].sha, arms[-1].sha
        case, notes = self.case_of(request.case, base, head)
        harness = plan_harness(self.repository, base, head, case.harness)
        trees = self.write_trees(arms, harness)
        notes += [*harness.notes, *self.submodule_notes(arms)]
        if self.sandbox is None:
            notes.append(UNSANDBOXED_NOTE)
        config = self.config(base)
        plan = Plan(
            case=case,
            arms=tuple(arms),
            settings=settings_for(case, with_defaults(request.overrides, config)),
            time_budget_s=request.time_budget_s or config.time_budget_s,
            notes=tuple(notes),
        )
        # An arm lives for a whole block: it starts, warms up, and waits for the others' runs.
        limits = Limits(wall_s=START_UP_ALLOWANCE_S + (1 + 2 * len(arms)) * case.timeout_s)
        return plan, {arm.name: self.place(tree, limits) for arm, tree in zip(arms, trees, strict=True)}

    def config(self, sha: str) -> PerfConfig:
        """Return the `[perf]` section at a commit, the defaults where it has none."""
        text = self.repository.read(sha, CONFIG_PATH)
        return PerfConfig() if text is None else parse_config(text.decode("utf-8-sig", errors="replace"))

    def case_of(self, wanted: str | BenchmarkCase, base: str, head: str) -> tuple[BenchmarkCase, list[str]]:
        """Return the case as the base has it; where only the head has it, the head's and a note."""
        if isinstance(wanted, BenchmarkCase):
            return wanted, []
        try:
            return find_case(self.config(base).cases, wanted), []
        except CaseError as error:
            try:
                case = find_case(self.config(head).cases, wanted)
            except CaseError:
                raise error from None
            return case, [f"Only the head has the case {wanted}: the head's is used for both arms."]

    def write_trees(self, arms: Sequence[Arm], harness: Harness | None) -> list[Path]:
        """Write one tree per arm, at paths of equal length."""
        run = next(number for number in itertools.count() if not (self.folder / f"run-{number}").exists())
        trees = [self.folder / f"run-{run}" / f"arm-{number}" for number in range(len(arms))]
        for arm, tree in zip(arms, trees, strict=True):
            self.repository.write_tree(arm.sha, tree, harness)
        return trees

    def submodule_notes(self, arms: Sequence[Arm]) -> list[str]:
        """Return a sentence where a revision has submodules, which are left empty."""
        found = sorted({path for arm in arms for path in self.repository.submodules(arm.sha)})
        return [f"Submodules are not fetched: {', '.join(found[:5])}."] if found else []

    def place(self, tree: Path, limits: Limits | None = None) -> Workplace:
        """Return where the code of one tree runs."""
        return Workplace(tree, self.sandbox, self.interpreter, limits=limits or Limits())


def with_defaults(overrides: GateOverrides, config: PerfConfig) -> GateOverrides:
    """Return the overrides, filled up with the repository's configuration."""
    return GateOverrides(
        margin=overrides.margin,
        alpha=overrides.alpha or config.alpha,
        max_blocks=overrides.max_blocks or config.max_blocks,
        prior_sd=overrides.prior_sd,
        prior_df=overrides.prior_df,
    )
