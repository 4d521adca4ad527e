"""Tests of a repository run on two revisions, several times in both orders: whose red is it?

The command ends with the test ids and prints pytest's short summary (`-rA`), which is all that is read.
"""

import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from perf_runner.experiment import CanceledError
from perf_runner.models import Arm
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


class TestRun:
    """The tests of one run under way."""

    __test__ = False

    def __init__(self, spec: TestSpec, workspace: Workspace, arms: Sequence[tuple[str, str]]) -> None:
        self.spec, self.workspace, self.arms = spec, workspace, tuple(arms)
        self._canceled = threading.Event()
        self._process: SandboxedProcess | None = None

    def cancel(self) -> None:
        """End the tests in progress; callable from another thread."""
        self._canceled.set()
        if self._process is not None:
            self._process.kill()

    def run(self) -> tuple[TestOutcome, ...]:
        """Return how each test ended on each arm, run by run; CanceledError when canceled."""
        arms = [
            Arm(name=name, sha=self.workspace.repository.resolve(revision)) for name, revision in self.arms
        ]
        places = self._places(arms)
        found: dict[tuple[str, str], list[tuple[Outcome, str]]] = {}
        for repeat in range(self.spec.repeats):
            names = [arm.name for arm in (arms if repeat % 2 == 0 else reversed(arms))]
            for name in names:
                ended = read_summary(self._run_once(places[name]), self.spec.test_ids)
                for test_id, outcome in ended.items():
                    found.setdefault((test_id, name), []).append(outcome)
        return tuple(
            TestOutcome(
                test_id=test_id,
                arm=arm,
                outcomes=tuple(outcome for outcome, _ in runs),
                messages=tuple(message for _, message in runs if message),
            )
            for (test_id, arm), runs in found.items()
        )

    def _places(self, arms: Sequence[Arm]) -> dict[str, Workplace]:
        """Write each arm's tree; all run with the base's dependencies."""
        lock = self.workspace.config(arms[0].sha).lock
        sites, _ = self.workspace.sites(arms, lock, allow_changed=False)
        trees = self.workspace.write_trees(arms, None)
        made = zip(arms, trees, sites, strict=True)
        return {arm.name: self.workspace.place(tree, site) for arm, tree, site in made}

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
