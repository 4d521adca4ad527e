"""unittest's output: `FAIL: test_x (module.Class.test_x)` blocks, as Django and PyTorch print them too."""

import re
from collections.abc import Sequence

from bot.ci.failures import Category, Failure, Found, test_key
from bot.ci.parsers import tracebacks

HEAD = re.compile(r"^(FAIL|ERROR): (\w{1,200})(?: \(([\w.<>]{1,300})\))?(?: \[.{0,300}\]| \(.{0,300}\))?$")
SUBTEST = re.compile(r"\((?:[a-z_]\w{0,40}=.{0,200})\)$|\[.{0,200}\]$")
END = re.compile(r"^FAILED \((.{1,200})\)$")
COUNT = re.compile(r"(failures|errors|unexpected successes)=(\d{1,7})")
RAN = re.compile(r"^Ran \d{1,8} tests? in [\d.]{1,12}s$")
PASSED = re.compile(r"^(\w{1,200}) \(([\w.<>]{1,300})\)(?: \.\.\.|\n)? ?\.\.\. ok$")
BLOCK_LIMIT = 2_000


def parse(lines: Sequence[str]) -> Found:
    """Return the failures of all unittest runs in a log."""
    if not any(RAN.match(line) for line in lines if line.startswith("Ran ")):
        return Found()
    failures = []
    counted = 0
    for position, line in enumerate(lines):
        if line.startswith(("FAIL: ", "ERROR: ")) and ruled(lines, position):
            failures.append(read_block(lines, position))
        elif line.startswith("FAILED ("):
            counted += sum(int(number) for _, number in COUNT.findall(line))
    passed = {test_key(test_name(name, where, ())) for name, where in passes(lines)}
    failed = {failure.key for failure in failures}
    return Found(tuple(failures), frozenset(passed - failed), counted, ran=True)


def ruled(lines: Sequence[str], position: int) -> bool:
    """Say whether a head stands between unittest's rulers."""
    after = lines[position + 1 : position + 4]
    return any(line.startswith("-----") and not line.strip("-") for line in after)


def read_block(lines: Sequence[str], position: int) -> Failure:
    """Return the failure whose head is at a line."""
    found = HEAD.match(lines[position])
    name = found.group(2) if found else lines[position].partition(": ")[2].split(" ")[0]
    where = (found.group(3) if found else None) or ""
    end = position + 1
    while end < len(lines) and end - position < BLOCK_LIMIT and not lines[end].startswith("====="):
        head = lines[end].startswith(("FAIL: ", "ERROR: ")) and ruled(lines, end)
        if head or (lines[end].startswith("Ran ") and RAN.match(lines[end])):
            break
        end += 1
    traces = tracebacks.find_traces(lines[position:end])
    trace = tracebacks.cause_among(traces) or (traces[-1] if traces else None)
    paths = trace.paths if trace else ()
    loading = "unittest.loader" in where or name.startswith("setUpModule")
    category: Category = "collection" if loading else "test"
    return Failure(
        category=category,
        test=test_name(name, where, paths),
        exception=trace.exception if trace else None,
        message=trace.message if trace else "",
        paths=paths,
        file=next((path for path in paths if "test" in path), None),
        line=trace.line if trace else None,
    )


def passes(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return name and place of each test reported ok."""
    found = [PASSED.match(line) for line in lines if line.endswith("... ok")]
    return [(match.group(1), match.group(2)) for match in found if match]


def test_name(name: str, where: str, paths: Sequence[str]) -> str:
    """Return `path::Class::test` from unittest's dotted place."""
    parts = [part for part in where.split(".") if part]
    if parts and parts[-1] == name:
        parts = parts[:-1]
    first_class = next((index for index, part in enumerate(parts) if part[:1].isupper()), len(parts))
    module, classes = parts[:first_class], parts[first_class:]
    if module in ([], ["__main__"]):
        files = [path for path in paths if "test" in path.rpartition("/")[2]]
        head = files[0].removeprefix("./") if files else ""
    else:
        head = "/".join(module) + ".py"
    return "::".join([part for part in (head, *classes, name) if part])
