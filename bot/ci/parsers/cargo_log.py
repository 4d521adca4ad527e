"""cargo test and cargo nextest: panics by test name."""

import re
from collections.abc import Sequence

from bot.ci.failures import Failure, Found, cut, test_key

RUNNING = re.compile(
    r"^\s{0,12}Running (?:unittests )?(\S{1,300}) \(.{1,400}\)$|^\s{0,12}Doc-tests (\S{1,200})$"
)
RESULT = re.compile(r"^test (\S.{0,400}?) \.\.\. (ok|FAILED|ignored.{0,200})$")
STDOUT = re.compile(r"^---- (.{1,400}) (?:stdout|stderr) ----$")
PANIC = re.compile(
    r"^thread '(.{1,300})'(?: \(\d{1,12}\))? panicked at (?:'(.{0,400})', )?"
    r"([^\s:']{1,300}):(\d{1,7}):\d{1,6}:?$"
)
END = re.compile(r"^test result: (?:ok|FAILED)\. \d{1,8} passed; (\d{1,8}) failed;")
NEXTEST = re.compile(
    r"^\s{0,8}(PASS|FAIL|TIMEOUT|SIGABRT|SIGSEGV|ABORT"
    r"|LEAK)(?: \[ {0,8}[>\d.]{1,12}s\])?(?: \(.{1,30}\))? (\S{1,200}) (\S.{0,300})$"
)
NEXTEST_END = re.compile(r"^\s{0,8}Summary \[.{1,30}\] .{0,120}? (\d{1,8}) failed")
NEXTEST_HEAD = re.compile(
    r"^-{3,} (?:STDOUT|STDERR):\s{1,12}(\S{1,200}) (\S.{0,300}?) -{3,}$|^\s{2,8}stderr ─{3,}$"
)


def parse(lines: Sequence[str]) -> Found:
    """Return the failing tests of all cargo test runs in a log."""
    plain = parse_plain(lines)
    next_ = parse_nextest(lines)
    counts = [found.counted for found in (plain, next_) if found.counted is not None]
    return Found(
        failures=plain.failures + next_.failures,
        passed=plain.passed | next_.passed,
        counted=sum(counts) if counts else None,
        ran=plain.ran or next_.ran,
    )


def parse_plain(lines: Sequence[str]) -> Found:
    """Return the failing tests of libtest's output."""
    target = ""
    failed: dict[str, str] = {}
    passed = set()
    counted = None
    for line in lines:
        running = RUNNING.match(line) if "Running" in line or "Doc-tests" in line else None
        if running:
            target = running.group(1) or f"doc {running.group(2)}"
        result = RESULT.match(line) if line.startswith("test ") else None
        if result and result.group(2) == "FAILED":
            failed[name_of(target, result.group(1))] = result.group(1)
        elif result and result.group(2) == "ok":
            passed.add(test_key(name_of(target, result.group(1))))
        end = END.match(line) if line.startswith("test result:") else None
        if end:
            counted = (counted or 0) + int(end.group(1))
    panics = read_panics(lines)
    failures = tuple(make_failure(name, panics.get(short)) for name, short in failed.items())
    return Found(failures, frozenset(passed), counted, ran=counted is not None or bool(failed))


def name_of(target: str, test: str) -> str:
    """Return a test's name with its target in front."""
    return f"{target}::{test}" if target else test


def read_panics(lines: Sequence[str]) -> dict[str, tuple[str, str, int]]:
    """Return message, file and line of the first panic of each test."""
    panics: dict[str, tuple[str, str, int]] = {}
    current = ""
    for position, line in enumerate(lines):
        head = STDOUT.match(line) if line.startswith("----") else None
        if head:
            current = head.group(1)
        found = PANIC.match(line) if " panicked at " in line else None
        if found:
            name = current or found.group(1)
            message = found.group(2) or panic_message(lines, position + 1)
            panics.setdefault(name, (message, found.group(3), int(found.group(4))))
    return panics


def panic_message(lines: Sequence[str], position: int) -> str:
    """Return a panic's message: the line after its head, with what was compared."""
    block = []
    for line in lines[position : position + 6]:
        if not line.strip() or line.startswith(("note:", "stack backtrace", "----", "failures:")):
            break
        block.append(line.strip())
    return cut(" ".join(block))


def make_failure(name: str, panic: tuple[str, str, int] | None) -> Failure:
    """Return one failing test."""
    if panic is None:
        return Failure("test", name, "panic", "")
    message, path, line = panic
    return Failure("test", name, "panic", message, paths=(path,), file=path, line=line)


def parse_nextest(lines: Sequence[str]) -> Found:
    """Return the failing tests of nextest's output; a retried test counts by its last state."""
    last: dict[str, tuple[str, str]] = {}
    counted = None
    for line in lines:
        stripped = line.lstrip()
        if stripped.startswith(("PASS", "FAIL", "TIMEOUT", "SIG", "ABORT", "LEAK")):
            found = NEXTEST.match(line)
            if found and "::" in found.group(2) + "::" + found.group(3):
                last[f"{found.group(2)}::{found.group(3)}"] = (found.group(1), found.group(3))
        elif stripped.startswith("Summary ["):
            end = NEXTEST_END.match(line)
            counted = int(end.group(1)) if end else 0
    if counted is None:
        return Found()
    panics = read_panics(lines)
    failures = [
        make_failure(name, panics.get(short)) for name, (state, short) in last.items() if state != "PASS"
    ]
    passed = frozenset(test_key(name) for name, (state, _) in last.items() if state == "PASS")
    return Found(tuple(failures), passed, counted, ran=True)
