"""Python tracebacks, wherever they stand in a log, and the cause beneath a wrapper."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bot.ci.clean import strip_process
from bot.ci.failures import Category, Failure, cut, merge_paths
from bot.ci.signature import Signature

START = "Traceback (most recent call last):"
FRAME = re.compile(r'^\s{0,40}File "([^"\n]{1,400})", line (\d{1,7})(?:, in .{1,200})?$')
RAISED = re.compile(r"^((?:[A-Za-z_]\w{0,80}\.){0,12}[A-Za-z_]\w{0,80})(?:: ?(.*))?$")
CLASS = re.compile(
    r"(?:Error|Exception|Exit|Interrupt|Timeout|Failed|Failure|Warning|Fault|Unsupported|Abort\w{0,20}|Died|Killed"
    r"|Refused|Expired|Stop\w{0,20}|NotFound|DoesNotExist|Skipped|OutOfResources|Unavailable|Missing\w{0,20})$"
)
FRAMES_LIMIT = 400


@dataclass(frozen=True, slots=True)
class Trace:
    """One traceback: what was raised in the end, through which files, and the lines it covers."""

    exception: str
    message: str
    paths: tuple[str, ...]
    first: int
    last: int
    line: int | None = None

    @property
    def is_wrapper(self) -> bool:
        """Say whether it only wraps a cause."""
        return Signature(self.exception, self.message).is_wrapper


def find_traces(lines: Sequence[str]) -> list[Trace]:
    """Return all tracebacks in order; the members of a chain come one by one."""
    traces = []
    position = 0
    while position < len(lines):
        if START in lines[position]:
            trace, position = read_trace(lines, position)
            if trace:
                traces.append(trace)
        else:
            position += 1
    return traces


def read_trace(lines: Sequence[str], start: int) -> tuple[Trace | None, int]:
    """Return the traceback that starts at a line, and where to go on."""
    paths: list[str] = []
    number = None
    position = start + 1
    while position < len(lines) and position - start < FRAMES_LIMIT:
        line = strip_process(lines[position])
        if START in line:
            return None, position
        frame = FRAME.match(line)
        if frame:
            paths.append(frame.group(1))
            number = int(frame.group(2))
        elif line and not line[0].isspace():
            raised = raised_in(line) if paths or position - start <= 2 else None
            if raised:
                trace = Trace(raised[0], raised[1], merge_paths(paths), start, position, number)
                return trace, position + 1
            if position - start > 3 and not paths:
                return None, position
        position += 1
    return None, position


def raised_in(line: str) -> tuple[str, str] | None:
    """Return exception class and message of a traceback's last line, or None."""
    found = RAISED.match(line[:2000])
    if found is None:
        return None
    name, message = found.group(1), found.group(2)
    if not looks_like_class(name):
        return None
    return name, cut(message or "")


def looks_like_class(name: str) -> bool:
    """Say whether a dotted name is an exception's."""
    last = name.rpartition(".")[2]
    return bool(CLASS.search(last)) or (last[:1].isupper() and "." in name)


def cause_among(traces: Sequence[Trace]) -> Trace | None:
    """Return the cause of a failure: the last traceback that is no wrapper.

    Of a chain the last one was raised; a wrapper at its end stands for the one before it.
    """
    return next((trace for trace in reversed(traces) if not trace.is_wrapper), None)


def parse(lines: Sequence[str]) -> tuple[Failure, ...]:
    """Return at most one failure: the cause of the last traceback of a log that no test runner explains."""
    traces = find_traces(lines)
    if not traces:
        return ()
    cause = cause_among(traces) or traces[-1]
    outer = traces[-1] if traces[-1].is_wrapper and cause is not traces[-1] else None
    return (
        Failure(
            category=category_of(cause),
            exception=cause.exception,
            message=cause.message,
            paths=cause.paths,
            file=cause.paths[-1] if cause.paths else None,
            line=cause.line,
            outer=f"{outer.exception}: {outer.message}" if outer else None,
        ),
    )


def category_of(trace: Trace) -> Category:
    """Return what kind of failure an unexplained traceback is."""
    if trace.exception.endswith(("SyntaxError", "IndentationError")):
        return "compile"
    return "build" if any(path.endswith("setup.py") for path in trace.paths) else "job"
