"""Tests of a repository run on two revisions, several times in both orders: whose red is it?

The command ends with the test ids and prints pytest's short summary (`-rA`), which is all that is read. What
the head's code prints it can also forge, so only the base's outcomes may ever excuse anybody.
"""

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from perf_runner.experiment import CanceledError
from perf_runner.models import Arm
from perf_runner.plan import Progress
from perf_runner.protocol import TestOutcome, TestSpec
from perf_runner.sandbox import Launch
from perf_runner.sandbox_process import Finished, SandboxedProcess
from perf_runner.targets import Workplace, with_interpreter
from perf_runner.workspace import Workspace

Outcome = Literal["passed", "failed", "error", "missing"]
SUMMARY_FLAGS = ("-rA", "--tb=no", "--color=no")
WORDS: dict[str, Outcome] = {
    "PASSED": "passed",
    "XFAIL": "passed",
    "XPASS": "passed",
    "FAILED": "failed",
    "ERROR": "error",
}
SUMMARY_LINE = re.compile(r"^(PASSED|XFAIL|XPASS|FAILED|ERROR) (\S.*)$")
MAX_LINE = 4000
# pytest cuts the summary's messages to the width of the terminal that it believes to have.
WIDE = {"COLUMNS": "2000"}
Runs = Mapping[tuple[str, str], list[tuple[Outcome, str]]]


class TestRun:
    """The tests of one run under way."""

    __test__ = False

    def __init__(
        self,
        spec: TestSpec,
        workspace: Workspace,
        arms: Sequence[tuple[str, str]],
        budget_s: float = float("inf"),
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self.spec, self.workspace, self.arms = spec, workspace, tuple(arms)
        self.budget_s, self.on_progress = budget_s, on_progress
        self._canceled = threading.Event()
        self._process: SandboxedProcess | None = None

    def cancel(self) -> None:
        """End the tests in progress; callable from another thread."""
        self._canceled.set()
        if self._process is not None:
            self._process.kill()

    def run(self) -> tuple[TestOutcome, ...]:
        """Return how each test ended on each arm, run by run: A B, then B A, and so on while time is left.

        CanceledError when canceled; ValueError for a revision that does not build or a lock that does not
        install.
        """
        started_s = time.monotonic()
        arms = [
            Arm(name=name, sha=self.workspace.repository.resolve(revision)) for name, revision in self.arms
        ]
        places = self._places(arms)
        found: dict[tuple[str, str], list[tuple[Outcome, str]]] = {}
        for repeat in range(self.spec.repeats):
            elapsed_s = time.monotonic() - started_s
            if repeat and elapsed_s * (repeat + 1) / repeat > self.budget_s:
                break
            self._tell(repeat, elapsed_s)
            for name in [arm.name for arm in (arms if repeat % 2 == 0 else reversed(arms))]:
                ended = read_summary(self._run_once(places[name]), self.spec.test_ids)
                for test_id, outcome in ended.items():
                    found.setdefault((test_id, name), []).append(outcome)
        return outcomes(found)

    def _tell(self, repeat: int, elapsed_s: float) -> None:
        count = self.spec.repeats
        progress = Progress(
            case=f"{len(self.spec.test_ids)} tests",
            blocks_done=repeat,
            blocks_max=count,
            runs_done=repeat * len(self.arms),
            elapsed_s=round(elapsed_s, 1),
            stage=f"{repeat} of {count} rounds done",
        )
        self.on_progress(progress)

    def _places(self, arms: Sequence[Arm]) -> dict[str, Workplace]:
        """Write and build each arm's tree; all run with the base's dependencies."""
        config, spec = self.workspace.config(arms[0].sha), self.spec
        sites, _ = self.workspace.sites(arms, spec.lock or config.lock, allow_changed=False)
        trees = self.workspace.write_trees(arms, None)
        places = {}
        for arm, tree, site in zip(arms, trees, sites, strict=True):
            place = self.workspace.place(tree, site)
            environment = {**place.environment, **WIDE, **spec.environment}
            places[arm.name] = replace(place, environment=environment)
        build, timeout_s = (
            (spec.build, spec.build_timeout_s) if spec.build else (config.build, config.build_timeout_s)
        )
        self.workspace.build_with(build, timeout_s, places)
        return places

    def _run_once(self, place: Workplace) -> Finished:
        if self._canceled.is_set():
            raise CanceledError("canceled")
        command = with_interpreter(self.spec.command, place.interpreter)
        launch = Launch(
            argv=(*command, *SUMMARY_FLAGS, *self.spec.test_ids),
            source=place.source,
            environment=place.environment,
            readable=place.readable,
            limits=replace(place.limits, wall_s=self.spec.timeout_s),
            interpreter=place.interpreter,
        )
        with SandboxedProcess(launch, place.sandbox) as self._process:
            finished = self._process.finish()
        self._process = None
        if self._canceled.is_set():
            raise CanceledError("canceled")
        return finished


def outcomes(found: Runs) -> tuple[TestOutcome, ...]:
    """Return the runs of each test and arm as the report holds them."""
    return tuple(
        TestOutcome(
            test_id=test_id,
            arm=arm,
            outcomes=tuple(outcome for outcome, _ in runs),
            messages=tuple(message for outcome, message in runs if outcome != "passed"),
        )
        for (test_id, arm), runs in found.items()
    )


def read_summary(finished: Finished, test_ids: Sequence[str]) -> dict[str, tuple[Outcome, str]]:
    """Return each test's outcome and message; `missing` where the summary does not name it."""
    outcomes: dict[str, tuple[Outcome, str]] = {}
    for line in finished.stdout.decode(errors="replace").splitlines():
        if matched := SUMMARY_LINE.match(line[:MAX_LINE]):
            word, rest = matched.groups()
            if (test_id := named_test(rest.strip(), test_ids)) is not None:
                outcomes[test_id] = (WORDS[word], rest.strip()[len(test_id) + 3 :][:500])
    reason = finished.reason()[:500]
    return {test_id: outcomes.get(test_id, ("missing", reason)) for test_id in test_ids}


def named_test(rest: str, test_ids: Sequence[str]) -> str | None:
    """Return the test that a summary line is about: its id alone, or followed by a message."""
    if rest in test_ids:
        return rest
    return next((test_id for test_id in test_ids if rest.startswith(f"{test_id} - ")), None)
