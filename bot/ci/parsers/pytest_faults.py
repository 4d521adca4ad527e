"""Where pytest itself did not come to its end: refusals to start, its own crash, faulthandler's stacks."""

import re
from collections.abc import Iterable, Sequence

from bot.ci.failures import Failure, cut, merge_paths
from bot.ci.parsers import tracebacks
from bot.ci.parsers.pytest_section import read_section

CONFTEST = re.compile(r"^ImportError while loading conftest '([^'\n]{1,400})'")
USAGE = re.compile(
    r"^ERROR: (file or directory not found: .{1,400}|usage: .{1,200}|not found: .{1,400}"
    r"|.{0,60}unrecognized arguments.{1,300})$"
)
FAULT = re.compile(
    r"^(?:\S{1,300} )?(Timeout \(\d[\d:.]{0,20}\)!|Fatal Python error: .{1,200}|\+{10,80} Timeout \+{10,80})$"
)
FAULT_FRAME = re.compile(r'^  File "([^"\n]{1,400})", line \d{1,7},? in ')
INTERNAL = "INTERNALERROR>"
STACK_LINES = 120


def usage_errors(lines: Sequence[str]) -> Iterable[Failure]:
    """Return pytest's refusals to start: a missing file, a broken conftest, a wrong flag."""
    for position, line in enumerate(lines):
        if line.startswith("ERROR: "):
            found = USAGE.match(line)
            if found:
                yield Failure("collection", None, "UsageError", cut(found.group(1)))
        elif line.startswith("ImportError while loading conftest"):
            found = CONFTEST.match(line)
            if found:
                yield conftest_error(lines, position, found.group(1))


def conftest_error(lines: Sequence[str], position: int, conftest: str) -> Failure:
    """Return the failure of a conftest that cannot be imported."""
    section, _ = read_section(lines, position, True)
    return Failure(
        "collection",
        None,
        section.exception or "ImportError",
        section.message,
        paths=merge_paths(section.paths, [conftest]),
        file=conftest,
    )


def internal_errors(lines: Sequence[str]) -> list[Failure]:
    """Return pytest's own crash, by the traceback it prints."""
    inner = [line.partition(INTERNAL)[2].removeprefix(" ") for line in lines if line.startswith(INTERNAL)]
    return [
        Failure("crash", None, trace.exception, trace.message, paths=trace.paths)
        for trace in tracebacks.find_traces(inner)[-1:]
    ]


def fault_failures(lines: Sequence[str]) -> list[Failure]:
    """Return the last thing faulthandler said: a time-out or a crash, with the stack's files."""
    for position in range(len(lines) - 1, -1, -1):
        line = lines[position]
        found = FAULT.match(line) if "Timeout " in line or "Fatal Python error" in line else None
        if found:
            around = lines[max(0, position - STACK_LINES) : position + STACK_LINES]
            frames = [FAULT_FRAME.match(line) for line in around]
            paths = merge_paths([frame.group(1) for frame in frames if frame])
            timed = "Timeout" in found.group(1)
            text = found.group(1).removeprefix("Fatal Python error: ").strip("+ ")
            name = "Timeout" if timed else "FatalPythonError"
            return [Failure("timeout" if timed else "crash", None, name, cut(text), paths=paths)]
    return []
