"""What git says of the nights: commits between two tips, which paths they touch, who contains whom.

Read from the service's bare mirror; texts are a stranger's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot import mirror
from bot.github import FULL_SHA
from bot.mirror import MirrorError, Source, run_git

MOST_COMMITS = 400
SHOWN_PATHS = 5
SEPARATOR = "\x1f"
RECORD = "\x1e"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit between two nights and those of its paths that the case depends on (at most five)."""

    sha: str
    title: str
    author: str
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Between:
    """The commits after `good` up to `flagged`: how many, and those that touch the case's paths."""

    total: int
    touching: tuple[Commit, ...]


@dataclass(frozen=True)
class History:
    """A mirror that has the tips of the nights."""

    folder: Path

    def between(self, good: str, flagged: str, globs: Sequence[str]) -> Between:
        """Return the commits between two tips, newest first; without globs each counts as touching."""
        total = self.count(good, flagged)
        pattern = f"--format={RECORD}%H{SEPARATOR}%an{SEPARATOR}%s"
        paths = [f":(glob){glob.lstrip('/')}" for glob in globs]
        command = [
            "log",
            "--first-parent",
            "-m",
            f"-n{MOST_COMMITS}",
            pattern,
            "--name-only",
            "--end-of-options",
        ]
        found = self.read([*command, f"{good}..{flagged}", "--", *paths])
        commits = [read_commit(record) for record in found.split(RECORD) if record.strip()]
        return Between(total, tuple(one for one in commits if FULL_SHA.fullmatch(one.sha)))

    def count(self, good: str, flagged: str) -> int:
        """Return how many commits of the first parents lie between two tips."""
        said = self.read(["rev-list", "--count", "--first-parent", "--end-of-options", f"{good}..{flagged}"])
        return int(said.strip() or 0)

    def contains(self, commit: str, tip: str) -> bool:
        """Say whether a tip has a commit."""
        command = ["merge-base", "--is-ancestor", "--end-of-options", commit, tip]
        return run_git(self.folder, command).returncode == 0

    def read(self, arguments: Sequence[str]) -> str:
        """Return what git prints; MirrorError where it fails."""
        finished = run_git(self.folder, arguments)
        if finished.returncode != 0:
            raise MirrorError(f"git {arguments[0]} failed")
        return finished.stdout.decode("utf-8", "replace")


def read_commit(record: str) -> Commit:
    """Return one commit of `git log --name-only`."""
    head, *lines = record.strip().splitlines()
    sha, author, title = [*head.split(SEPARATOR, 2), "", ""][:3]
    paths = [line.strip() for line in lines if line.strip()]
    return Commit(sha, title[:300], author[:100], tuple(paths[:SHOWN_PATHS]))


def open_history(folder: Path, source: Source, shas: Sequence[str]) -> History:
    """Return the mirror with these commits in it; MirrorError where they cannot be had."""
    path = folder / f"{source.repo_id}.git"
    with mirror.locked(folder / f"{source.repo_id}.lock"):
        mirror.prepare(path)
        mirror.fetch(path, source, shas, None)
    return History(path)


def globs_for(paths: Sequence[tuple[str, Sequence[str]]], case: str) -> tuple[str, ...]:
    """Return the globs (each with the cases that it calls for) that name a case."""
    return tuple(glob for glob, cases in paths if case in cases)


def full_names(shas: Iterable[str]) -> list[str]:
    """Return the distinct full commit names among what rows call a commit; others cannot be fetched."""
    return [sha for sha in dict.fromkeys(shas) if FULL_SHA.fullmatch(sha)]
