"""How one run of a case is taken: one module a kind, all behind the two calls of `OpenArm`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from perf_runner.models import BenchmarkCase, Sample, TargetKind
from perf_runner.sandbox import Limits, Sandbox


class TargetError(RuntimeError):
    """An arm that cannot be measured: it does not start, ends early, or reports no measurement."""


@dataclass(frozen=True)
class Measured:
    """One run as the revision reports it, and the time it took as seen from outside."""

    sample: Sample
    wall_s: float


@dataclass(frozen=True)
class Workplace:
    """Where one arm of a case runs: its source tree, its Python, its confinement (None: unconfined)."""

    source: Path
    sandbox: Sandbox | None
    interpreter: Path
    readable: tuple[Path, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)


class OpenArm(Protocol):
    """One arm during one block."""

    def wait_until_ready(self) -> None:
        """Return once the arm is warm; TargetError when it does not get there."""

    def run(self, requests: int) -> Measured:
        """Take one run of `requests` requests; TargetError when it gives no measurement."""

    def abort(self) -> None:
        """Kill what runs now, from another thread; the call in progress then fails with TargetError."""

    def close(self) -> None:
        """End whatever of the arm still runs and wait for its end."""


Opener = Callable[[BenchmarkCase, Workplace], OpenArm]


def opener_for(kind: TargetKind) -> Opener:
    """Return how an arm of this kind is opened; TargetError for a kind that no experiment can run."""
    from perf_runner.targets import command, operator, serving, session

    openers: dict[TargetKind, Opener] = {
        TargetKind.COMMAND: command.open_arm,
        TargetKind.SESSION: session.open_arm,
        TargetKind.OPERATOR: operator.open_arm,
        TargetKind.SERVING: serving.open_arm,
        TargetKind.QWEN_IMAGE_DIT: session.open_arm,
    }
    return openers[kind]


def with_interpreter(command: Sequence[str], interpreter: Path) -> tuple[str, ...]:
    """Return a command whose first word `python` is the arm's own Python."""
    first, *rest = command
    return (str(interpreter) if first in ("python", "python3") else first, *rest)
