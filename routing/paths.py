"""Sets of path globs: the paths of module pages, and lists of the configuration."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from routing.index import Index
from routing.patterns import Pattern, PatternError, compile_pattern

TEST_FOLDERS = frozenset({"test", "tests", "testing", "__tests__"})


@dataclass(frozen=True, slots=True)
class PathGlob:
    """A glob as written and compiled. `depth`: how much of it is plain (segments, then characters)."""

    text: str
    pattern: Pattern
    depth: tuple[int, int]


def read_glob(text: str) -> PathGlob:
    """Return a glob that starts at the repository's root. PatternError if it has no meaning."""
    pattern = compile_pattern(text, rooted=True)
    plain = pattern.literal_prefix()
    return PathGlob(text, pattern, (len(plain), sum(len(name) for name in plain)))


class PathSet:
    """Globs that answer which of them fits a path best: the one with the longest plain beginning."""

    def __init__(self, globs: Iterable[PathGlob]) -> None:
        self.globs: Sequence[PathGlob] = sorted(globs, key=lambda glob: glob.depth)
        self._index = Index()
        for position, glob in enumerate(self.globs, 1):
            self._index.add(glob.pattern, position)

    def find(self, path: str) -> PathGlob | None:
        """Return the glob that fits the path most closely, None if none does."""
        position = self._index.find(path)
        return self.globs[position - 1] if position else None

    def __bool__(self) -> bool:
        return bool(self.globs)


@lru_cache(maxsize=64)
def name_set(globs: tuple[str, ...]) -> PathSet:
    """Return a set of CODEOWNERS-like patterns (a plain name fits at any depth); faulty ones are left out."""
    compiled = []
    for text in globs:
        try:
            compiled.append(PathGlob(text, compile_pattern(text), (0, 0)))
        except PatternError:
            continue
    return PathSet(compiled)


def is_test(path: str) -> bool:
    """Say whether a path looks like a test: by a folder's name, or by its own."""
    *folders, name = path.split("/")
    stem = name.partition(".")[0]
    is_named = stem == "conftest" or stem.startswith("test_") or stem.endswith("_test")
    return is_named or not TEST_FOLDERS.isdisjoint(folders)
