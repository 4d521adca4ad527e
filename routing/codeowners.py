"""CODEOWNERS as GitHub reads it: three states, invalid lines skipped and reported, the last match wins.

A line that GitHub would not understand is skipped alone, as documented since February 2022. Only `\\n` (or
`\\r\\n`) ends a line: other Unicode separators are text, so that no rule can hide inside a comment.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from routing.index import Index
from routing.patterns import PatternError, compile_pattern
from routing.shadow import LineWarning, Rule, find_warnings

# GitHub does not load a larger file at all.
SIZE_LIMIT_BYTES = 3 * 1024 * 1024
LOCATIONS = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")

OWNER = re.compile(
    r"@[A-Za-z0-9][A-Za-z0-9_-]{0,99}(?:/[A-Za-z0-9_][A-Za-z0-9_.-]{0,254})?"
    r"|[^@\s<>(),;:\"\\]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"
)
# The start of a line that needs a closer look: escapes, blanks, other dialects.
ODD = re.compile(r"[\\\[\]!@^\s\ufeff]|//")
BLANK = re.compile(r"[ \t]+")
GITLAB_SECTION = re.compile(r"\^?\[[^\]]*\](?:\[\d+\])?(?=[ \t]|$)")
GITLAB_OWNER = re.compile(r"@[\w-]*[\w.-]*(?:/[\w.-]+){2,}|@[\w-]+\.[\w.-]*|@@\w+")
MAX_SAID = 80


class State(StrEnum):
    """What the last matching line says: owners, none on purpose (`cleared`), or there is no such line."""

    OWNED = "owned"
    CLEARED = "cleared"
    NO_RULE = "no_rule"


@dataclass(frozen=True, slots=True)
class Match:
    """Who owns one path: the owners as written (with `@`) and the line that says so (None: no rule)."""

    state: State
    owners: tuple[str, ...]
    line: int | None


@dataclass(frozen=True, slots=True)
class LineError:
    """A line that GitHub skips (line 0: the whole file), what kind of fault it is, and what it says."""

    line: int
    kind: str
    says: str


NO_RULE = Match(State.NO_RULE, (), None)


class Codeowners:
    """A parsed file. `match` is made for many paths: what a folder has reached is kept between calls."""

    def __init__(
        self, rules: list[tuple[int, str, tuple[str, ...]]], index: Index, errors: list[LineError]
    ) -> None:
        """Take the rules in order (line, pattern, owners), their index (positions from 1), and the faults."""
        self._rules = rules
        self._index = index
        self._answers: list[Match | None] = [NO_RULE, *([None] * len(rules))]
        self.errors = tuple(errors)

    def __len__(self) -> int:
        return len(self._rules)

    def match(self, path: str) -> Match:
        """Return who owns a path, written from the root without a leading slash."""
        position = self._index.find(path)
        return self._answers[position] or self._answer(position)

    def _answer(self, position: int) -> Match:
        """Make and keep the answer of one rule."""
        line, _, owners = self._rules[position - 1]
        answer = Match(State.OWNED if owners else State.CLEARED, owners, line)
        self._answers[position] = answer
        return answer

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """Return the lines that count, in order."""
        return tuple(Rule(*rule) for rule in self._rules)

    @cached_property
    def warnings(self) -> tuple[LineWarning, ...]:
        """Return what works but hardly as meant: shadowed rules, brackets, a missing blank."""
        return find_warnings(self.rules, self._index)


def parse(text: str) -> Codeowners:
    """Return the parsed file. Never raises: what GitHub would skip is in `errors`."""
    text = text.removeprefix("\ufeff")
    if len(text) > SIZE_LIMIT_BYTES or len(text.encode("utf-8", "replace")) > SIZE_LIMIT_BYTES:
        says = "the file is 3 MB or larger; GitHub does not load it, so nobody owns anything"
        return Codeowners([], Index(), [LineError(0, "too_large", says)])
    return parse_lines(text.replace("\r\n", "\n").split("\n"))


def parse_lines(lines: list[str]) -> Codeowners:
    """Return the parsed file; plain names with owners that were seen before take a short way."""
    reader = Reader([], [], Index(), {"": ()}, set())
    rules, seen, known, is_odd = reader.rules, reader.seen, reader.known, ODD.search
    below, files = reader.index.below, reader.index.files
    for number, line in enumerate(lines, 1):
        if not line or line[0] == "#":
            continue
        head, _, tail = line.partition(" ")
        owners = seen.get(tail)
        if owners is None and known.issuperset(words := tail.split(" ")):
            owners = seen[tail] = tuple(words)
        if owners is None or not head or is_odd(head):
            reader.read(number, line)
            continue
        if "*" in head or "?" in head or "/" not in head[:-1]:
            reader.add(number, head, owners)
            continue
        rules.append((number, head, owners))
        path = head[1:] if head[0] == "/" else head
        if path[-1] == "/":
            below[path[:-1]] = len(rules)
        else:
            below[path] = len(rules)
            folder, _, name = path.rpartition("/")
            files.setdefault(folder, {})[name] = len(rules)
    return Codeowners(rules, reader.index, reader.errors)


@dataclass(frozen=True, slots=True)
class Reader:
    """What was read so far; `seen` are the owners of each valid owners' text, `known` each valid owner."""

    rules: list[tuple[int, str, tuple[str, ...]]]
    errors: list[LineError]
    index: Index
    seen: dict[str, tuple[str, ...]]
    known: set[str]

    def read(self, number: int, line: str) -> None:
        """Read one line of any kind: a rule, a fault, or nothing."""
        line = line.strip(" \t\r")
        if not line or line[0] == "#":
            return
        fault = dialect_fault(line) if line[0] in "!\\[^" else None
        if fault:
            self.errors.append(LineError(number, *fault))
            return
        text, tail = split_line(line)
        try:
            owners = self.seen.get(tail)
            if owners is None:
                owners = self.seen[tail] = parse_owners(tail)
                self.known.update(owners)
        except OwnerError as error:
            self.errors.append(LineError(number, "invalid_owner", str(error)))
        else:
            self.add(number, text, owners)

    def add(self, number: int, text: str, owners: tuple[str, ...]) -> None:
        """Add a rule of any pattern, or the fault of its pattern."""
        try:
            pattern = compile_pattern(text)
        except PatternError as error:
            self.errors.append(LineError(number, "invalid_pattern", f"pattern {shorten(text)}: {error}"))
        else:
            self.rules.append((number, text, owners))
            self.index.add(pattern, len(self.rules))


class OwnerError(ValueError):
    """A word in the owners' place is no owner; the text says which and why."""


def dialect_fault(line: str) -> tuple[str, str] | None:
    """Return kind and words of what other dialects allow at the start of a line and GitHub does not."""
    if line[0] == "!":
        return "negation", "`!` does not exclude paths on GitHub; write a later line without owners instead"
    if line.startswith("\\#"):
        return "escaped_hash", "a pattern cannot start with an escaped `#` on GitHub"
    if GITLAB_SECTION.match(line):
        return (
            "gitlab_section",
            f"{shorten(line)} is a section of GitLab's dialect, which GitHub does not have",
        )
    return None


def split_line(line: str) -> tuple[str, str]:
    """Return pattern and owners' text; a blank that a backslash escapes belongs to the pattern."""
    if "\\" not in line and "\t" not in line:
        text, _, tail = line.partition(" ")
        return text, tail
    start = 0
    while True:
        blank = BLANK.search(line, start)
        if blank is None:
            return line, ""
        before = line[: blank.start()]
        escaped = (len(before) - len(before.rstrip("\\"))) % 2
        if not escaped:
            return before, line[blank.end() :]
        start = blank.start() + 1


def parse_owners(text: str) -> tuple[str, ...]:
    """Return the owners as written; a `#` starts a comment. OwnerError for a word that is no owner."""
    owners = []
    for word in BLANK.split(text.partition("#")[0].strip(" \t")):
        if not word:
            continue
        if not OWNER.fullmatch(word):
            raise OwnerError(owner_fault(word))
        owners.append(word)
    return tuple(owners)


def owner_fault(word: str) -> str:
    """Return what is wrong with a word in the owners' place, and what to do."""
    said = shorten(word)
    if GITLAB_OWNER.fullmatch(word):
        return f"{said} is an owner of GitLab's dialect; GitHub knows @user, @org/team and e-mail addresses"
    if word.endswith("[bot]"):
        return f"{said} is a bot, and bots cannot own code"
    if OWNER.fullmatch(word.strip(",;")):
        return f"{said} is no owner; put blanks, not punctuation, between owners"
    if OWNER.fullmatch(f"@{word}"):
        return f"{said} is no owner; write `@{word}` for a person, or start a comment with `#`"
    return f"{said} is no owner; write @user, @org/team or an e-mail address"


def shorten(text: str) -> str:
    """Return a foreign text in backticks, printable and short."""
    safe = "".join(
        character if character.isprintable() and character != "`" else "?" for character in text[:MAX_SAID]
    )
    return f"`{safe}{'…' if len(text) > MAX_SAID else ''}`"
