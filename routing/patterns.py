"""CODEOWNERS patterns, segment by segment: compiled once, matched in time linear in pattern and path.

The rules are those of GitHub's "About code owners" page. What the page leaves open follows hmarr/codeowners'
published test cases: a name without an inner slash matches at any depth; a pattern without a trailing
slash covers the path itself and all below it; `dir/*` covers one level only; brackets are plain characters.
Public test suites decide one case two ways: `foo/**/` against the file `foo/bar`; here it matches.
"""

import re
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple


class PatternError(ValueError):
    """The pattern is one that GitHub's rules have no meaning for; the text says why."""


class Wild(Enum):
    """Segments that are wildcards as a whole: `*` is any one name, `**` any number of folders."""

    ANY = "*"
    DEEP = "**"


class End(Enum):
    """What a pattern covers once its segments are used up: the path itself, what lies below it, or both."""

    SELF = "self"
    BELOW = "below"
    BOTH = "both"


class Part(NamedTuple):
    """A piece of a segment without stars: plain text, or an expression of fixed width where it holds `?`.

    `sample` is a text that an expression fits.
    """

    text: str | None
    width: int
    expression: re.Pattern[str] | None = None
    sample: str = ""

    def example(self) -> str:
        """Return a text that the part fits."""
        return self.sample if self.text is None else self.text

    def fits(self, name: str, start: int, end: int) -> bool:
        """Say whether the part fits exactly between two positions."""
        if self.text is not None:
            return name.startswith(self.text, start)
        return self.expression is not None and self.expression.fullmatch(name, start, end) is not None

    def search(self, name: str, start: int, end: int) -> int:
        """Return the leftmost position where the part fits, or -1."""
        if self.text is not None:
            return name.find(self.text, start, end)
        found = self.expression.search(name, start, end) if self.expression else None
        return found.start() if found else -1


class Glob:
    """A segment with `*` or `?` inside. Greedy leftmost search part by part, so nothing is tried twice."""

    __slots__ = ("ends", "middle", "parts", "shortest", "suffix")

    def __init__(self, parts: Sequence[Part]) -> None:
        """Take the parts between the stars; a single part stands for a segment with `?` but no star."""
        self.parts = tuple(parts)
        first, last = parts[0], parts[-1]
        self.ends = (first, last) if len(parts) > 1 else None
        self.middle = tuple([part for part in parts[1:-1] if part.width]) if len(parts) > 2 else ()
        self.shortest = sum([part.width for part in parts])
        self.suffix = last.text if len(parts) == 2 and not first.width else None

    def matches(self, name: str) -> bool:
        """Say whether the whole name fits."""
        length = len(name)
        if length < self.shortest:
            return False
        if self.ends is None:
            return length == self.shortest and self.parts[0].fits(name, 0, length)
        first, last = self.ends
        start, end = first.width, length - last.width
        if not first.fits(name, 0, start) or not last.fits(name, end, length):
            return False
        for part in self.middle:
            found = part.search(name, start, end)
            if found < 0:
                return False
            start = found + part.width
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Glob) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)


Segment = str | Glob | Wild


class Pattern(NamedTuple):
    """A compiled pattern: its segments from the repository's root on, and what it covers at their end."""

    segments: tuple[Segment, ...]
    end: End

    def literal_prefix(self) -> tuple[str, ...]:
        """Return the leading segments that hold no wildcard."""
        prefix: list[str] = []
        for segment in self.segments:
            if not isinstance(segment, str):
                break
            prefix.append(segment)
        return tuple(prefix)

    def matches(self, path: str) -> bool:
        """Say whether the pattern covers a file path (no leading slash)."""
        names = path.split("/")
        reached = close(self.segments, {0})
        for depth, name in enumerate(names):
            if len(self.segments) in reached and depth and self.end is not End.SELF:
                return True
            reached = close(self.segments, advance(self.segments, reached, name))
        at_end = len(self.segments) in reached
        return at_end and (self.end is not End.BELOW or not self.segments)


def advance(segments: Sequence[Segment], reached: set[int], name: str) -> set[int]:
    """Return the positions that are reached from `reached` by one more name of the path."""
    onward = set()
    for position in reached:
        if position < len(segments):
            segment = segments[position]
            if segment is Wild.DEEP:
                onward.add(position)
            elif segment_matches(segment, name):
                onward.add(position + 1)
        elif not segments:
            onward.add(position)
    return onward


def close(segments: Sequence[Segment], reached: set[int]) -> set[int]:
    """Return the positions with those added that a `**` of no folders reaches."""
    closed = set(reached)
    for position in sorted(reached):
        while position < len(segments) and segments[position] is Wild.DEEP:
            position += 1
            closed.add(position)
    return closed


def segment_matches(segment: Segment, name: str) -> bool:
    """Say whether one segment (not `**`) fits one name."""
    if isinstance(segment, str):
        return segment == name
    return segment is Wild.ANY or (isinstance(segment, Glob) and segment.matches(name))


def compile_pattern(text: str, rooted: bool = False) -> Pattern:
    """Return the compiled pattern; `rooted`: a plain name lies at the root. PatternError if meaningless."""
    if "***" in text:
        raise PatternError("three stars in a row mean nothing")
    names = split_segments(text)
    is_rooted = rooted or names[0] == "" or (len(names) > 1 and names[1:] != [""])
    if names[0] == "":
        del names[0]
    if not names or names == [""]:
        raise PatternError("a lone slash matches nothing" if text else "there is no pattern")
    end = End.BOTH
    if names[-1] == "":
        end = End.BELOW
        del names[-1]
    if "" in names:
        raise PatternError("two slashes in a row match no path")
    if not is_rooted:
        names.insert(0, "**")
    if "**" in names:
        names = [
            name for name, before in zip(names, ["", *names], strict=False) if not name == before == "**"
        ]
    # Most names are plain words; asking for that first makes a large file cheaper.
    return normalise([name if name.isalnum() else compile_segment(name) for name in names], end)


def split_segments(text: str) -> list[str]:
    """Return the parts between slashes, escapes still in place. PatternError for a dangling escape."""
    if "\\" not in text:
        return text.split("/")
    if (len(text) - len(text.rstrip("\\"))) % 2:
        raise PatternError("it ends in a backslash that escapes nothing")
    return text.replace("\\/", "/").split("/")


def normalise(segments: list[Segment], end: End) -> Pattern:
    """Return the pattern with its end made plain: `a/*` is one level, `a/**` and `a/**/*` all below `a`."""
    last = segments[-1]
    if last is Wild.ANY and end is End.BOTH:
        end = End.SELF
        if len(segments) > 1 and segments[-2] is Wild.DEEP:
            segments, end = segments[:-2], End.BELOW
    elif last is Wild.DEEP:
        segments, end = segments[:-1], End.BELOW
    return Pattern(tuple(segments), end)


@lru_cache(maxsize=2048)
def compile_segment(name: str) -> Segment:
    """Return one segment: a plain name, a whole wildcard, or a glob. The same few come again and again."""
    if "*" not in name and "?" not in name and "\\" not in name:
        return name
    if name == "*":
        return Wild.ANY
    if name == "**":
        return Wild.DEEP
    if "\\" not in name and "?" not in name:
        return Glob([Part(piece, len(piece)) for piece in name.split("*")])
    return compile_escaped(name)


def compile_escaped(name: str) -> Segment:
    """Return a segment that holds escapes or `?`."""
    parts: list[list[tuple[str, bool]]] = [[]]
    characters = iter(name)
    for character in characters:
        if character == "\\":
            parts[-1].append((next(characters, ""), False))
        elif character == "*":
            parts.append([])
        else:
            parts[-1].append((character, character == "?"))
    if len(parts) == 1 and not any(is_wild for _, is_wild in parts[0]):
        return "".join(character for character, _ in parts[0])
    return Glob([compile_part(part) for part in parts])


def compile_part(part: Sequence[tuple[str, bool]]) -> Part:
    """Return a piece without stars, of characters that are wild or not."""
    if not any(is_wild for _, is_wild in part):
        return Part("".join(character for character, _ in part), len(part))
    expression = "".join("." if is_wild else re.escape(character) for character, is_wild in part)
    sample = "".join("_" if is_wild else character for character, is_wild in part)
    return Part(None, len(part), re.compile(expression, re.DOTALL), sample)
