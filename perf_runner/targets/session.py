"""The `session` target: one process per arm and block, which takes runs on request while others wait.

The process writes `{"ready": true}` once it is warm, then answers each line `{"run": n}` with one result
document on one line. Lines that are no JSON object are skipped: they are the program's own talk.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from perf_runner.models import BenchmarkCase
from perf_runner.results import MAX_DOCUMENT_BYTES, ResultError, one_line, parse_json, parse_sample
from perf_runner.sandbox import Launch
from perf_runner.sandbox_process import ProcessEndedError, SandboxedProcess
from perf_runner.targets import Measured, TargetError, Workplace
from perf_runner.targets.command import launch_for

MAX_SKIPPED_LINES = 10_000


@dataclass
class SessionArm:
    """One arm whose process stays alive for a block; the case's time limit holds for each answer."""

    case: BenchmarkCase
    process: SandboxedProcess

    def wait_until_ready(self) -> None:
        """Return once the process has said that it is warm."""
        document = self._answer("start")
        if document.get("ready") is not True:
            raise TargetError(
                f"the benchmark did not start: {one_line(document.get('error', document))[:300]}"
            )

    def run(self, requests: int) -> Measured:
        """Ask for one run and return what the process reports."""
        started_at, started_s = datetime.now(UTC), time.monotonic()
        try:
            self.process.send(json.dumps({"run": requests}))
            document = self._answer("answer")
            return Measured(parse_sample(document, self.case, started_at), time.monotonic() - started_s)
        except ProcessEndedError as error:
            raise TargetError(f"the benchmark ended early: {error}") from None
        except ResultError as error:
            raise TargetError(str(error)) from None

    def abort(self) -> None:
        """Kill the process."""
        self.process.kill()

    def close(self) -> None:
        """End the process and whatever it started."""
        self.process.kill()
        self.process.finish()

    def _answer(self, what: str) -> Mapping[str, Any]:
        deadline_s = time.monotonic() + self.case.timeout_s
        try:
            for _ in range(MAX_SKIPPED_LINES):
                line = self.process.read_line(deadline_s - time.monotonic())
                if (document := read_object(line)) is not None:
                    return document
        except ProcessEndedError as error:
            raise TargetError(f"the benchmark ended before its {what}: {error}") from None
        except ResultError as error:
            raise TargetError(str(error)) from None
        except TimeoutError:
            raise TargetError(f"the benchmark gave no {what} within {self.case.timeout_s:.0f} s") from None
        raise TargetError(f"the benchmark wrote {MAX_SKIPPED_LINES} lines and no {what}")


def read_object(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line, None for any other text; ResultError for one that is too large."""
    text = line.decode(errors="replace").strip()
    if not text.startswith("{"):
        return None
    if len(line) > MAX_DOCUMENT_BYTES:
        raise ResultError(f"the result is larger than {MAX_DOCUMENT_BYTES // 1024} KiB")
    try:
        value = parse_json(text)
    except json.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def open_arm(case: BenchmarkCase, place: Workplace) -> SessionArm:
    """Start the case's command as a session; TargetError for a case without a command."""
    if not case.command:
        raise TargetError(f"the case {case.name} names no command")
    return open_session(case, place, launch_for(case, place, case.requests))


def open_session(case: BenchmarkCase, place: Workplace, launch: Launch) -> SessionArm:
    """Start `launch` as a session; its whole life is bounded by the workplace's time limit."""
    whole = replace(launch, limits=replace(launch.limits, wall_s=place.limits.wall_s))
    return SessionArm(case, SandboxedProcess(whole, place.sandbox))
