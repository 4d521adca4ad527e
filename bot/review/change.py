"""A unified diff as frozen values: the head's side of every hunk, line by line."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchedFile, PatchSet

DIFF_LIMIT = 4_000_000  # characters; GitHub itself refuses to show diffs this large
TEST_FOLDERS = frozenset({"test", "tests", "testing"})
ASIDE_FOLDERS = frozenset({"benchmark", "benchmarks", "docs", "examples", "scripts", "tools"})


@dataclass(frozen=True, slots=True)
class Line:
    """A line as it stands on the head's side; `number` counts from 1."""

    number: int
    text: str
    added: bool


@dataclass(frozen=True, slots=True)
class Hunk:
    """The head's side of a hunk; `header` is git's guess at the function or class that it starts in."""

    header: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, eq=False)
class FilePatch:
    """One changed file; two are equal when they are the same object, so that what is read of it is kept."""

    path: str
    is_new: bool
    hunks: tuple[Hunk, ...]
    removed: tuple[str, ...] = ()

    @cached_property
    def added(self) -> frozenset[int]:
        """Return the numbers of the added lines."""
        return frozenset(line.number for hunk in self.hunks for line in hunk.lines if line.added)

    @property
    def is_test(self) -> bool:
        """Say whether it is a test by its folder or name."""
        path = PurePosixPath(self.path)
        return bool(TEST_FOLDERS & set(path.parts[:-1])) or path.name.startswith(("test_", "conftest"))

    @property
    def is_production_python(self) -> bool:
        """Say whether it is Python that serves requests: no test, benchmark, example or tool."""
        path = PurePosixPath(self.path)
        return path.suffix == ".py" and not self.is_test and not ASIDE_FOLDERS & set(path.parts[:-1])

    @cached_property
    def text(self) -> str:
        """Return all visible lines of the head's side."""
        return "\n".join(line.text for hunk in self.hunks for line in hunk.lines)


@dataclass(frozen=True, slots=True)
class Change:
    """A pull request to review."""

    title: str
    body: str
    files: tuple[FilePatch, ...]

    @property
    def tests(self) -> tuple[FilePatch, ...]:
        """Return the changed tests."""
        return tuple(file for file in self.files if file.is_test)


def parse_diff(diff: str) -> tuple[FilePatch, ...]:
    """Return the files of a unified diff; ValueError for one that is too large or no diff."""
    if len(diff) > DIFF_LIMIT:
        raise ValueError(f"the diff has {len(diff):,} characters; at most {DIFF_LIMIT:,} are reviewed")
    try:
        patches = PatchSet(diff.replace("\r\n", "\n").splitlines(keepends=True))
    except UnidiffParseError as error:
        raise ValueError(f"not a unified diff: {str(error)[:200]}") from error
    return tuple(read_file(patch) for patch in patches if not patch.is_removed_file)


def read_file(patch: PatchedFile) -> FilePatch:
    """Return one file of a parsed patch set."""
    hunks = tuple(
        Hunk(
            hunk.section_header.strip(),
            tuple(
                Line(line.target_line_no, line.value.rstrip("\n"), line.is_added)
                for line in hunk
                if line.target_line_no is not None
            ),
        )
        for hunk in patch
    )
    removed = tuple(line.value.rstrip("\n") for hunk in patch for line in hunk if line.is_removed)
    return FilePatch(patch.path, patch.is_added_file, hunks, removed)
