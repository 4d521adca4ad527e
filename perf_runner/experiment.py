"""Interleaved blocks of two or more revisions on one host until the gate decides.

A block is A B B A (with more arms: every arm once, then once more in reverse). Each block starts fresh
processes, since every process carries an offset of its own. The gate keeps no state: it is replayed from all
blocks after each one, so resuming stored blocks and going on are the same path.
"""

import functools
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from perf_runner.machine import fingerprint, foreign_processes, gpu_problems, read_gpus
from perf_runner.models import Block, CaseResult, Decision, Machine, TargetKind
from perf_runner.plan import (
    Plan,
    Progress,
    block_problem,
    claim_problem,
    conclude,
    decide,
    merged_arms,
    progress_of,
    recovery_of,
    run_order,
)
from perf_runner.results import path_notes
from perf_runner.sandbox_process import tree
from perf_runner.targets import Measured, OpenArm, TargetError, Workplace, opener_for

MAX_FAILED_BLOCKS = 3
T = TypeVar("T")


class CanceledError(Exception):
    """The experiment was canceled while it ran."""


class BlockFailedError(RuntimeError):
    """A block that does not count; `final` says that another try would end the same."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


@dataclass(frozen=True)
class Hooks:
    """What the experiment tells while it goes: each block as it is accepted, and progress after each run."""

    on_block: Callable[[Block], None] = lambda block: None
    on_progress: Callable[[Progress], None] = lambda progress: None


@dataclass
class Experiment:
    """One case under way: measures blocks until the gate decides, the budget ends, or it is canceled."""

    plan: Plan
    places: Mapping[str, Workplace]
    hooks: Hooks = field(default_factory=Hooks)

    def __post_init__(self) -> None:
        """Start with nothing measured and nobody canceling."""
        self._canceled = threading.Event()
        self._open: list[OpenArm] = []
        self._blocks: list[Block] = []
        self._failures: list[str] = []
        self._runs_done = 0
        self._longest_block_s = 0.0
        self._started_s = time.monotonic()

    def cancel(self) -> None:
        """End the run in progress and the experiment; callable from another thread."""
        self._canceled.set()
        for arm in list(self._open):
            arm.abort()

    def run(self, stored: Sequence[Block] = (), machine: Machine | None = None) -> CaseResult:
        """Return the result after as many further blocks as it takes; CanceledError when canceled."""
        self._blocks = list(stored)
        machine = machine or fingerprint()
        decision = decide(self._blocks, self.plan)
        while decision is None:
            if self._elapsed_s() + self._longest_block_s > self.plan.time_budget_s:
                why = f"the time budget of {self.plan.time_budget_s:.0f} s ran out"
                return self._result(machine, conclude(self._blocks, self.plan, why))
            try:
                self._add_block()
            except BlockFailedError as error:
                self._failures.append(str(error))
                if error.final or len(self._failures) >= MAX_FAILED_BLOCKS:
                    return self._result(machine, None, error=str(error))
            decision = decide(self._blocks, self.plan)
        return self._result(machine, decision)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started_s

    def _result(self, machine: Machine, decision: Decision | None, error: str | None = None) -> CaseResult:
        again = [f"A block was taken again: {failure}." for failure in self._failures if failure != error]
        notes = [*self.plan.notes, *again, *path_notes(merged_arms(self._blocks)), *machine.notes]
        return CaseResult(
            case=self.plan.case,
            arms=self.plan.arms,
            blocks=tuple(self._blocks),
            decision=decision,
            recovery=recovery_of(self._blocks, self.plan),
            machine=machine,
            notes=tuple(dict.fromkeys(notes)),
            error=error,
            wall_s=round(self._elapsed_s(), 2),
        )

    def _add_block(self) -> None:
        started_s = time.monotonic()
        block = self._measure_block()
        self._blocks.append(block)
        self._longest_block_s = max(self._longest_block_s, time.monotonic() - started_s)
        self.hooks.on_block(block)

    def _measure_block(self) -> Block:
        started_at = datetime.now(UTC)
        gpus = read_gpus()
        fail_for(gpu_problems(gpus, foreign_processes(gpus, tree(os.getpid()))))
        runs = self._runs_of_block()
        self._stop_if_canceled()
        fail_for(gpu_problems(read_gpus(), ()))
        if found := block_problem(runs, self.plan.case.target):
            problem, final = found
            raise BlockFailedError(problem, final=final)
        samples = {arm: tuple(run.sample for run in taken) for arm, taken in runs.items()}
        order = run_order(self.plan.names)
        return Block(arms=samples, order=order, number=len(self._blocks), started_at=started_at)

    def _runs_of_block(self) -> dict[str, list[Measured]]:
        runs: dict[str, list[Measured]] = {name: [] for name in self.plan.names}
        if self.plan.case.process == "run":
            for name in run_order(self.plan.names):
                with ExitStack() as stack:
                    self._take_run(name, self._open_arms(stack, [name])[name], runs)
            return runs
        with ExitStack() as stack:
            arms = self._open_arms(stack, self.plan.names)
            for name in run_order(self.plan.names):
                self._take_run(name, arms[name], runs)
        return runs

    def _open_arms(self, stack: ExitStack, names: Sequence[str]) -> dict[str, OpenArm]:
        """Start every arm at the same time, since starting is not measured, and wait until all are warm."""
        opener = opener_for(self.plan.case.target)
        arms: dict[str, OpenArm] = {}
        for name in names:
            try:
                arms[name] = opener(self.plan.case, self.places[name])
            except TargetError as error:
                raise BlockFailedError(f"{name}: {error}", final=True) from None
            self._open.append(arms[name])
            stack.callback(self._close, arms[name])
        for name, arm in arms.items():
            self._guard(name, arm.wait_until_ready)
        return arms

    def _close(self, arm: OpenArm) -> None:
        self._open.remove(arm)
        arm.close()

    def _take_run(self, name: str, arm: OpenArm, runs: Mapping[str, list[Measured]]) -> None:
        measured = self._guard(name, functools.partial(arm.run, self.plan.case.requests))
        if self.plan.case.target is not TargetKind.SERVING:
            fail_for(filter(None, [claim_problem(name, measured)]))
        runs[name].append(measured)
        self._runs_done += 1
        self.hooks.on_progress(progress_of(self._blocks, self.plan, self._runs_done, self._elapsed_s()))

    def _guard(self, name: str, call: Callable[[], T]) -> T:
        """Return what `call` returns; an arm that fails fails its block, unless it was canceled."""
        self._stop_if_canceled()
        try:
            return call()
        except TargetError as error:
            self._stop_if_canceled()
            raise BlockFailedError(f"{name}: {error}") from None

    def _stop_if_canceled(self) -> None:
        if self._canceled.is_set():
            raise CanceledError("canceled")


def fail_for(problems: Iterable[str]) -> None:
    """Raise BlockFailedError where there is a problem."""
    if found := list(problems):
        raise BlockFailedError("; ".join(found))
