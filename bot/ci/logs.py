"""From a job's raw log to its failures, in constant memory.

A long log is never cleaned as a whole: byte needles find candidates, windows around them are kept (the first
and the last few megabytes of them), and the parsers see only those.
"""

import io
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from bot.ci.clean import clean_lines
from bot.ci.failures import Failure, Found, InfraMark, Reading
from bot.ci.parsers import (
    build_log,
    cargo_log,
    compiler,
    ctest_log,
    go_log,
    infra,
    js_log,
    junit,
    lint_log,
    pytest_log,
    steps,
    tracebacks,
    unittest_log,
)
from bot.ci.snapshot import Job

NEEDLES = (b"FAIL", b"ERR", b"rror", b"panic", b"Traceback", b"imed out", b"atal", "●".encode())
CHUNK_BYTES = 4 * 1024 * 1024
BEFORE_BYTES = 2 * 1024
AFTER_BYTES = 6 * 1024
FIRST_BYTES = 64 * 1024
LAST_BYTES = 256 * 1024
HEAD_BYTES = 2 * 1024 * 1024
TAIL_BYTES = 6 * 1024 * 1024
WHOLE_CHARACTERS = 1024 * 1024
FAILURES_LIMIT = 2_000

RUNNERS: tuple[Callable[[Sequence[str]], Found], ...] = (
    pytest_log.parse,
    unittest_log.parse,
    cargo_log.parse,
    go_log.parse,
    js_log.parse,
    ctest_log.parse,
)


@dataclass(slots=True)
class Kept:
    """The windows kept so far: a head that is never dropped and a tail that forgets its oldest."""

    head: list[bytes] = field(default_factory=list)
    head_bytes: int = 0
    tail: deque[bytes] = field(default_factory=deque)
    tail_bytes: int = 0

    def add(self, piece: bytes) -> None:
        """Keep one window."""
        if self.head_bytes + len(piece) <= HEAD_BYTES and not self.tail:
            self.head.append(piece)
            self.head_bytes += len(piece)
            return
        self.tail.append(piece)
        self.tail_bytes += len(piece)
        while self.tail_bytes > TAIL_BYTES:
            self.tail_bytes -= len(self.tail.popleft())


def excerpt(stream: BinaryIO) -> bytes:
    """Return the parts of a log that may tell of a failure, at most about HEAD_BYTES + TAIL_BYTES of them."""
    kept = Kept()
    base = 0
    until = FIRST_BYTES
    carry = b""
    last = b""
    while chunk := stream.read(CHUNK_BYTES):
        buffer = carry + chunk
        until = keep_windows(buffer, base, until, kept)
        carry = buffer[-BEFORE_BYTES:]
        base += len(buffer) - len(carry)
        last = (last + chunk)[-LAST_BYTES:]
    total = base + len(carry)
    if until < total:
        start = max(until, total - LAST_BYTES)
        kept.add((b"\n" if start > until else b"") + last[len(last) - (total - start) :])
    return b"".join([*kept.head, *([b"\n"] if kept.tail else []), *kept.tail])


def keep_windows(buffer: bytes, base: int, until: int, kept: Kept) -> int:
    """Keep the windows of one buffer whose first byte is at `base`; return up to where the log is kept.

    `until` is how far windows reach already: what of it lies in this buffer is kept first.
    """
    seen = base + (BEFORE_BYTES if base else 0)
    if until > seen:
        kept.add(buffer[seen - base : until - base])
    until = max(until, seen) if until > seen else until
    start = max(until - base, 0)
    places = {needle: buffer.find(needle, start) for needle in NEEDLES}
    while True:
        found = [place for place in places.values() if place != -1]
        if not found:
            return until
        first = min(found)
        left = max(first - BEFORE_BYTES, until - base, 0)
        right = first + AFTER_BYTES
        kept.add(window(buffer, left, right, gap=left > until - base))
        until = base + right
        for needle, place in places.items():
            if place != -1 and place < right:
                places[needle] = buffer.find(needle, right)


def window(buffer: bytes, left: int, right: int, gap: bool) -> bytes:
    """Cut one window; after a gap it starts on a line of its own."""
    if not gap:
        return buffer[left:right]
    line = buffer.find(b"\n", left, left + BEFORE_BYTES)
    return b"\n" + buffer[line + 1 if line != -1 else left : right]


def excerpt_text(log: str) -> str:
    """Return a log as it is, or the excerpt of a long one."""
    if len(log) <= WHOLE_CHARACTERS:
        return log
    return excerpt(io.BytesIO(log.encode("utf-8", "replace"))).decode("utf-8", "replace")


def read_job(job: Job) -> Reading:
    """Return what a job's log and report say."""
    lines = clean_lines(excerpt_text(job.log)) if job.log else []
    report = junit.parse(job.junit) if job.junit else Found()
    return read_lines(lines, report, job)


def read_lines(lines: Sequence[str], report: Found, job: Job) -> Reading:
    """Join what the parsers find in plain lines with the report."""
    found = [parse(lines) for parse in RUNNERS] if lines else []
    failures = [failure for one in found for failure in one.failures]
    ran = any(one.ran for one in found) or report.ran
    counted = [one.counted for one in found if one.counted is not None]
    unread = sum(counted) - sum(len(one.failures) for one in found if one.counted is not None)
    failures = add_report(failures, report)
    failures += beside_tests(lines) if failures else without_tests(lines, job, ran)
    out_of_time = out_of_time_failure(lines, job)
    if out_of_time and not any(failure.category == "timeout" for failure in failures):
        failures = [failure for failure in failures if failure.category != "job"] + [out_of_time]
    if counted and unread > 0 and report.counted is None and not covers(report, failures, sum(counted)):
        failures.append(Failure("unread", message=f"{unread} of {sum(counted)} failures could not be read"))
    if len(failures) > FAILURES_LIMIT:
        more = len(failures) - FAILURES_LIMIT
        failures = [*failures[:FAILURES_LIMIT], Failure("unread", message=f"{more} more failures")]
    passed = frozenset().union(report.passed, *(one.passed for one in found))
    keys = frozenset(failure.key for failure in failures if failure.key)
    return Reading(
        failures=tuple(failures) or (Failure("job"),),
        passed=passed - keys,
        ran=ran,
        complete=bool(counted or report.ran) and not any(one.category == "unread" for one in failures),
        infra=infra_marks(lines, job),
        started=bool(lines) and infra.commands_began(lines),
        seen=passed | keys,
    )


def covers(report: Found, failures: Sequence[Failure], counted: int) -> bool:
    """Say whether a report brought the failures that the log only counted."""
    return report.ran and len(failures) >= counted


def add_report(failures: list[Failure], report: Found) -> list[Failure]:
    """Put a report's words in place of the log's for one test, and add what the log did not name."""
    told = {failure.key: failure for failure in report.failures}
    keys = {failure.key for failure in failures}
    joined = [in_report_words(one, told[one.key]) if one.key in told else one for one in failures]
    return joined + [failure for failure in report.failures if failure.key not in keys]


def in_report_words(seen: Failure, told: Failure) -> Failure:
    """Return a failure of the log as the report says it: whole, where a log cuts its lines.

    The log's words stay where it shows the cause behind a wrapper, or where the report's would name none.
    """
    theirs, ours = told.signature, seen.signature
    if seen.outer or theirs is None or (theirs.is_generic and ours is not None and not ours.is_generic):
        return seen
    return replace(seen, exception=told.exception or seen.exception, message=told.message or seen.message)


def beside_tests(lines: Sequence[str]) -> list[Failure]:
    """Return what may fail beside tests in one job: packages that did not build."""
    if any("[build failed]" in line or "[setup failed]" in line for line in lines):
        return list(compiler.parse(lines))
    return []


def without_tests(lines: Sequence[str], job: Job, ran: bool) -> list[Failure]:
    """Return what failed where no test did: the first kind of finding that explains the job."""
    for parse in (compiler.parse, lint_log.parse, build_log.parse, tracebacks.parse):
        failures = parse(lines)
        if failures:
            return list(failures)
    return list(steps.last_error(lines))


def out_of_time_failure(lines: Sequence[str], job: Job) -> Failure | None:
    """Return the step's time-out, said by the provider or by the log."""
    line = steps.timed_out(lines)
    if job.conclusion != "timed_out" and (line is None or job.exit_status not in (None, 124, 137, 143, -1)):
        return None
    return Failure("timeout", None, "StepTimeout", "the step ran out of time", detail=line or "")


def infra_marks(lines: Sequence[str], job: Job) -> tuple[InfraMark, ...]:
    """Return the infrastructure lines, and an agent that was lost before it wrote any."""
    marks = infra.parse(lines)
    if job.exit_status == -1 and not any(mark.name == "agent lost" for mark in marks):
        marks = (*marks, InfraMark("agent lost", "the job ended with exit status -1"))
    return marks
