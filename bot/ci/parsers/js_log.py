"""jest, vitest and mocha: failing tests by file and full name."""

import re
from collections.abc import Sequence

from bot.ci.failures import Category, Failure, Found, cut, merge_paths

EXT = r"\.(?:[cm]?[jt]sx?|vue|svelte|snap)"
FAIL_LINE = re.compile(
    rf"^\s{{0,4}}FAIL\s{{1,6}}(?:\|?\S{{1,80}}\|? )?(\S{{1,300}}{EXT})(?: > (.{{1,600}}))?"
    r"(?: \[ \S{1,300} \])?(?: \([\d.]{1,12} ?m?s\))?$"
)
JEST_TEST = re.compile(r"^\s{0,6}● (.{1,600})$")
RAISED = re.compile(
    r"^\s{0,8}(?:Caused by: )?((?:[A-Za-z_$][\w$.]{0,80})?(?:Error|Exception"
    r"|Rejection))(?: \[.{1,60}\])?: ?(.*)$"
)
FRAME = re.compile(
    r"(?:\(|^\s{1,12}at |❯ (?:\S{1,200} )?)(?:file://)?"
    rf"((?:[A-Za-z]:)?[^\s():]{{1,300}}{EXT}):(\d{{1,7}}):\d{{1,6}}\)?$"
)
COUNT = re.compile(r"^\s{0,10}Tests:?\s{1,6}(?:.{0,60}?)?(\d{1,7}) failed")
RAN = re.compile(
    r"^\s{0,10}(?:Tests:?\s{1,6}(?:\d{1,7} (?:failed|passed|skipped|todo).{0,120})|Test (?:Suites"
    r"|Files):?\s.{1,120})$"
)
MOCHA_END = re.compile(r"^\s{0,8}(\d{1,7}) failing$")
MOCHA_TEST = re.compile(r"^\s{1,6}\d{1,5}\) (.{1,400})$")
CLOSING = re.compile(r"^\s{0,10}(?:Test (?:Suites|Files)|Tests|Snapshots|Time|Start at|Duration)[: ]")
BLOCK_LIMIT = 200
SHARED_HEADS = 50


def parse(lines: Sequence[str]) -> Found:
    """Return the failing tests of jest, vitest or mocha."""
    if any(MOCHA_END.match(line) for line in lines if line.endswith(" failing")):
        return parse_mocha(lines)
    if not any(RAN.match(line) for line in lines if "Tests" in line or "Test " in line):
        return Found()
    failures = {(failure.test, failure.file): failure for failure in read_blocks(lines)}
    counts = [int(found.group(1)) for line in lines if "failed" in line and (found := COUNT.match(line))]
    suites = [failure for failure in failures.values() if failure.category == "collection"]
    return Found(
        failures=tuple(failures.values()),
        counted=sum(counts) + len(suites) if counts or suites else None,
        ran=True,
    )


def read_blocks(lines: Sequence[str]) -> list[Failure]:
    """Return one failure for each `FAIL file > test` (vitest) and `● test` (jest)."""
    failures = []
    file = None
    heads: list[tuple[int, str, str | None]] = []
    for position, line in enumerate(lines):
        fail = FAIL_LINE.match(line) if "FAIL" in line else None
        if fail:
            file = fail.group(1)
            if fail.group(2):
                heads.append((position, file, fail.group(2)))
            elif next_is_error(lines, position):
                heads.append((position, file, None))
            continue
        test = JEST_TEST.match(line) if "●" in line else None
        if test and file and is_test_head(test.group(1)):
            heads.append((position, file, test.group(1)))
    for index, (position, path, name) in enumerate(heads):
        end = shared_end(heads, index, lines)
        failures.append(make_failure(path, name, lines[position + 1 : end]))
    return failures


def shared_end(heads: Sequence[tuple[int, str, str | None]], index: int, lines: Sequence[str]) -> int:
    """Return where a block ends; vitest lists several tests above one error, and they share it."""
    following = [head[0] for head in heads[index + 1 : index + SHARED_HEADS]] or [len(lines)]
    position = heads[index][0]
    end = following[0]
    for candidate in following:
        body = [line for line in lines[position + 1 : candidate] if line.strip()]
        own = [line for line in body if "FAIL" not in line or not FAIL_LINE.match(line)]
        end = candidate
        if own:
            break
    return min(end, position + BLOCK_LIMIT)


def next_is_error(lines: Sequence[str], position: int) -> bool:
    """Say whether a file failed as a whole (vitest prints its error at once)."""
    return any(RAISED.match(line) for line in lines[position + 1 : position + 3])


def is_test_head(name: str) -> bool:
    """Say whether jest's bullet names a test, not console output or a notice."""
    return not name.startswith(
        ("Console", "Cannot log after", "Validation", "Deprecation", "Multiple configs")
    )


def make_failure(path: str, name: str | None, body: Sequence[str]) -> Failure:
    """Return the failure of one block."""
    if name in (None, "Test suite failed to run"):
        category: Category = "collection"
        test = None
    else:
        category = "test"
        test = f"{path} > " + str(name).replace(" › ", " > ")
    exception, message = raised_in(body)
    frames = [found for line in body if (found := FRAME.search(line))]
    own = [frame for frame in frames if "node_modules" not in frame.group(1)]
    first = own[0] if own else None
    return Failure(
        category=category,
        test=test,
        exception=exception,
        message=message,
        paths=merge_paths([path], reversed([frame.group(1) for frame in own])),
        file=path,
        line=int(first.group(2)) if first else None,
    )


def raised_in(body: Sequence[str]) -> tuple[str | None, str]:
    """Return class and message: the first named error, else the first line with what was expected."""
    useful = []
    for line in body:
        if CLOSING.match(line):
            break
        if line.strip():
            useful.append(line)
    for line in useful[:40]:
        found = RAISED.match(line)
        if found:
            return found.group(1), cut(found.group(2))
    text = next((line.strip() for line in useful if not FRAME.search(line)), "")
    compared = [
        line.strip() for line in useful[:30] if line.strip().startswith(("Expected", "Received", "- ", "+ "))
    ]
    return None, cut(" / ".join([text, *compared[:2]]))


def mocha_names(first: str, body: Sequence[str]) -> tuple[list[str], Sequence[str]]:
    """Return a test's full name, which ends at the first colon, and the lines after it."""
    if first.endswith(":"):
        return [first.rstrip(":")], body
    for depth, line in enumerate(body[:12]):
        if line.strip().endswith(":"):
            return [first, *(text.strip().rstrip(":") for text in body[: depth + 1])], body[depth + 1 :]
    return [first], body


def parse_mocha(lines: Sequence[str]) -> Found:
    """Return the failing tests of mocha's list at the end."""
    start = next(index for index, line in enumerate(lines) if MOCHA_END.match(line))
    counted = int(str(MOCHA_END.match(lines[start]).group(1)))  # type: ignore[union-attr]
    heads = [index for index in range(start + 1, len(lines)) if MOCHA_TEST.match(lines[index])]
    failures = []
    for index, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        body = lines[index + 1 : min(end, index + BLOCK_LIMIT)]
        names, body = mocha_names(str(MOCHA_TEST.match(lines[index]).group(1)), body)  # type: ignore[union-attr]
        exception, message = raised_in(body)
        frames = [found.group(1) for line in body if (found := FRAME.search(line))]
        own = [path for path in frames if "node_modules" not in path]
        file = own[0] if own else None
        test = f"{file} > " + " > ".join(names) if file else " > ".join(names)
        failures.append(
            Failure("test", test, exception, message, paths=merge_paths(reversed(own)), file=file)
        )
    return Found(tuple(failures), counted=counted, ran=True)
