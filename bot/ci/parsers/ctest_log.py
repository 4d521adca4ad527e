"""ctest's closing list, and googletest's `[  FAILED  ]` lines."""

import re
from collections.abc import Sequence

from bot.ci.failures import Category, Failure, Found, cut, test_key

LIST_HEAD = "The following tests FAILED:"
ENTRY = re.compile(r"^\s{0,10}\d{1,7} - (\S{1,300}) \((.{1,60}?)\)(?: +\S.{0,200})?$")
SUMMARY = re.compile(r"^\d{1,3}% tests passed, (\d{1,7}) tests? failed out of \d{1,7}")
GTEST_FAILED = re.compile(r"^\[ {2}FAILED {2}\] (\S{1,300}?)(?:, where .{1,300})?(?: \(\d{1,9} ms\))?$")
GTEST_OK = re.compile(r"^\[ {7}OK \] (\S{1,300}?)(?: \(\d{1,9} ms\))?$")
GTEST_RUN = re.compile(r"^\[ RUN {6}\] (\S{1,300})$")
GTEST_COUNT = re.compile(r"^ {0,3}(\d{1,6}) FAILED TESTS?$")
PLACE = re.compile(r"^(?:\d{1,7}: )?(\S{1,300}\.(?:cc|cpp|cxx|cu|h|hpp|hip)):(\d{1,7}): Failure$")
PREFIX = re.compile(r"^\d{1,7}: ")


def parse(lines: Sequence[str]) -> Found:
    """Return the failing tests of ctest; where it ran googletest with output, those by name."""
    plain = [PREFIX.sub("", line, count=1) if line[:1].isdigit() else line for line in lines]
    inner = parse_gtest(plain)
    outer = parse_list(lines)
    if not outer.ran:
        return inner
    named = [failure for failure in outer.failures if failure.category != "test" or not inner.failures]
    counted = outer.counted if not inner.failures else None
    return Found((*inner.failures, *named), inner.passed, counted, ran=True)


def parse_list(lines: Sequence[str]) -> Found:
    """Return the entries of ctest's closing list."""
    counts = [
        int(found.group(1)) for line in lines if "tests passed" in line and (found := SUMMARY.match(line))
    ]
    if not counts:
        return Found()
    failures = []
    for position, line in enumerate(lines):
        if line.strip() == LIST_HEAD:
            for entry in lines[position + 1 : position + 2_000]:
                found = ENTRY.match(entry)
                if not found:
                    break
                failures.append(from_entry(found.group(1), found.group(2)))
    return Found(tuple(failures), counted=sum(counts), ran=True)


def from_entry(name: str, how: str) -> Failure:
    """Return one entry of the list; ctest says how each ended."""
    category: Category = "test"
    if how == "Timeout":
        category = "timeout"
    elif how != "Failed":
        category = "crash" if how.isupper() or "Exception" in how else "test"
    return Failure(
        category, name, None if how == "Failed" else how, "" if how == "Failed" else f"ended by {how}"
    )


def parse_gtest(lines: Sequence[str]) -> Found:
    """Return the failing tests of googletest."""
    current = ""
    places: dict[str, tuple[str, int, str]] = {}
    failed: dict[str, None] = {}
    passed = set()
    for position, line in enumerate(lines):
        if line.startswith("[ RUN"):
            run = GTEST_RUN.match(line)
            current = run.group(1) if run else current
        elif line.startswith("[  FAILED"):
            found = GTEST_FAILED.match(line)
            if found and "." in found.group(1) and not found.group(1).isdigit():
                failed[found.group(1)] = None
        elif line.startswith("[       OK"):
            ok = GTEST_OK.match(line)
            passed.add(test_key(ok.group(1)) if ok else "")
        elif line.endswith(": Failure"):
            place = PLACE.match(line)
            if place and current:
                text = " ".join(part.strip() for part in lines[position + 1 : position + 4] if part.strip())
                places.setdefault(current, (place.group(1), int(place.group(2)), cut(text)))
    failures = [gtest_failure(name, places.get(name)) for name in failed]
    return Found(
        tuple(failures), frozenset(passed - {""}), len(failed) if failed else None, ran=bool(failed or passed)
    )


def gtest_failure(name: str, place: tuple[str, int, str] | None) -> Failure:
    """Return one failing googletest."""
    if place is None:
        return Failure("test", name, "Failure", "")
    path, line, text = place
    return Failure("test", name, "Failure", text, paths=(path,), file=path, line=line)
