"""The `operator` target: one function of the revision, timed in a process per arm and block by `child.py`.

`case.command` is `["module:function"]`: the function takes the workload and returns the request to time.
"""

import json
from dataclasses import replace
from pathlib import Path

from perf_runner import child
from perf_runner.models import BenchmarkCase
from perf_runner.targets import TargetError, Workplace
from perf_runner.targets.command import launch_for
from perf_runner.targets.session import SessionArm, open_session

CHILD = Path(child.__file__).resolve()


def open_arm(case: BenchmarkCase, place: Workplace) -> SessionArm:
    """Start the child on the case's function; TargetError unless the case names one."""
    if len(case.command) != 1 or not is_entry(case.command[0]):
        raise TargetError(f"the case {case.name} must name one function as module:function")
    options = {"workload": dict(case.workload), "warmup_requests": case.warmup_requests}
    argv = (str(place.interpreter), str(CHILD), case.command[0], json.dumps(options))
    launch = launch_for(case, place, case.requests)
    return open_session(case, place, replace(launch, argv=argv, readable=(*launch.readable, CHILD)))


def is_entry(text: str) -> bool:
    """Say whether a text has the form module:function."""
    module, colon, name = text.partition(":")
    parts = [*module.split("."), *name.split(".")]
    return bool(colon) and all(part.isidentifier() for part in parts)
