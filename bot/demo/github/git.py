"""The git repository behind the stand-in: plain `git` over a bare repository."""

import os
import re
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

STATUS = {"A": "added", "M": "modified", "D": "removed", "R": "renamed", "C": "copied", "T": "changed"}
SHA = re.compile(r"^[0-9a-f]{40}$")
PATCH_LIMIT = 100_000  # GitHub leaves out the patch of a file that is larger


@dataclass(frozen=True)
class ChangedFile:
    """One file of a comparison, as `GET /pulls/N/files` tells it."""

    path: str
    previous: str | None
    status: str
    additions: int
    deletions: int
    patch: str | None
    blob: str


@dataclass(frozen=True)
class CommitInfo:
    """One commit."""

    sha: str
    parents: tuple[str, ...]
    author: str
    date: str
    message: str


@dataclass(frozen=True)
class Entry:
    """One entry of a tree."""

    path: str
    kind: str
    sha: str
    size: int


class Git:
    """Reads (and, for pushes, writes) one bare repository. RuntimeError where git refuses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.changed_files = lru_cache(maxsize=200)(self._changed_files)

    def run(self, *arguments: str) -> str:
        """Return what `git` printed."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, env=environment, capture_output=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()[:300]}")
        return done.stdout.decode("utf-8", errors="replace")

    def resolve(self, ref: str) -> str | None:
        """Return the sha of a branch, tag or commit; None where there is none."""
        if ref.startswith("-") or ".." in ref:
            return None
        for name in (f"refs/heads/{ref}", ref):
            try:
                return self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").strip()
            except RuntimeError:
                continue
        return None

    def merge_base(self, base: str, head: str) -> str | None:
        """Return the merge base of two commits; None where they share nothing."""
        try:
            return self.run("merge-base", base, head).strip()
        except RuntimeError:
            return None

    def commits(self, base: str, head: str) -> list[CommitInfo]:
        """Return the commits of `head` that `base` has not, oldest first."""
        return self.log("--reverse", f"{base}..{head}")

    def log(self, *arguments: str) -> list[CommitInfo]:
        """Return commits as `git log` orders them."""
        shape = "%H%x00%P%x00%an%x00%aI%x00%B%x01"
        records = self.run("log", f"--format={shape}", *arguments).split("\x01")
        parts = [record.strip("\n").split("\x00") for record in records if record.strip()]
        return [CommitInfo(p[0], tuple(p[1].split()), p[2], p[3], p[4].strip()) for p in parts]

    def _changed_files(self, base: str, head: str) -> tuple[ChangedFile, ...]:
        """Return the files that differ between two commits."""
        raw = self.run("diff", "--raw", "--abbrev=40", "-z", "-M", base, head).split("\x00")
        counts = self.counts(base, head)
        patches = self.patches(base, head)
        files, position = [], 0
        while position < len(raw) - 1:
            fields = raw[position].split()
            renamed = fields[4][0] in "RC"
            previous = raw[position + 1] if renamed else None
            path = raw[position + (2 if renamed else 1)]
            added, deleted = counts.get(path, (0, 0))
            blob = fields[3] if fields[4] != "D" else fields[2]
            files.append(
                ChangedFile(path, previous, STATUS[fields[4][0]], added, deleted, patches.get(path), blob)
            )
            position += 3 if renamed else 2
        return tuple(files)

    def counts(self, base: str, head: str) -> dict[str, tuple[int, int]]:
        """Return path -> (added, deleted) lines; a binary file has none."""
        parts = self.run("diff", "--numstat", "-z", "-M", base, head).split("\x00")
        found, position = {}, 0
        while position < len(parts) - 1:
            added, deleted, path = parts[position].split("\t")
            if not path:  # a rename: old and new path follow
                path = parts[position + 2]
                position += 2
            found[path] = (int(added) if added != "-" else 0, int(deleted) if deleted != "-" else 0)
            position += 1
        return found

    def patches(self, base: str, head: str) -> dict[str, str]:
        """Return path -> hunks, without git's file headers."""
        text = self.run("-c", "core.quotePath=false", "diff", "-M", base, head)
        found = {}
        for part in re.split(r"(?m)^(?=diff --git )", text):
            name = re.search(r"(?m)^\+\+\+ b/(.+)$", part) or re.search(r"(?m)^--- a/(.+)$", part)
            start = re.search(r"(?m)^@@", part)
            if name and start and len(part) <= PATCH_LIMIT:
                found[name[1]] = part[start.start() :].rstrip("\n")
        return found

    def tree(self, ref: str, path: str = "", recursive: bool = False) -> list[Entry] | None:
        """Return the entries of a folder at a commit or tree; None where it is not there."""
        flags = ["-r", "-t"] if recursive else []
        where = f"{ref}:{path.strip('/')}" if path else ref
        try:
            lines = self.run("ls-tree", "-l", "-z", *flags, where).split("\x00")
        except RuntimeError:
            return None
        entries = []
        for line in filter(None, lines):
            head, _, name = line.partition("\t")
            _, kind, sha, size = head.split()
            entries.append(Entry(name, kind, sha, int(size) if size.isdigit() else 0))
        return entries

    def blob(self, sha: str) -> bytes | None:
        """Return a blob's bytes; None for no blob."""
        if not SHA.match(sha):
            return None
        done = subprocess.run(
            ["git", "cat-file", "blob", sha], cwd=self.folder, capture_output=True, check=False
        )
        return done.stdout if done.returncode == 0 else None

    def move_branch(self, branch: str, sha: str) -> None:
        """Set a branch to a commit."""
        self.run("update-ref", f"refs/heads/{branch}", sha)

    def merge(self, base: str, head: str, message: str, author: str) -> str | None:
        """Return a new commit that merges two; None where they conflict."""
        try:
            tree = self.run("merge-tree", "--write-tree", base, head).strip()
        except RuntimeError:
            return None
        who = ("-c", f"user.name={author}", "-c", f"user.email={author}@example.org")
        return self.run(*who, "commit-tree", tree, "-p", base, "-p", head, "-m", message).strip()

    def commit_files(self, branch: str, files: dict[str, str], message: str, author: str) -> str:
        """Commit texts on a branch and return the new sha: what a push of one commit does."""
        parent = self.resolve(branch)
        lines = [f"commit refs/heads/{branch}", f"committer {author} <{author}@example.org> now"]
        lines += [f"data {len(message.encode())}", message]
        lines += [f"from {parent}"] if parent else []
        body = "\n".join(lines).encode() + b"\n"
        for path, text in files.items():
            raw = text.encode()
            body += f"M 100644 inline {path}\ndata {len(raw)}\n".encode() + raw + b"\n"
        subprocess.run(
            ["git", "fast-import", "--quiet", "--date-format=now"],
            cwd=self.folder,
            input=body + b"\n",
            check=True,
            capture_output=True,
        )
        found = self.resolve(branch)
        if found is None:
            raise RuntimeError(f"{branch} was not written")
        return found
