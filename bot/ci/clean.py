"""From raw log text to plain lines: colours, time marks, group marks and process prefixes are taken away.

Every pattern is bounded: a hostile line costs time linear in its length.
"""

import re

LINE_LIMIT = 4_000
FIRST_LINES = 50_000
LAST_LINES = 150_000
ESCAPES = re.compile(
    r"\x1b_[^\x07\x1b]{0,80}\x07"  # Buildkite's time marks
    r"|\x1b\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)"  # operating system commands: titles, links
    r"|\x1b\[[0-9;?]{0,40}[ -/]?[@-~]"  # colours and cursor moves
    r"|\x1b[()][0-9A-Za-z]"
)
STAMP = re.compile(
    r"^(?:\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z ?"  # GitHub Actions
    r"|\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z\] ?"  # Buildkite agents that print times
    r"|_?bk;t=\d{8,16}\s?)"  # what copying a Buildkite log leaves behind
)
COPIED = re.compile(r"Actions for L\d{1,7}$")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
DOCKER_STEP = re.compile(r"^#\d{1,4} \d{1,7}\.\d{1,3} ")
PROCESS = re.compile(r"^\([A-Za-z][\w.:-]{0,60}(?: [\w.=:-]{1,40}){0,4} pid=\d{1,9}\) ?")
BARE_PROCESS = re.compile(r"^\(pid=\d{1,9}[^)\n]{0,40}\) ?")
RANK = re.compile(r"^\[rank\d{1,5}\]: ?")
LEVEL = re.compile(
    r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL"
    r"|FATAL) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? \[[^\]\n]{1,100}\] ?"
)


def clean_line(line: str) -> str:
    """Return one line as a reader sees it, cut to LINE_LIMIT characters."""
    if "\x1b" in line:
        line = ESCAPES.sub("", line)
    if "\r" in line:
        line = last_overwrite(line)
    line = strip_stamps(line)
    if "Actions for L" in line:
        line = COPIED.sub("", line)
    line = CONTROL.sub("", line[:LINE_LIMIT])
    return line.rstrip()


def last_overwrite(line: str) -> str:
    """Return what a terminal shows of a line whose progress bar overwrote itself."""
    parts = [part for part in line.split("\r") if part]
    return parts[-1] if parts else ""


def strip_stamps(line: str) -> str:
    """Take away up to three time stamps at the front; runners nest them."""
    for _ in range(3):
        found = STAMP.match(line)
        if found is None:
            return line
        line = line[found.end() :]
    return line


def clean_lines(text: str) -> list[str]:
    """Return the plain lines of a raw log; of a log of very many short lines the first and the last ones."""
    lines = text.split("\n")
    if len(lines) > FIRST_LINES + LAST_LINES:
        lines = lines[:FIRST_LINES] + lines[-LAST_LINES:]
    return [clean_line(line) for line in lines]


def strip_process(line: str) -> str:
    """Take away what processes put before their lines: rank, process name, log level, Docker step."""
    for pattern in (DOCKER_STEP, RANK, PROCESS, BARE_PROCESS, LEVEL):
        if line[:1] in "(#[DIWECF":
            line = pattern.sub("", line, count=1)
    return line
