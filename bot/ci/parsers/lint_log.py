"""Linters, formatters, type checkers and pre-commit: one failure for each finding."""

import re
from collections.abc import Iterable, Sequence

from bot.ci.failures import Failure, cut

FINDINGS_LIMIT = 200
RULE = r"([A-Z]{1,5}\d{2,5}|[a-z][\w-]{2,60}(?:/[\w-]{1,60})?)"
FLAKE = re.compile(r"^([\w./\\@+-]{1,300}\.\w{1,6}):(\d{1,7}):(\d{1,6}):? ([A-Z]{1,5}\d{2,5}) (.{1,300})$")
RUFF_HEAD = re.compile(r"^([A-Z]{1,5}\d{3,4}|unformatted:)(?: \[\*\])? (.{1,300})$")
RUFF_AT = re.compile(r"^\s{0,6}--> ([\w./\\@+-]{1,300}):(\d{1,7}):\d{1,6}$")
ESLINT = re.compile(r"^\s{1,10}(\d{1,7}):(\d{1,6})\s{1,12}error\s{1,6}(.{1,300}?)\s{2,40}(@?[\w/-]{2,80})$")
ESLINT_FILE = re.compile(r"^(/?[\w./\\@+ -]{1,300}\.(?:[cm]?[jt]sx?|vue|svelte))$")
REFORMAT = re.compile(
    r"^(?:error: )?(?:would reformat|Would reformat:?|Would reformat) ([\w./\\@+-]{1,300})$"
)
PRETTIER = re.compile(r"^\[warn\] ([\w./\\@+-]{1,300}\.\w{1,8})$")
SPELL = re.compile(r"^([\w./\\@+-]{1,300}):(\d{1,7}): (.{1,80} ==> .{1,120})$")
PRECOMMIT = re.compile(r"^(\S.{0,100}?)\.{3,}Failed$")
SHELLCHECK = re.compile(r"^In ([\w./\\@+-]{1,300}) line (\d{1,7}):$")
SC_CODE = re.compile(r"(SC\d{4}) \((?:error|warning|info|style)\): (.{1,300})$")
COVERAGE = re.compile(r"^(?:FAIL(?:ED)?:? )?(?:Required test coverage|Coverage failure: total) (.{1,200})$")
PYLINT = re.compile(r"^([\w./\\@+-]{1,300}\.py):(\d{1,7}):\d{1,6}: ([CRWEF]\d{4}): (.{1,300})$")


def parse(lines: Sequence[str]) -> tuple[Failure, ...]:
    """Return one failure for each finding; further ones past a limit become one that says so."""
    found: dict[tuple[str | None, str | None, str], Failure] = {}
    for failure in findings(lines):
        if len(found) >= FINDINGS_LIMIT:
            return (
                *found.values(),
                Failure("unread", message=f"more than {FINDINGS_LIMIT} findings of linters"),
            )
        found.setdefault((failure.file, failure.exception, failure.message), failure)
    named = [failure for failure in found.values() if failure.file]
    return tuple(named or found.values())


def findings(lines: Sequence[str]) -> Iterable[Failure]:
    """Return every finding in order."""
    file = ""
    for position, line in enumerate(lines):
        if len(line) > 1_000 or not line.strip():
            continue
        if line[0] == "/" or line[0].isalnum():
            heading = ESLINT_FILE.match(line)
            file = heading.group(1) if heading else file
        failure = one_line(line) or eslint(line, file) or placed_below(lines, position)
        if failure:
            yield failure


def one_line(line: str) -> Failure | None:
    """Return a finding that one line tells in full."""
    if ":" in line:
        found = FLAKE.match(line) or PYLINT.match(line)
        if found:
            rule, text = found.groups()[-2:]
            return lint(found.group(1), int(found.group(2)), rule, text.removeprefix("[*] "))
        spelled = SPELL.match(line) if "==>" in line else None
        if spelled:
            return lint(spelled.group(1), int(spelled.group(2)), "spelling", spelled.group(3))
    if "reformat" in line:
        shaped = REFORMAT.match(line)
        return lint(shaped.group(1), None, "format", "would be reformatted") if shaped else None
    if line.startswith("[warn]"):
        pretty = PRETTIER.match(line)
        return lint(pretty.group(1), None, "format", "is not formatted") if pretty else None
    if line.endswith("Failed"):
        hook = PRECOMMIT.match(line)
        return Failure("lint", None, "hook", cut(hook.group(1))) if hook else None
    covered = COVERAGE.match(line) if "overage" in line else None
    return Failure("lint", None, "coverage", cut(covered.group(1))) if covered else None


def eslint(line: str, file: str) -> Failure | None:
    """Return one of eslint's indented lines under a file's name."""
    if not file or "error" not in line:
        return None
    found = ESLINT.match(line)
    return lint(file, int(found.group(1)), found.group(4), found.group(3).strip()) if found else None


def placed_below(lines: Sequence[str], position: int) -> Failure | None:
    """Return a finding whose place (ruff) or rule (shellcheck) stands on a later line."""
    head = RUFF_HEAD.match(lines[position])
    if head and position + 1 < len(lines):
        place = RUFF_AT.match(lines[position + 1])
        return (
            lint(place.group(1), int(place.group(2)), head.group(1).rstrip(":"), head.group(2))
            if place
            else None
        )
    shell = SHELLCHECK.match(lines[position]) if lines[position].startswith("In ") else None
    if shell:
        codes = (SC_CODE.search(line) for line in lines[position + 1 : position + 6])
        code = next((found for found in codes if found), None)
        return lint(shell.group(1), int(shell.group(2)), code.group(1), code.group(2)) if code else None
    return None


def lint(path: str, line: int | None, rule: str, text: str) -> Failure:
    """Return one finding at a place."""
    return Failure("lint", None, rule, cut(text), paths=(path,), file=path, line=line)
