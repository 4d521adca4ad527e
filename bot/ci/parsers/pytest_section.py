"""One section of pytest's FAILURES or ERRORS: which exception, through which files, and what it wraps."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bot.ci.clean import strip_process
from bot.ci.failures import cut, merge_paths
from bot.ci.parsers import tracebacks
from bot.ci.signature import Signature, is_generic

CAPTURED = re.compile(r"^-+ Captured (?:stdout|stderr|log)(?: (?:call|setup|teardown))? -+$")
E_LINE = re.compile(r"^E(?: {3,}(.*)|\s*)$")
LOCATION = re.compile(r"^((?:[A-Za-z]:)?[^\s:][^:\n]{0,400}\.\w{1,6}):(\d{1,7}):(?: (.*))?$")
CLASS_ONLY = re.compile(r"^(?:[A-Za-z_]\w{0,80}\.){0,12}[A-Za-z_]\w{0,80}$")
TITLE = re.compile(r"^(ERROR at setup of|ERROR at teardown of|ERROR collecting) (.*)$")
SECTION_LIMIT = 20_000
DETAIL_LINES = 3


@dataclass(frozen=True, slots=True)
class Section:
    """What one section says."""

    title: str
    error: bool
    collecting: bool
    teardown: bool
    exception: str | None
    message: str
    detail: str
    paths: tuple[str, ...]
    line: int | None
    outer: str | None


def read_section(lines: Sequence[str], start: int, error: bool) -> tuple[Section, int]:
    """Read the section whose head is at `start`; return it and the line after it."""
    end = start + 1
    while end < len(lines) and end - start < SECTION_LIMIT and not ends(lines[end]):
        end += 1
    return make_section(lines[start], lines[start + 1 : end], error), end


def ends(line: str) -> bool:
    """Say whether a line opens the next section or part."""
    if line.startswith("="):
        return line.endswith("=") and len(line) > 20
    return is_head(line)


def is_head(line: str) -> bool:
    """Say whether a line is a section's head (`___ name ___`), not the ruler between frames."""
    if not line.startswith("_") or not line.endswith("_"):
        return False
    middle = line.strip("_")
    return middle.startswith(" ") and middle.endswith(" ") and bool(middle.replace("_", "").strip())


def make_section(head: str, body: Sequence[str], error: bool) -> Section:
    """Return what a section says."""
    title = head.strip("_").strip() if head.startswith("_") else head
    kind = TITLE.match(title)
    own, captured = split_captured(body)
    exception, message, detail = raised_at_the_end(own)
    paths, line = locations(own)
    outer = None
    if Signature(exception, message).is_wrapper:
        cause = tracebacks.cause_among(tracebacks.find_traces([*own, *captured]))
        found = (cause.exception, cause.message) if cause else cause_in_chain(own)
        if found:
            outer = f"{exception}: {message}" if exception else message
            exception, message, detail = *found, ""
            paths = merge_paths(paths, cause.paths if cause else ())
    return Section(
        title=kind.group(2) if kind else title,
        error=error or kind is not None,
        collecting=bool(kind and "collecting" in kind.group(1)),
        teardown=bool(kind and "teardown" in kind.group(1)),
        exception=exception,
        message=message,
        detail=detail,
        paths=paths,
        line=line,
        outer=outer,
    )


def split_captured(body: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a section into its own lines and the output that pytest captured."""
    for position, line in enumerate(body):
        if line.startswith("-") and CAPTURED.match(line):
            return list(body[:position]), [strip_process(line) for line in body[position:]]
    return list(body), []


def raised_at_the_end(own: Sequence[str]) -> tuple[str | None, str, str]:
    """Return class, first line and further lines of the exception that was raised last."""
    block = last_block(own)
    crash = crash_class(own)
    if not block:
        traces = tracebacks.find_traces(own)
        return (traces[-1].exception, traces[-1].message, "") if traces else (crash, "", "")
    raised = tracebacks.raised_in(block[0])
    exception, message = raised or (crash, block[0])
    if raised and crash and not crash.endswith(raised[0].rpartition(".")[2]):
        exception, message = crash, block[0]
    if exception is None and message.startswith("assert "):
        exception = "AssertionError"
    rest = [
        line for line in block[1:] if line.strip() and not line.lstrip().startswith(("+  where", "+ where"))
    ]
    detail = " / ".join(line.strip() for line in rest[:DETAIL_LINES])
    return exception, cut(fuller(exception, message, detail)), cut(detail)


def fuller(exception: str | None, message: str, detail: str) -> str:
    """Return a message that names its cause: one that ends openly or says nothing takes its further lines."""
    if detail and (message.endswith(":") or is_generic(exception, message)):
        return f"{message} {detail}"
    return message


def cause_in_chain(own: Sequence[str]) -> tuple[str, str] | None:
    """Return what an earlier exception of the section's own chain said, where the last one only wraps it."""
    for line in reversed(own):
        found = E_LINE.match(line) if line.startswith("E") else None
        raised = tracebacks.raised_in((found.group(1) or "").strip()) if found else None
        if raised and not Signature(*raised).is_wrapper:
            return raised
    return None


def crash_class(own: Sequence[str]) -> str | None:
    """Return the class that the last `path:LINE: Class` names."""
    for line in reversed(own):
        found = LOCATION.match(line)
        if found and found.group(3) and CLASS_ONLY.match(found.group(3)):
            return found.group(3)
    return None


def last_block(own: Sequence[str]) -> list[str]:
    """Return the last run of `E` lines, without their mark."""
    block: list[str] = []
    ended = False
    for line in own:
        found = E_LINE.match(line) if line.startswith("E") else None
        if found is None:
            ended = bool(block)
            continue
        if ended:
            block, ended = [], False
        text = (found.group(1) or "").strip()
        if text or block:
            block.append(text)
    return block


def locations(own: Sequence[str]) -> tuple[tuple[str, ...], int | None]:
    """Return the files of the traceback, outermost first, and the line in the last of them."""
    paths: list[str] = []
    number = None
    for line in own:
        found = LOCATION.match(line) or tracebacks.FRAME.match(line)
        if found and " " not in found.group(1).strip():
            paths.append(found.group(1).strip())
            number = int(found.group(2))
    return merge_paths(paths), number
