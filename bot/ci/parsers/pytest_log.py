"""pytest's terminal output: progress, sections, the short summary, collection errors, xdist, reruns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from bot.ci.failures import Category, Failure, Found, cut, merge_paths, test_key
from bot.ci.parsers import tracebacks
from bot.ci.parsers.pytest_faults import fault_failures, internal_errors, usage_errors
from bot.ci.parsers.pytest_section import Section, is_head, read_section

SESSION = re.compile(r"^=+ test session starts(?: \(.{0,80}\))? =+$")
BANNER = re.compile(
    r"^=+ (FAILURES|ERRORS|short test summary info|warnings summary(?: \(final\))?|PASSES|XFAILURES"
    r"|slowest .{0,40}durations) =+$"
)
END = re.compile(r"^=* ?(?:\d.{0,200}|no tests ran) in \d[\d.]{0,12}s(?: \(.{1,30}\))? ?=*$")
COUNT = re.compile(r"(\d{1,9}) (failed|errors?|passed|skipped|xfailed|xpassed|deselected|warnings?|rerun)")
PROGRESS_XDIST = re.compile(r"^\[gw\d{1,4}\] (?:\[ {0,2}\d{1,3}%\] )?(PASSED|FAILED|ERROR|RERUN) (\S.*?) ?$")
PROGRESS = re.compile(r"^(\S.*?) (PASSED|FAILED|ERROR|RERUN)(?: +\[ {0,2}\d{1,3}%\])?$")
SUMMARY = re.compile(r"^(FAILED|ERROR|SUBFAIL(?:ED)?)(?:[\[(].{0,300}?[\])])? (\S.*)$")
CRASHED = re.compile(r"worker '(gw\d{1,4})' crashed while running '([^'\n]{1,600})'")
NODE = re.compile(r"^[^\s:][^\n:]{0,400}\.\w{1,6}(?:::|$)")
NAMES_LIMIT = 4_000
CRASH_MESSAGE = "the worker process crashed while running this test"
CARES = ("FAILED", "ERROR", "PASSED", "crashed while running")


@dataclass(slots=True)
class Session:
    """What was read of one run of pytest so far."""

    sections: list[Section] = field(default_factory=list)
    summary: list[tuple[str, str, str]] = field(default_factory=list)
    progress: dict[str, str] = field(default_factory=dict)
    crashed: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    ended: bool = False


def parse(lines: Sequence[str]) -> Found:
    """Return the failures of all pytest runs in a log."""
    extra = [*usage_errors(lines), *internal_errors(lines)]
    if any(SESSION.match(line) or BANNER.match(line) for line in lines if line.startswith("=")):
        return finish(read_sessions(lines), extra, lines)
    alone = read_without_banners(lines)
    return Found(tuple(extra)) if alone is None else finish([alone], extra, lines)


def finish(sessions: Sequence[Session], extra: Sequence[Failure], lines: Sequence[str]) -> Found:
    """Join the runs of one log."""
    failures = [failure for session in sessions for failure in session_failures(session)]
    killed = not any(session.ended for session in sessions)
    faults = fault_failures(lines) if killed or not failures else []
    number = sum(
        session.counts.get("failed", 0) + session.counts.get("error", 0)
        for session in sessions
        if session.ended
    )
    failed = {failure.key for failure in failures}
    passed = {
        test_key(name) for session in sessions for name, how in session.progress.items() if how == "PASSED"
    }
    return Found(
        failures=(*failures, *faults, *extra),
        passed=frozenset(passed - failed),
        counted=None if killed else number,
        ran=True,
    )


def read_sessions(lines: Sequence[str]) -> list[Session]:
    """Split a log into pytest runs and read each.

    A section's head after the summary's banner shows that a test printed that banner: the list goes on.
    """
    sessions = [Session()]
    part = listing = ""
    position = 0
    while position < len(lines):
        line = lines[position]
        if line.startswith("=") or (line[:1].isdigit() and " in " in line):
            part = turn(line, part, sessions)
            listing = part if part in ("FAILURES", "ERRORS") else "" if part == "progress" else listing
        elif listing and part in ("FAILURES", "ERRORS", "summary") and is_head(line):
            section, position = read_section(lines, position, listing == "ERRORS")
            if len(sessions[-1].sections) < NAMES_LIMIT:
                sessions[-1].sections.append(section)
            part = listing
            continue
        elif part == "summary":
            read_summary_line(line, sessions[-1])
        else:
            read_progress_line(line, sessions[-1])
        position += 1
    return [session for session in sessions if has_content(session)]


def has_content(session: Session) -> bool:
    """Say whether anything was read of a run."""
    return bool(session.sections or session.summary or session.progress or session.crashed or session.ended)


def turn(line: str, part: str, sessions: list[Session]) -> str:
    """Return the part of the output that a banner opens."""
    if SESSION.match(line):
        if has_content(sessions[-1]):
            sessions.append(Session())
        return "progress"
    banner = BANNER.match(line)
    if banner:
        name = banner.group(1)
        return "summary" if name.startswith("short") else name if name in ("FAILURES", "ERRORS") else "other"
    if END.match(line) and (COUNT.search(line) or "no tests ran" in line):
        read_counts(line, sessions[-1])
        return "end"
    return part


def read_counts(line: str, session: Session) -> None:
    """Read pytest's last line."""
    session.ended = True
    for number, word in COUNT.findall(line):
        key = "error" if word.startswith("error") else word
        session.counts[key] = session.counts.get(key, 0) + int(number)


def read_summary_line(line: str, session: Session) -> None:
    """Read one line of the short summary."""
    if len(session.summary) >= NAMES_LIMIT:
        return
    found = SUMMARY.match(line) if line.startswith(("FAILED", "ERROR", "SUBFAIL")) else None
    if found:
        name, message = split_summary(found.group(2))
        session.summary.append((found.group(1), name, message))


def split_summary(text: str) -> tuple[str, str]:
    """Split `id - message`; parameters of an id may hold ` - ` themselves."""
    bracket, dash = text.find("["), text.find(" - ")
    if bracket != -1 and (dash == -1 or bracket < dash):
        end = text.find("] - ", bracket)
        if end != -1:
            return text[: end + 1], text[end + 4 :]
        if text.rstrip().endswith("]") or dash == -1:
            return text.strip(), ""
    name, _, message = text.partition(" - ")
    return name.strip(), message.strip()


def read_progress_line(line: str, session: Session) -> None:
    """Read `path::test FAILED [ 45%]`, its xdist form, and crashed workers."""
    if "::" not in line:
        return
    crashed = CRASHED.search(line) if "crashed while running" in line else None
    if crashed:
        session.crashed.append(crashed.group(2))
        return
    found = PROGRESS_XDIST.match(line) if line.startswith("[gw") else None
    if found:
        session.progress[found.group(2)] = found.group(1)
    elif line.endswith(("PASSED", "FAILED", "ERROR", "RERUN", "%]")):
        found = PROGRESS.match(line)
        if found and "::" in found.group(1) and NODE.match(found.group(1)):
            session.progress[found.group(1)] = found.group(2)


def read_without_banners(lines: Sequence[str]) -> Session | None:
    """Read a log that lost its front: progress lines alone, or a bare summary."""
    session = Session()
    for line in lines:
        if any(word in line for word in CARES):
            read_progress_line(line, session)
            if line.startswith(("FAILED ", "ERROR ")) and "::" in line:
                name = split_summary(line.split(" ", 1)[1])[0]
                if NODE.match(name):
                    read_summary_line(line, session)
        elif " in " in line and END.match(line):
            turn(line, "", [session])
    return session if has_content(session) else None


def session_failures(session: Session) -> list[Failure]:
    """Join the summary's names with what the sections say about them."""
    waiting = list(session.sections)
    failures = []
    for word, name, message in dict.fromkeys(session.summary):
        failures.append(from_summary(word, name, message, take_section(waiting, name, word == "ERROR")))
    named = {failure.key for failure in failures}
    for name, how in session.progress.items():
        if how in ("FAILED", "ERROR") and not session.summary and test_key(name) not in named:
            failures.append(from_summary(how, name, "", take_section(waiting, name, how == "ERROR")))
    for name in session.crashed:
        if test_key(name) not in named:
            failures.append(Failure("crash", name, "WorkerCrashed", CRASH_MESSAGE, file=name.split("::")[0]))
    failures += [from_section(section) for section in waiting if not section.teardown]
    return failures


def take_section(waiting: list[Section], name: str, error: bool) -> Section | None:
    """Take the section of a test: same tail of the name, and the same file where several share the tail."""
    path, _, tail = name.partition("::")
    head, bracket, rest = tail.partition("[")
    title = head.replace("::", ".") + bracket + rest or path
    fitting = [section for section in waiting if section.title == title]
    fitting = fitting or [
        section for section in waiting if section.title.startswith((f"{title} (", f"{title} ["))
    ]
    fitting = fitting or [section for section in waiting if section.title == path and not section.collecting]
    fitting = [section for section in fitting if section.error == error] or fitting
    in_file = [section for section in fitting if any(same_file(seen, path) for seen in section.paths)]
    chosen = next(iter(in_file or fitting), None)
    if chosen:
        waiting.remove(chosen)
    return chosen


def same_file(seen: str, path: str) -> bool:
    """Say whether a path of a traceback is this file."""
    return seen == path or seen.endswith("/" + path)


def from_summary(word: str, name: str, message: str, section: Section | None) -> Failure:
    """Return one failure of the summary, with its section's details where there is one."""
    path, _, tail = name.partition("::")
    raised = tracebacks.raised_in(message) if message else None
    exception, text = raised or (None, message)
    category: Category = "test" if tail else "collection"
    if CRASHED.search(message):
        return Failure("crash", name, "WorkerCrashed", CRASH_MESSAGE, paths=(path,), file=path)
    if section is None:
        return Failure(category, name, exception, cut(text), paths=(path,), file=path)
    return Failure(
        category,
        name,
        section.exception or exception,
        section.message or cut(text),
        section.detail,
        merge_paths([path], section.paths),
        path,
        section.line,
        section.outer,
    )


def from_section(section: Section) -> Failure:
    """Return a failure that only a section tells: the log was cut before the summary."""
    name = section.title
    if not section.collecting:
        files = [path for path in section.paths if "test" in path.rpartition("/")[2]]
        head, bracket, rest = section.title.partition("[")
        tail = head.replace(".", "::") + bracket + rest
        name = f"{files[0]}::{tail}" if files else section.title
    return Failure(
        "collection" if section.collecting else "test",
        name,
        section.exception,
        section.message,
        section.detail,
        section.paths,
        name.split("::")[0],
        section.line,
        section.outer,
    )
