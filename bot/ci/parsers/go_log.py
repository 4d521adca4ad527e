"""go test: failing tests by package, panics, and packages that did not build."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bot.ci.failures import Category, Failure, Found, cut, test_key

RESULT = re.compile(r"^\s{0,40}--- (FAIL|PASS|SKIP): (\S{1,400}) \([\d.]{1,12}s\)$")
PACKAGE = re.compile(
    r"^(FAIL|ok)\s{1,8}(\S{1,300})(?:\s+(?:[\d.]{1,12}s|\(cached\)|\[(build failed|setup failed)\]))"
)
PLACE = re.compile(r"^\s{1,60}([\w./-]{1,200}\.go):(\d{1,7}): ?(.*)$")
PANIC = re.compile(r"^panic: (.{1,400})$")
PANIC_FRAME = re.compile(r"^\t(/?[\w./@+-]{1,400}\.go):(\d{1,7})(?: |$)")
SPEAKS = ("=== RUN   ", "=== CONT  ", "=== NAME  ")
RUNTIME = ("/src/runtime/", "/src/testing/")
NEAR_LINES = 12
OUTPUT_LINES = 40
PANIC_LINES = 400


@dataclass(frozen=True, slots=True)
class Place:
    """What a failing test printed, and where."""

    message: str = ""
    file: str | None = None
    line: int | None = None


@dataclass(slots=True)
class Package:
    """The tests of the package that is being read; its name stands at its end."""

    failed: dict[str, Place] = field(default_factory=dict)
    passed: list[str] = field(default_factory=list)
    speaking: dict[str, int] = field(default_factory=dict)


def parse(lines: Sequence[str]) -> Found:
    """Return the failing tests of go test."""
    if not any(PACKAGE.match(line) for line in lines if line.startswith(("FAIL", "ok"))):
        return Found()
    failures: list[Failure] = []
    passed: set[str] = set()
    ran = False
    package = Package()
    for position, line in enumerate(lines):
        read_line(lines, position, package)
        end = PACKAGE.match(line) if line.startswith(("FAIL", "ok")) else None
        if end:
            ran = ran or end.group(3) is None
            failures += package_failures(lines, position, end, package.failed)
            passed |= {test_key(f"{end.group(2)}.{name}") for name in package.passed}
            package = Package()
    failed = {failure.key for failure in failures}
    return Found(tuple(failures), frozenset(passed - failed), None, ran=ran)


def read_line(lines: Sequence[str], position: int, package: Package) -> None:
    """Read one line of a package's output."""
    line = lines[position]
    if line.startswith(SPEAKS):
        package.speaking[line[10:].strip()] = position
        return
    result = RESULT.match(line) if "--- " in line else None
    if result and result.group(1) == "FAIL":
        package.failed[result.group(2)] = place_of(lines, position, package.speaking.get(result.group(2)))
    elif result and result.group(1) == "PASS":
        package.passed.append(result.group(2))


def place_of(lines: Sequence[str], position: int, spoke: int | None) -> Place:
    """Return what a failing test printed: after its head, after it began to speak, or before its head."""
    blocks = [range(position + 1, min(len(lines), position + NEAR_LINES))]
    if spoke is not None:
        blocks.append(range(spoke + 1, min(len(lines), spoke + OUTPUT_LINES)))
    blocks.append(range(position - 1, max(-1, position - NEAR_LINES), -1))
    for block in blocks:
        for at in block:
            if "--- " in lines[at] or lines[at].startswith(("=== ", "FAIL", "ok ")):
                break
            found = PLACE.match(lines[at])
            if found:
                message = cut(found.group(3) or further(lines, at))
                return Place(message, found.group(1), int(found.group(2)))
    return Place()


def further(lines: Sequence[str], position: int) -> str:
    """Return the useful lines of a message that fills several (testify prints a table)."""
    useful = (text.strip() for text in lines[position + 1 : position + 8])
    return " ".join(text for text in useful if text.startswith(("Error:", "expected", "actual")))


def package_failures(
    lines: Sequence[str], position: int, end: re.Match[str], failed: dict[str, Place]
) -> list[Failure]:
    """Return the failures of one package: its leaf tests, else its panic; compile errors stand elsewhere."""
    if end.group(1) == "ok" or end.group(3):
        return []
    name = end.group(2)
    parents = {test[:place] for test in failed for place in slashes(test)}
    leaves = {test: place for test, place in failed.items() if test not in parents}
    panic = panic_before(lines, position)
    if not leaves and panic:
        category: Category = "timeout" if panic.message.startswith("test timed out") else "crash"
        return [make(category, None, "panic", Place(f"{name}: {panic.message}", panic.file, panic.line))]
    failures = []
    for test, place in leaves.items():
        silent = panic if panic and not place.message else None
        failures.append(make("test", f"{name}.{test}", "panic" if silent else "FAIL", silent or place))
    return failures


def make(category: Category, test: str | None, exception: str, place: Place) -> Failure:
    """Return one failure at a place."""
    paths = (place.file,) if place.file else ()
    return Failure(category, test, exception, place.message, paths=paths, file=place.file, line=place.line)


def slashes(name: str) -> Iterator[int]:
    """Yield where a subtest's name has its slashes."""
    return (place for place, letter in enumerate(name) if letter == "/")


def panic_before(lines: Sequence[str], position: int) -> Place | None:
    """Return the panic that ended a package, with the first frame outside the runtime."""
    for index in range(position - 1, max(-1, position - PANIC_LINES), -1):
        found = PANIC.match(lines[index]) if lines[index].startswith("panic: ") else None
        if found:
            frames = [PANIC_FRAME.match(line) for line in lines[index:position]]
            own = [frame for frame in frames if frame and not any(part in frame.group(1) for part in RUNTIME)]
            message = cut(found.group(1).partition(" [recovered")[0])
            return Place(message, own[0].group(1), int(own[0].group(2))) if own else Place(message)
        if PACKAGE.match(lines[index]):
            return None
    return None
