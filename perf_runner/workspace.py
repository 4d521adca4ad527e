"""From a repository and two revisions to a plan and the places where its arms run."""

import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from perf_runner.cases import CONFIG_PATH, CaseError, find_case, parse_config
from perf_runner.checkout import Harness, Repository, plan_harness
from perf_runner.config import PerfConfig
from perf_runner.environment import (
    EnvironmentFailedError,
    base_interpreter,
    default_cache,
    install,
    parse_lock,
)
from perf_runner.models import Arm, BenchmarkCase
from perf_runner.plan import GateOverrides, Plan, settings_for
from perf_runner.sandbox import SOURCE, Launch, Limits, Sandbox
from perf_runner.sandbox_process import run as run_sandboxed
from perf_runner.targets import Workplace, with_interpreter

UNSANDBOXED_NOTE = "The code ran WITHOUT a sandbox: this host offers none, and the caller allowed it."
START_UP_ALLOWANCE_S = 120.0
MEMORY_SHARE = 0.8
# What of the runner's environment a benchmark sees: which accelerators are its, and where drivers lie.
PASSED_ENVIRONMENT = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "CUDA_HOME",
    "LD_LIBRARY_PATH",
    "OMP_NUM_THREADS",
)


class BuildError(ValueError):
    """A revision that does not build; `arm` names it."""

    def __init__(self, arm: str, reason: str) -> None:
        super().__init__(f"{arm}: the revision does not build: {reason}")
        self.arm = arm


@dataclass(frozen=True)
class Request:
    """What to measure: arms as (name, revision), the base first and the head last, and one case.

    `allow_changed_lock` is a maintainer's word that an arm may run with a lock that is not the base's.
    """

    arms: tuple[tuple[str, str], ...]
    case: str | BenchmarkCase
    overrides: GateOverrides = field(default_factory=GateOverrides)
    time_budget_s: float | None = None
    allow_changed_lock: bool = False


@dataclass(frozen=True)
class Workspace:
    """A repository of ours, a folder to write trees to, and how its code is confined (None: not at all)."""

    repository: Repository
    folder: Path
    sandbox: Sandbox | None
    interpreter: Path = field(default_factory=lambda: Path(sys.executable))
    cache: Path = field(default_factory=default_cache)

    def prepare(self, request: Request) -> tuple[Plan, dict[str, Workplace]]:
        """Write the arms' trees and return the plan; a ValueError says what is wrong with the request."""
        arms = [Arm(name=name, sha=self.repository.resolve(rev), label=rev) for name, rev in request.arms]
        base, head = arms[0].sha, arms[-1].sha
        config = self.config(base)
        case, notes = self.case_of(request.case, base, head)
        harness = plan_harness(self.repository, base, head, case.harness)
        notes += [*harness.notes, *self.submodule_notes(arms)]
        sites, lock_notes = self.sites(arms, config.lock, allow_changed=request.allow_changed_lock)
        notes += lock_notes
        if self.sandbox is None:
            notes.append(UNSANDBOXED_NOTE)
        plan = Plan(
            case=case,
            arms=tuple(arms),
            settings=settings_for(case, with_defaults(request.overrides, config)),
            time_budget_s=request.time_budget_s or config.time_budget_s,
            notes=tuple(notes),
        )
        # An arm lives for a whole block: it starts, warms up, and waits for the others' runs.
        limits = replace(host_limits(), wall_s=START_UP_ALLOWANCE_S + (1 + 2 * len(arms)) * case.timeout_s)
        trees = self.write_trees(arms, harness)
        places = {
            arm.name: self.place(tree, site, limits)
            for arm, tree, site in zip(arms, trees, sites, strict=True)
        }
        return plan, places

    def build(self, plan: Plan, places: Mapping[str, Workplace]) -> None:
        """Build every arm as the base's configuration says; BuildError names the one that does not build."""
        config = self.config(plan.arms[0].sha)
        self.build_with(config.build, config.build_timeout_s, places)

    def build_with(self, command: Sequence[str], timeout_s: float, places: Mapping[str, Workplace]) -> None:
        """Run `command` (none: nothing) in every place's sandbox, without network and with a writable tree.

        BuildError names the arm for which it fails.
        """
        if not command:
            return
        for name, place in places.items():
            launch = Launch(
                argv=with_interpreter(command, place.interpreter),
                source=place.source,
                environment=place.environment,
                limits=replace(place.limits, wall_s=timeout_s),
                readable=place.readable,
                interpreter=place.interpreter,
                writable_source=True,
            )
            finished = run_sandboxed(launch, self.sandbox)
            if finished.returncode != 0 or finished.stopped_by is not None:
                raise BuildError(name, finished.reason())

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

    def sites(
        self, arms: Sequence[Arm], path: str | None, *, allow_changed: bool
    ) -> tuple[list[Path | None], list[str]]:
        """Return the folder of each arm's packages (None: the runner's own) and what to say of them."""
        if path is None:
            return [None] * len(arms), []
        texts = [self.repository.read(arm.sha, path) for arm in arms]
        if texts[0] is None:
            raise EnvironmentFailedError(f"the base has no lock at {path}")
        changed = [arm.name for arm, text in zip(arms, texts, strict=True) if text != texts[0]]
        notes = []
        if changed and not allow_changed:
            notes.append(f"{', '.join(changed)} changes {path}: all arms ran with the base's dependencies.")
            texts = [texts[0]] * len(arms)
        locks = [parse_lock((text or b"").decode("utf-8", errors="replace"), path) for text in texts]
        return [install(lock, self.cache) for lock in locks], notes

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

    def place(self, tree: Path, site: Path | None = None, limits: Limits | None = None) -> Workplace:
        """Return where the code of one tree runs, with its packages in `site` or the runner's own."""
        source = str(tree) if self.sandbox is None else SOURCE
        environment = {name: os.environ[name] for name in PASSED_ENVIRONMENT if name in os.environ}
        if site is not None:
            environment["PYTHONPATH"] = f"{source}:{site}"
        return Workplace(
            source=tree,
            sandbox=self.sandbox,
            interpreter=self.interpreter if site is None else base_interpreter(),
            readable=() if site is None else (site,),
            environment=environment,
            limits=limits or host_limits(),
        )


def host_limits() -> Limits:
    """Return the limits with most of this host's memory: a model passes through it on its way to a GPU."""
    total_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Limits(memory_bytes=int(total_bytes * MEMORY_SHARE))


def with_defaults(overrides: GateOverrides, config: PerfConfig) -> GateOverrides:
    """Return the overrides, filled up with the repository's configuration."""
    return replace(
        overrides,
        alpha=overrides.alpha or config.alpha,
        max_blocks=overrides.max_blocks or config.max_blocks,
    )
