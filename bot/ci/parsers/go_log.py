"""go test: failing tests by package, panics, and packages that did not build."""

import re
from collections.abc import Sequence

from bot.ci.failures import Category, Failure, Found, cut, test_key

RESULT = re.compile(r"^(\s{0,40})--- (FAIL|PASS|SKIP): (\S{1,400}) \([\d.]{1,12}s\)$")
PACKAGE = re.compile(
    r"^(FAIL|ok)\s{1,8}(\S{1,300})(?:\s+(?:[\d.]{1,12}s|\(cached\)|\[(build failed|setup failed)\]))"
)
PLACE = re.compile(r"^\s{1,60}([\w./-]{1,200}_test\.go|[\w./-]{1,200}\.go):(\d{1,7}): ?(.*)$")
PANIC = re.compile(r"^panic: (.{1,400})$")
PANIC_FRAME = re.compile(r"^\t(/?[\w./@+-]{1,400}\.go):(\d{1,7})(?: |$)")
LOOK_BACK = 4_000


def parse(lines: Sequence[str]) -> Found:
    """Return the failing tests of go test."""
    if not any(PACKAGE.match(line) for line in lines if line.startswith(("FAIL", "ok"))):
        return Found()
    failures: list[Failure] = []
    waiting: list[tuple[str, str, str | None, int | None]] = []
    passed: set[str] = set()
    names_passed: list[str] = []
    ran = False
    for position, line in enumerate(lines):
        result = RESULT.match(line) if "--- " in line else None
        if result and result.group(2) == "FAIL":
            waiting.append((result.group(3), *place_after(lines, position)))
        elif result and result.group(2) == "PASS":
            names_passed.append(result.group(3))
        package = PACKAGE.match(line) if line.startswith(("FAIL", "ok")) else None
        if package:
            ran = ran or package.group(3) is None
            failures += package_failures(lines, position, package, waiting)
            passed |= {test_key(f"{package.group(2)}.{name}") for name in names_passed}
            waiting, names_passed = [], []
    failed = {failure.key for failure in failures}
    return Found(tuple(failures), frozenset(passed - failed), None, ran=ran)


def package_failures(
    lines: Sequence[str],
    position: int,
    package: re.Match[str],
    waiting: Sequence[tuple[str, str, str | None, int | None]],
) -> list[Failure]:
    """Return the failures of one package: its leaf tests, else its panic; compile errors stand elsewhere."""
    if package.group(1) == "ok" or package.group(3):
        return []
    name = package.group(2)
    names = {test for test, *_ in waiting}
    leaves = [one for one in waiting if not any(other.startswith(one[0] + "/") for other in names)]
    panic = panic_before(lines, position)
    failures = []
    for test, message, path, line in leaves:
        text, file, number = (message, path, line) if message or not panic else panic
        exception = "panic" if panic and not message else "FAIL"
        paths = (file,) if file else ()
        failures.append(
            Failure("test", f"{name}.{test}", exception, text, paths=paths, file=file, line=number)
        )
    if not leaves and panic:
        category: Category = "timeout" if panic[0].startswith("test timed out") else "crash"
        paths = (panic[1],) if panic[1] else ()
        failures.append(
            Failure(category, None, "panic", f"{name}: {panic[0]}", paths=paths, file=panic[1], line=panic[2])
        )
    return failures


def place_after(lines: Sequence[str], position: int) -> tuple[str, str | None, int | None]:
    """Return message, file and line that a failing test printed; go prints them before or after its head."""
    found = RESULT.match(lines[position])
    run = f"=== RUN   {found.group(3)}" if found else ""
    start = next(
        (at for at in range(position - 1, max(-1, position - LOOK_BACK), -1) if lines[at] == run), None
    )
    after = lines[position + 1 : position + 12]
    said = lines[start + 1 : start + 40] if start is not None else []
    before = [line for line in reversed(lines[max(0, position - 12) : position])]
    for block in (after, said, before):
        for line in block:
            if "--- " in line or line.startswith(("=== ", "FAIL", "ok ")):
                break
            found = PLACE.match(line)
            if found:
                return cut(found.group(3) or following(lines, line)), found.group(1), int(found.group(2))
    return "", None, None


def following(lines: Sequence[str], line: str) -> str:
    """Return the lines of a multi-line message (testify prints a table)."""
    index = lines.index(line)
    useful = [text.strip() for text in lines[index + 1 : index + 8]]
    return " ".join(text for text in useful if text.startswith(("Error:", "expected", "actual")))


def panic_before(lines: Sequence[str], position: int) -> tuple[str, str | None, int | None] | None:
    """Return the panic that ended a package, with the first frame outside the runtime."""
    for index in range(position - 1, max(-1, position - 400), -1):
        found = PANIC.match(lines[index]) if lines[index].startswith("panic: ") else None
        if found:
            frames = [PANIC_FRAME.match(line) for line in lines[index:position]]
            own = [
                frame
                for frame in frames
                if frame and "/src/runtime/" not in frame.group(1) and "/src/testing/" not in frame.group(1)
            ]
            message = cut(found.group(1).partition(" [recovered]")[0])
            return (message, own[0].group(1), int(own[0].group(2))) if own else (message, None, None)
        if PACKAGE.match(lines[index]):
            return None
    return None
