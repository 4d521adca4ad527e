"""Rules that work but hardly as meant: a later rule always wins, brackets, a forgotten blank.

That one pattern covers all of another is worked out on the patterns alone: the inner pattern is walked
through the index as if it were a path, where its wildcards may only be taken by wildcards at least as wide.
What is reported is always true; a rule that several later ones shadow only together is not found.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from routing.index import Index, Names, Node, with_deep
from routing.patterns import End, Glob, Pattern, Segment, Wild, compile_pattern

# Comparing two wildcards takes about ten times as long as a wildcard and a name.
MAX_COMPARISONS = 5_000_000
WILD_COST = 10


@dataclass(frozen=True, slots=True)
class Rule:
    """One line that counts: its number, its pattern as written, and the owners as written."""

    line: int
    pattern: str
    owners: tuple[str, ...]

    def compiled(self) -> Pattern:
        """Return the pattern, ready to match."""
        return compile_pattern(self.pattern)


@dataclass(frozen=True, slots=True)
class LineWarning:
    """A rule that works but hardly as meant. `by_line`: the later line that always wins over it."""

    line: int
    kind: str
    says: str
    by_line: int | None = None
    same_owners: bool | None = None


class TooMuchWorkError(Exception):
    """The comparisons of a file's wildcards would take too long."""


class Budget:
    """How many more wildcards may be compared: thousands of them in one place would take hours."""

    def __init__(self, comparisons: int = MAX_COMPARISONS) -> None:
        self.left = comparisons

    def spend(self, comparisons: int) -> None:
        """Take comparisons off. TooMuchWorkError when there are none left."""
        self.left -= comparisons
        if self.left < 0:
            raise TooMuchWorkError


def find_warnings(rules: Sequence[Rule], index: Index) -> tuple[LineWarning, ...]:
    """Return the warnings of a file in the order of its lines; `index` holds its rules from 1 on."""
    budget, found = Budget(), list[LineWarning]()
    for position, rule in enumerate(rules, 1):
        try:
            found.extend(warn(rule, position, rules, Walk(index, budget)))
        except TooMuchWorkError:
            says = "from this line on nothing was checked: the file has too many wildcards"
            return (*found, LineWarning(rule.line, "not_checked", says))
    return tuple(found)


def warn(rule: Rule, position: int, rules: Sequence[Rule], walk: "Walk") -> Iterator[LineWarning]:
    """Yield the warnings of one rule."""
    last = walk.cover(rule.compiled())
    if last > position:
        winner = rules[last - 1]
        same = {owner.lower() for owner in rule.owners} == {owner.lower() for owner in winner.owners}
        effect = "the same owners" if same else "other owners"
        says = f"line {winner.line} comes later and takes all its paths, with {effect}"
        yield LineWarning(rule.line, "shadowed", says, winner.line, same)
    if "[" in rule.pattern or "]" in rule.pattern:
        yield LineWarning(
            rule.line, "literal_brackets", "GitHub has no character ranges; the brackets stand for themselves"
        )
    if "@" in rule.pattern.strip("@"):
        yield LineWarning(
            rule.line, "at_in_pattern", "the pattern holds an `@`; is a blank missing before an owner?"
        )


def last_cover(pattern: Pattern, index: Index) -> int:
    """Return the position of the last rule that covers all paths of the pattern, perhaps itself; or 0."""
    return Walk(index, Budget()).cover(pattern)


class Walk:
    """A pattern on its way through an index: the folder so far (None: not plain) and what is reached."""

    def __init__(self, index: Index, budget: Budget) -> None:
        self.index = index
        self.budget = budget
        self.folder: str | None = ""
        self.best = index.everything
        root = index.roots.get("")
        self.nodes: tuple[Node, ...] = with_deep([root]) if root else ()

    def cover(self, pattern: Pattern) -> int:
        """Return the position of the last rule that covers all paths of a pattern, 0 if none does."""
        if not pattern.segments:
            return self.index.everything
        for segment in pattern.segments[:-1]:
            self.step(segment)
        return self.end(pattern.segments[-1], pattern.end)

    def step(self, segment: Segment) -> None:
        """Go one segment further down."""
        if segment is Wild.DEEP:
            self.folder = None
            self.nodes = tuple(node for node in self.nodes if node.is_deep)
            return
        self.best = max(self.best, self.below(segment))
        nodes: list[Node] = []
        for node in self.nodes:
            nodes.extend([node] if node.is_deep else [])
            self.budget.spend(1 + len(node.globs or ()) * (1 if isinstance(segment, str) else WILD_COST))
            nodes.extend(onward(node, segment))
        self.folder = self.path(segment)
        root = self.index.roots.get(self.folder) if self.folder is not None else None
        self.nodes = with_deep([*nodes, root] if root else nodes)

    def end(self, segment: Segment, end: End) -> int:
        """Return the last rule that covers what the pattern covers at its last segment."""
        below = max(self.best, self.below(segment))
        if end is End.BELOW:
            return below
        here = max(
            [self.best, self.file(segment), *(self.covering(node.here, segment) for node in self.nodes)]
        )
        # A rule that covers a path and all below it stands in both places: the weaker of the two counts.
        return here if end is End.SELF else min(here, below)

    def path(self, segment: Segment) -> str | None:
        """Return the plain path of a segment here, None where a wildcard came before or is the segment."""
        if self.folder is None or not isinstance(segment, str):
            return None
        return f"{self.folder}/{segment}" if self.folder else segment

    def below(self, segment: Segment) -> int:
        """Return the last rule that covers all below the segment."""
        path = self.path(segment)
        plain = self.index.below.get(path, 0) if path is not None else 0
        return max([plain, *(self.covering(node.below, segment) for node in self.nodes)])

    def file(self, segment: Segment) -> int:
        """Return the last rule without wildcards that covers the segment itself."""
        if self.folder is None or not isinstance(segment, str):
            return 0
        return self.index.files.get(self.folder, {}).get(segment, 0)

    def covering(self, names: Names | None, segment: Segment) -> int:
        """Return the last rule whose last segment takes every name that `segment` takes."""
        if names is None:
            return 0
        self.budget.spend(1 + len(names.globs or ()) * (1 if isinstance(segment, str) else WILD_COST))
        return covering(names, segment)


def onward(node: Node, segment: Segment) -> Iterator[Node]:
    """Yield the nodes behind segments that take every name that `segment` takes."""
    if isinstance(segment, str) and node.children and segment in node.children:
        yield node.children[segment]
    for wild, child in node.globs.items() if node.globs else ():
        if covers(wild, segment):
            yield child


def covering(names: Names, segment: Segment) -> int:
    """Return the last rule whose last segment takes every name that `segment` takes."""
    if isinstance(segment, str):
        return names.best(segment, 0)
    found = names.any
    if isinstance(segment, Glob):
        last = segment.parts[-1].text or ""
        extension = last[last.rfind(".") :] if "." in last else ""
        found = max(found, (names.extensions or {}).get(extension, 0))
    for glob, position in reversed(names.globs or []):
        if position <= found:
            break
        if covers(glob, segment):
            return position
    return found


def covers(outer: Segment, inner: Segment) -> bool:
    """Say whether the wildcard `outer` takes every name that `inner` takes (never wrongly yes)."""
    if outer is Wild.ANY or outer == inner:
        return inner is not Wild.DEEP
    if not isinstance(outer, Glob) or inner is Wild.ANY or inner is Wild.DEEP:
        return False
    if isinstance(inner, str):
        return outer.matches(inner)
    return glob_covers(outer, inner)


def glob_covers(outer: Glob, inner: Glob) -> bool:
    """Say whether a glob of plain parts takes all that another takes: its parts lie in the other's."""
    if outer.ends is None or any(part.text is None for part in (*outer.parts, *inner.parts)):
        return False
    texts = [part.text or "" for part in inner.parts]
    first, last = outer.parts[0].text or "", outer.parts[-1].text or ""
    if not texts[0].startswith(first) or not texts[-1].endswith(last):
        return False
    if len(texts) == 1:
        return outer.matches(texts[0])
    texts[0] = texts[0][len(first) :]
    texts[-1] = texts[-1][: len(texts[-1]) - len(last)]
    place, start = 0, 0
    for part in outer.middle:
        wanted = part.text or ""
        while (found := texts[place].find(wanted, start)) < 0:
            place, start = place + 1, 0
            if place == len(texts):
                return False
        start = found + len(wanted)
    return True
