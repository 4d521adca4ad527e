"""What a job's last lines say when no tool explains it: time-outs, gates over other jobs, the last error."""

import re
from collections.abc import Sequence

from bot.ci.clean import strip_process
from bot.ci.failures import Failure, cut
from bot.ci.signature import is_generic

TIMED_OUT = re.compile(
    r"the job running on runner .{0,200} has exceeded the maximum execution time of \d"
    r"|##\[error\]the (?:job|action|operation).{0,120} (?:timed out|exceeded the maximum)"
    r"|has timed out after \d|# timed out after \d|command timed out after \d|step timed out"
    r"|timeout: sending signal|^timeout: the monitored command|job exceeded the timeout"
    r"|exceeded timeout of \d",
    re.IGNORECASE,
)
GATE = re.compile(
    r"\"?\b(?:failure|cancelled|skipped)\"? *(?:!=|==|=) *\"?success|test \"?(?:failure|cancelled"
    r"|skipped)\"? = "
    r"|needs\.[\w.*-]{1,80}\.result|one or more (?:required )?(?:jobs|checks) (?:failed|did not)"
    r"|contains\(needs\.\*\.result",
    re.IGNORECASE,
)
ERROR_LINE = re.compile(
    r"^(?:##\[error\]|::error[^:\n]{0,200}::)(.{1,600})$"
    r"|^(?:ERROR|Error|error|FATAL|fatal|FAIL|FAILED|REGRESSION)(?:: |:| - | )(.{1,600})$"
    r"|^(?:❌|✗|✖|\[ERROR\]|\[error\]|\[FAIL\]) ?(.{1,600})$"
)
EXIT_LINE = re.compile(
    r"^(?:##\[error\]process completed with exit code|🚨 error: the command exited|user command error"
    r"|##\[error\]the operation was cancell?ed)",
    re.IGNORECASE,
)
NOISE = (
    "Post job cleanup",
    "Cleaning up orphan",
    "[command]",
    "~~~",
    "$ ",
    "^^^",
    "##[endgroup]",
    "##[group]",
)
TAIL_LINES = 80
GATE_LINES = 120
GATE_TAIL = 12


def timed_out(lines: Sequence[str]) -> str | None:
    """Return the line that says the step ran out of time, or None."""
    for line in reversed(lines[-400:]):
        if "tim" in line.lower() and TIMED_OUT.search(line[:1_000]):
            return cut(line, 300)
    return None


def is_gate(lines: Sequence[str]) -> bool:
    """Say whether a job only looks at other jobs' results."""
    own = [line for line in lines if line.strip() and not line.startswith((*NOISE, "##[", "🚨"))]
    return len(own) < GATE_LINES and any(GATE.search(line[:1_000]) for line in own[-GATE_TAIL:])


def last_error(lines: Sequence[str]) -> tuple[Failure, ...]:
    """Return the last line before the end that names an error, as a failure of the job.

    Weak by nature: it needs harder proof than a test's failure.
    """
    tail = own_tail(lines)
    best = None
    for position, line in enumerate(tail):
        found = ERROR_LINE.match(strip_process(line)[:1_000])
        if found is None:
            continue
        text = next(group for group in found.groups() if group).strip()
        if text and not is_generic(None, text) and not EXIT_LINE.match(line):
            best = (position, text)
    if best is None:
        return ()
    before = tail[best[0] - 1].strip() if best[0] else ""
    return (Failure("job", None, None, cut(best[1]), detail=cut(before, 300)),)


def own_tail(lines: Sequence[str]) -> list[str]:
    """Return the last lines of the job's own commands, up to the line that gives its exit status."""
    end = len(lines)
    for position in range(len(lines) - 1, -1, -1):
        if EXIT_LINE.match(lines[position]):
            end = position
            break
    return [
        line for line in lines[max(0, end - TAIL_LINES) : end] if line.strip() and not line.startswith(NOISE)
    ]
