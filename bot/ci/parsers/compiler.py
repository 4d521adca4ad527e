"""Compile and type errors: gcc, clang, nvcc, MSVC, rustc, go, tsc, mypy, CMake, linkers."""

import re
from collections.abc import Iterable, Sequence

from bot.ci.clean import DOCKER_STEP
from bot.ci.failures import Category, Failure, cut

FINDINGS_LIMIT = 200
PATH = r"((?:[A-Za-z]:[\\/])?[\w./\\@+~()\[\]-]{1,300}?\.[A-Za-z]\w{0,7})"
COLON = re.compile(
    rf"^{PATH}:(\d{{1,7}})(?::(\d{{1,6}}))?: (?:fatal )?[Ee]rror ?([A-Z]{{0,4}}\d{{0,6}})?: ?(.+)$"
)
PAREN = re.compile(
    rf"^{PATH}\((\d{{1,7}})(?:,(\d{{1,6}}))?\) ?: (?:fatal )?error ?([A-Z]{{0,4}}\d{{0,6}})?: ?(.+)$"
)
DASH = re.compile(rf"^{PATH}:(\d{{1,7}}):(\d{{1,6}}) - error (TS\d{{1,6}}): (.+)$")
GO = re.compile(r"^((?:\./)?[\w./-]{1,300}\.go):(\d{1,7}):(\d{1,6}): (.{1,400})$")
RUST = re.compile(r"^error(?:\[(E\d{1,6})\])?: (.{1,600})$")
RUST_AT = re.compile(r"^\s{0,8}--> ([^\s:][^:\n]{0,300}):(\d{1,7}):\d{1,6}$")
CMAKE_AT = re.compile(r"^CMake Error at ([^\s:][^:\n]{0,300}):(\d{1,7}) \((.{1,100})\):$")
CMAKE = re.compile(r"^CMake Error: (.{1,400})$")
LINK = re.compile(
    r"^(?:LINK|.{0,200}\.(?:obj|lib)) : fatal error (LNK\d{1,5}): (.{1,400})$"
    r"|^(?:/\S{1,200}/)?(?:ld|ld\.\w{1,8}|lld|ld64\.lld): (?:error: )?(.{1,400})$"
    r"|^(.{0,300}undefined reference to .{1,200})$|^ld\.lld: error: (.{1,400})$"
)
LOCKED = re.compile(
    r"LNK1104|LNK1201|cannot open output file|permission denied|resource busy|text file busy", re.I
)
NOTE = re.compile(r"^\s{1,8}= note: (?:LINK : fatal error )?(.{1,400})$")
RUST_NOISE = (
    "could not compile", "aborting due to", "test failed", "build failed", "process didn't exit successfully",
    "failed to run custom build", "recipe `", "script returned",
)  # fmt: skip
LD_NOISE = ("warning:", "warning ", "NOTE:", "note:")


def parse(lines: Sequence[str]) -> tuple[Failure, ...]:
    """Return one failure for each compile error; further ones past a limit become one that says so."""
    found: dict[tuple[str | None, str | None, str], Failure] = {}
    total = 0
    for failure in findings([DOCKER_STEP.sub("", line, count=1) for line in lines]):
        total += 1
        if len(found) < FINDINGS_LIMIT:
            found.setdefault((failure.file, failure.exception, failure.message), failure)
    if total > FINDINGS_LIMIT and len(found) >= FINDINGS_LIMIT:
        return (*found.values(), Failure("unread", message=f"more than {FINDINGS_LIMIT} compile errors"))
    return tuple(found.values())


def findings(lines: Sequence[str]) -> Iterable[Failure]:
    """Return every compile error in order."""
    go = any(line.startswith("# ") or "[build failed]" in line for line in lines)
    for position, line in enumerate(lines):
        if "rror" in line:
            failure = error_line(lines, position)
            if failure:
                yield failure
                continue
        if "undefined reference" in line or line.startswith(("ld", "/", "LINK")):
            failure = link_error(line)
            if failure:
                yield failure
        elif go and ".go:" in line:
            found = GO.match(line)
            if found and not found.group(1).endswith("_test.go:"):
                yield at(found.group(1), int(found.group(2)), None, found.group(4))


def error_line(lines: Sequence[str], position: int) -> Failure | None:
    """Return the error that a line with the word `error` reports."""
    line = lines[position]
    for pattern in (COLON, PAREN):
        found = pattern.match(line) if len(line) < 2_000 else None
        if found:
            return at(found.group(1), int(found.group(2)), found.group(4) or None, found.group(5))
    dash = DASH.match(line) if " - error TS" in line else None
    if dash:
        return at(dash.group(1), int(dash.group(2)), dash.group(4), dash.group(5))
    if line.startswith("error"):
        return rust_error(lines, position)
    return cmake_error(lines, position) if line.startswith("CMake Error") else None


def at(path: str, line: int, code: str | None, message: str) -> Failure:
    """Return a compile error at a place."""
    return Failure("compile", None, code or "error", cut(message), paths=(path,), file=path, line=line)


def rust_error(lines: Sequence[str], position: int) -> Failure | None:
    """Return rustc's error with its place, or the linker's note."""
    found = RUST.match(lines[position])
    if found is None or found.group(2).startswith(RUST_NOISE):
        return None
    after = lines[position + 1 : position + 8]
    place = next((match for line in after if (match := RUST_AT.match(line))), None)
    code = found.group(1) or "error"
    if place:
        return at(place.group(1), int(place.group(2)), code, found.group(2))
    if found.group(2).startswith("linking with"):
        notes = [match.group(1) for line in after if (match := NOTE.match(line))]
        return Failure(link_category(notes), None, "linker", cut(" ".join([found.group(2), *notes[-1:]])))
    return Failure("compile", None, code, cut(found.group(2))) if found.group(1) else None


def cmake_error(lines: Sequence[str], position: int) -> Failure | None:
    """Return CMake's error with its place and the first line of its text."""
    line = lines[position]
    placed = CMAKE_AT.match(line)
    if placed:
        text = next((after.strip() for after in lines[position + 1 : position + 6] if after.strip()), "")
        message = f"{placed.group(3)}: {text}"
        return Failure(
            "build", None, "CMake Error", cut(message), paths=(placed.group(1),), file=placed.group(1),
            line=int(placed.group(2)),
        )  # fmt: skip
    bare = CMAKE.match(line)
    return Failure("build", None, "CMake Error", cut(bare.group(1))) if bare else None


def link_error(line: str) -> Failure | None:
    """Return a linker's error."""
    found = LINK.match(line) if len(line) < 2_000 else None
    if found is None:
        return None
    code, *texts = found.groups()
    message = next((text for text in texts if text), "")
    if message.startswith(LD_NOISE) or not message or ": in function " in message:
        return None
    return Failure(link_category([message]), None, code or "linker", cut(message))


def link_category(notes: Sequence[str]) -> Category:
    """Say whether the code does not link, or the machine did not let the linker write (a locked file)."""
    return "job" if any(LOCKED.search(note) for note in notes) else "compile"
