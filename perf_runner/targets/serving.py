"""The `serving` target: a revision's server under a load that is the same for every arm."""

from perf_runner.models import BenchmarkCase
from perf_runner.targets import TargetError, Workplace
from perf_runner.targets.session import SessionArm


def open_arm(case: BenchmarkCase, place: Workplace) -> SessionArm:
    """Start the server and wait for its health."""
    raise TargetError("serving cases are not measured yet")
