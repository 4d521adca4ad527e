"""A changed collective, parallel plan or layout must come with the tests of its parallel path."""

import re
from collections.abc import Iterator

from bot.review.change import Change, FilePatch, Line
from bot.review.models import Finding
from bot.review.python_code import called, places

RULE = "collective-without-test"
SOURCE = "performance patterns: USP communication optimization"
COLLECTIVES = re.compile(
    r"^_?(all_to_all|all_gather|reduce_scatter|all_reduce|broadcast|batch_isend_irecv|send|recv|isend|irecv)"
    r"(_single|_into_tensor|_tensor|_4d|_coalesced|_object)?$"
)
OWNERS = re.compile(r"dist|group|comm|funcol|c10d|torch\.distributed|parallel|^$")
PLAN = re.compile(
    r"(?:SequenceParallel|ContextParallel)(?:In|Out)put\w*\(|\b(?:split|gather|scatter)_(?:dim|idx)\s*="
)
LAYOUT = re.compile(r"(\w{0,60}layout)\s*(?::\s*\w{1,40}\s*)?={1,2}\s*[\"']([A-Za-z_]{2,12})[\"']")
PARALLEL_TEST = re.compile(
    r"distribut|parallel|world_size|torchrun|mp\.spawn|init_process_group|ulysses|\bring\b|nproc|num_gpus"
    r"|multi_?gpu|layout",
    re.IGNORECASE,
)


def check(change: Change) -> Iterator[Finding]:
    """Yield the first such change of each file where no changed test looks at a parallel run."""
    if any(PARALLEL_TEST.search(f"{test.path}\n{test.text}") for test in change.tests):
        return
    for file in change.files:
        if file.is_production_python:
            found = first_collective(file) or first_plan(file) or first_layout(file)
            if found:
                yield finding(file, *found)


def first_collective(file: FilePatch) -> tuple[int, str] | None:
    """Return the line and the name of the first collective on an added line."""
    for place in places(file):
        owner, _, name = called(place.node).rpartition(".")
        if COLLECTIVES.match(name) and OWNERS.search(owner):
            return place.line, f"`{name}` is added or changed"
    return None


def first_plan(file: FilePatch) -> tuple[int, str] | None:
    """Return the first added line of a plan that was there before with other entries."""
    before = {entry(line) for line in file.removed if PLAN.search(line)}
    after = [line for line in added_lines(file) if PLAN.search(line.text)]
    moved = [line for line in after if entry(line.text) not in before]
    if not before or not moved:
        return None
    return moved[0].number, "Where the sequence is split or gathered is changed"


def entry(line: str) -> str:
    """Return a line without its comment and the blanks around it."""
    return line.partition("  #")[0].strip()


def first_layout(file: FilePatch) -> tuple[int, str] | None:
    """Return the first added line that gives a layout another value than the removed lines did."""
    before: dict[str, str] = {match[1]: match[2] for line in file.removed for match in LAYOUT.finditer(line)}
    for line in added_lines(file):
        for name, value in LAYOUT.findall(line.text):
            if before.get(name, value) != value:
                return line.number, f"`{name}` changes from {before[name]} to {value}"
    return None


def added_lines(file: FilePatch) -> Iterator[Line]:
    """Yield the added lines from top to bottom."""
    yield from (line for hunk in file.hunks for line in hunk.lines if line.added)


def finding(file: FilePatch, line: int, what: str) -> Finding:
    """Describe one change of the communication."""
    return Finding(
        rule=RULE,
        severity="medium",
        path=file.path,
        line=line,
        says=f"{what} and no test of this pull request covers a parallel run.",
        do=(
            "Add a test over two processes that compares with the single-process result, with uneven heads "
            "and strided layouts; say how bytes and collectives change."
        ),
        source=SOURCE,
    )
