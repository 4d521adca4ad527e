"""The `command` target: any command that prints a result document, a fresh process for every run."""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from perf_runner.models import BenchmarkCase
from perf_runner.results import ResultError, last_document, parse_sample
from perf_runner.sandbox import Launch
from perf_runner.sandbox_process import SandboxedProcess
from perf_runner.targets import Measured, TargetError, Workplace, with_interpreter


@dataclass
class CommandArm:
    """One arm whose every run starts `case.command` anew; `{requests}` in it is replaced."""

    case: BenchmarkCase
    place: Workplace
    process: SandboxedProcess | None = None

    def wait_until_ready(self) -> None:
        """Return at once: a command warms up by itself, in every run."""

    def run(self, requests: int) -> Measured:
        """Start the command, wait for its end, and read the document that it printed last."""
        started_at, started_s = datetime.now(UTC), time.monotonic()
        launch = launch_for(self.case, self.place, requests)
        with SandboxedProcess(launch, self.place.sandbox) as self.process:
            finished = self.process.finish()
        wall_s = time.monotonic() - started_s
        if finished.returncode != 0 or finished.stopped_by is not None:
            raise TargetError(f"the benchmark failed: {finished.reason()}")
        try:
            return Measured(parse_sample(last_document(finished.stdout), self.case, started_at), wall_s)
        except ResultError as error:
            raise TargetError(str(error)) from None

    def abort(self) -> None:
        """Kill the run in progress."""
        if self.process is not None:
            self.process.kill()

    def close(self) -> None:
        """Do nothing: no process outlives its run."""


def open_arm(case: BenchmarkCase, place: Workplace) -> CommandArm:
    """Return the arm; TargetError for a case without a command."""
    if not case.command:
        raise TargetError(f"the case {case.name} names no command")
    return CommandArm(case, place)


def launch_for(case: BenchmarkCase, place: Workplace, requests: int) -> Launch:
    """Return the process that a case's command asks for in this workplace."""
    words = [part.replace("{requests}", str(requests)) for part in case.command]
    argv = with_interpreter(words, place.interpreter)
    return Launch(
        argv=argv,
        source=place.source,
        environment=place.environment | dict(case.environment),
        limits=replace(place.limits, wall_s=min(place.limits.wall_s, case.timeout_s)),
        readable=place.readable,
        interpreter=place.interpreter,
    )
