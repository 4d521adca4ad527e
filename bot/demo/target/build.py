"""Builds the recorded repository as a real, bare git repository: equal commits at every call."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.demo.target.history import Commit, World, after, apply, before, culprit, culprit_pull, fix

CULPRIT_BRANCH = "fused-qk-norm-rope"
FIX_BRANCH = "gate-short-sequences"
PREPARED = "refs/prepared/fix-next"


@dataclass(frozen=True)
class TargetRepository:
    """Where the repository lies and which commit is which. `history` is main, oldest first."""

    path: Path
    shas: Mapping[str, str]
    history: tuple[str, ...]
    culprit_branch: str = CULPRIT_BRANCH
    fix_branch: str = FIX_BRANCH

    @property
    def start(self) -> str:
        """The first commit of main."""
        return self.shas["start"]

    @property
    def parent(self) -> str:
        """The commit before the culprit: the last fast one."""
        return self.shas["parent"]

    @property
    def culprit(self) -> str:
        """The commit on main that made short sequences slow."""
        return self.shas["culprit"]

    @property
    def culprit_head(self) -> str:
        """The head of the culprit's pull request; it stands on `parent`."""
        return self.shas["culprit_head"]

    @property
    def main(self) -> str:
        """The tip of main, which is the fix's merge base."""
        return self.shas["main"]

    @property
    def fix_head(self) -> str:
        """The head of the fix's pull request."""
        return self.shas["fix_head"]

    @property
    def fix_next(self) -> str:
        """A further commit on the fix, on no branch yet: what its author pushes next."""
        return self.shas["fix_next"]


class Stream:
    """Writes commits in the form that `git fast-import` reads."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.names: list[str] = []

    def add(
        self, ref: str, commit: Commit, files: tuple[Mapping[str, str], Mapping[str, str]], parent: int
    ) -> int:
        """Add one commit on `parent` (a mark; 0: none); `files` holds its tree before and after."""
        mark = len(self.names) + 1
        self.names.append(commit.name)
        person = f"{commit.author} <{commit.author}@example.org> {int(commit.at.timestamp())} +0000"
        message = commit.subject + (f"\n\n{commit.body}" if commit.body else "") + "\n"
        self.parts.append(f"commit {ref}\nmark :{mark}\nauthor {person}\ncommitter {person}\n".encode())
        self.parts.append(data(message) + (f"from :{parent}\n".encode() if parent else b""))
        old, new = files
        for path in sorted(new):
            if old.get(path) != new[path]:
                self.parts.append(f"M 100644 inline {path}\n".encode() + data(new[path]))
        self.parts.append(b"\n")
        return mark

    def add_all(
        self, ref: str, commits: Sequence[Commit], files: Mapping[str, str], parent: int
    ) -> tuple[dict[str, str], int]:
        """Add commits one on the other; return the last one's files and mark."""
        for commit in commits:
            changed = apply(commit, files)
            parent = self.add(ref, commit, (files, changed), parent)
            files = changed
        return dict(files), parent


def data(text: str) -> bytes:
    """Return the exact-count form of a text."""
    raw = text.encode()
    return f"data {len(raw)}\n".encode() + raw + b"\n"


def tell(world: World) -> Stream:
    """Return the whole history of a world."""
    stream, main = Stream(), "refs/heads/main"
    old_files, parent = stream.add_all(main, before(), {}, 0)
    stream.add_all(f"refs/heads/{CULPRIT_BRANCH}", (culprit_pull(world),), old_files, parent)
    files, tip = stream.add_all(main, (culprit(), *after(world)), old_files, parent)
    *branch, later = fix(world)
    files, head = stream.add_all(f"refs/heads/{FIX_BRANCH}", branch, files, tip)
    stream.add_all(PREPARED, (later,), files, head)
    return stream


def build_target(folder: Path, world: World | None = None) -> TargetRepository:
    """Write the repository into `folder` (new or empty; bare) and return its named commits.

    FileExistsError where the folder holds something; RuntimeError where git is missing or fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    git(folder, "init", "--quiet", "--bare", "--object-format=sha1", "--initial-branch=main")
    stream = tell(world or World())
    marks = folder / "marks"
    git(folder, "fast-import", "--quiet", f"--export-marks={marks}", text=b"".join(stream.parts))
    shas = read_marks(marks.read_text(), stream.names)
    marks.unlink()
    history = git(folder, "rev-list", "--reverse", "--first-parent", "main").split()
    return TargetRepository(folder, shas, tuple(history))


def read_marks(text: str, names: Sequence[str]) -> dict[str, str]:
    """Return commit name -> sha from fast-import's list of marks."""
    pairs = (line.split() for line in text.splitlines())
    return {names[int(mark.removeprefix(":")) - 1]: sha for mark, sha in pairs}


def git(folder: Path, *arguments: str, text: bytes = b"") -> str:
    """Run git in `folder`, blind to the user's configuration; return what it printed."""
    blind = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | blind
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, env=environment, input=text, capture_output=True, check=False
        )
    except FileNotFoundError as error:
        raise RuntimeError("git is not installed: the recorded repository needs it") from error
    if done.returncode:
        raise RuntimeError(f"git {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()[:300]}")
    return done.stdout.decode()
