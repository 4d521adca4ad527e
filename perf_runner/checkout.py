"""Source trees of two or more revisions from a repository that may be hostile.

Nothing of the repository is executed or configured by it: objects are fetched into a bare repository of ours
(upload-pack is the one git command that is made for repositories of strangers), trees are written from an
index of ours, with no hook, no filter, no submodule, no network protocol. The benchmark's own files come from
the base for every arm; they are exchanged in the index, so a link in the head cannot lead a write elsewhere.
"""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

GIT_TIMEOUT_S = 600
MAX_FILE_BYTES = 4 * 1024**2
SUBMODULE_MODE = "160000"
GIT_CONFIGURATION = """\
[safe]
\tdirectory = *
[protocol]
\tallow = never
[protocol "file"]
\tallow = always
[core]
\thooksPath = /dev/null
\tfsmonitor = false
\tautocrlf = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[fetch]
\tunpackLimit = 1
"""


class CheckoutError(ValueError):
    """A repository, revision or path that cannot be used; the message says which and why."""


@dataclass(frozen=True)
class Harness:
    """Where the benchmark's own files come from for every arm, and what a reader must know about that."""

    sha: str
    paths: tuple[str, ...]
    notes: tuple[str, ...] = ()
    changed_by_head: bool = False


@dataclass(frozen=True)
class Repository:
    """A bare repository of ours in `folder/objects.git`, filled from somebody's."""

    folder: Path

    @property
    def git_dir(self) -> Path:
        """Return the bare repository itself."""
        return self.folder / "objects.git"

    def resolve(self, revision: str) -> str:
        """Return the full sha of a commit named by branch, tag, sha or expression like `HEAD~1`."""
        wanted = ["rev-parse", "--verify", "--quiet", "--end-of-options"]
        for name in (revision, f"origin/{revision}"):
            found = self._git([*wanted, f"{name}^{{commit}}"], check=False)
            if found.returncode == 0:
                return found.stdout.decode().strip()
        raise CheckoutError(f"no commit is named {revision[:100]!r} in this repository")

    def parents(self, sha: str) -> tuple[str, ...]:
        """Return the shas of a commit's parents."""
        return tuple(self._git(["rev-parse", f"{sha}^@"]).stdout.decode().split())

    def commits_between(self, good: str, bad: str) -> tuple[str, ...]:
        """Return the first-parent commits after `good` up to `bad`, oldest first."""
        arguments = ["rev-list", "--first-parent", "--reverse", f"{good}..{bad}", "--"]
        return tuple(self._git(arguments).stdout.decode().split())

    def merge_base(self, one: str, other: str) -> str | None:
        """Return the best common ancestor of two commits, None where they share none."""
        found = self._git(["merge-base", one, other], check=False)
        return found.stdout.decode().strip() if found.returncode == 0 else None

    def read(self, sha: str, path: str) -> bytes | None:
        """Return a file of a commit, None where it has none; CheckoutError above 4 MiB."""
        kind = self._git(["cat-file", "-t", f"{sha}:{path}"], check=False)
        if kind.returncode != 0 or kind.stdout.strip() != b"blob":
            return None
        if int(self._git(["cat-file", "-s", f"{sha}:{path}"]).stdout) > MAX_FILE_BYTES:
            raise CheckoutError(f"{path} is larger than {MAX_FILE_BYTES // 1024**2} MiB at {sha[:12]}")
        return self._git(["cat-file", "blob", f"{sha}:{path}"]).stdout

    def changed(self, base: str, head: str, paths: Sequence[str]) -> tuple[str, ...]:
        """Return the files under `paths` that differ between two commits."""
        if not paths:
            return ()
        found = self._git(["diff-tree", "-r", "-z", "--name-only", "--no-renames", base, head, "--", *paths])
        return tuple(name for name in found.stdout.decode(errors="replace").split("\0") if name)

    def has(self, sha: str, path: str) -> bool:
        """Say whether a commit has a file or folder at `path`."""
        return self._git(["cat-file", "-e", f"{sha}:{path}"], check=False).returncode == 0

    def submodules(self, sha: str) -> tuple[str, ...]:
        """Return the paths of a commit's submodules, which are never fetched."""
        lines = self._git(["ls-tree", "-r", "-z", sha]).stdout.decode(errors="replace").split("\0")
        return tuple(line.split("\t", 1)[1] for line in lines if line.startswith(SUBMODULE_MODE))

    def write_tree(self, sha: str, folder: Path, harness: Harness | None = None) -> None:
        """Write the files of a commit below `folder` (made here), the harness's paths from its own commit."""
        folder.mkdir(parents=True)
        folder.chmod(0o755)  # the sandbox's user reads it; the folders above keep strangers out
        index = folder.with_name(f"{folder.name}.index")
        self._git(["read-tree", sha], index=index)
        if harness is not None and harness.paths and harness.sha != sha:
            self._exchange(index, folder, harness)
        self._git(["checkout-index", "--all", "--force"], index=index, work_tree=folder)
        index.unlink()

    def _exchange(self, index: Path, folder: Path, harness: Harness) -> None:
        old = self._git(["ls-files", "-z", "--", *harness.paths], index=index, work_tree=folder).stdout
        remove = ["update-index", "-z", "--force-remove", "--stdin"]
        self._git(remove, index=index, work_tree=folder, stdin=old)
        new = self._git(["ls-tree", "-r", "-z", harness.sha, "--", *harness.paths]).stdout
        add = ["update-index", "-z", "--replace", "--index-info"]
        self._git(add, index=index, work_tree=folder, stdin=new)

    def _git(
        self,
        arguments: Sequence[str],
        *,
        check: bool = True,
        stdin: bytes = b"",
        index: Path | None = None,
        work_tree: Path | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        tree = [] if work_tree is None else [f"--work-tree={work_tree}"]
        extra = {} if index is None else {"GIT_INDEX_FILE": str(index)}
        command = ["git", f"--git-dir={self.git_dir}", *tree, *arguments]
        return run_git(command, self.folder, check=check, stdin=stdin, extra=extra)


def run_git(
    command: Sequence[str],
    folder: Path,
    *,
    check: bool = True,
    stdin: bytes = b"",
    extra: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run one git command with our configuration only; CheckoutError with git's last line when it fails."""
    environment = git_environment(folder) | (extra or {})
    try:
        finished = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            check=False,
            env=environment,
            timeout=GIT_TIMEOUT_S,
            cwd=folder,
            umask=0o022,
        )
    except FileNotFoundError:
        raise CheckoutError("git is missing on this host; install it") from None
    except subprocess.TimeoutExpired:
        raise CheckoutError(f"git took longer than {GIT_TIMEOUT_S} s") from None
    if check and finished.returncode != 0:
        lines = finished.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        said = next((line for line in lines if line.startswith("fatal:")), lines[-1])
        raise CheckoutError(f"git: {said.removeprefix('fatal: ')[:300]}")
    return finished


def git_environment(folder: Path) -> dict[str, str]:
    """Return git's whole environment: our configuration alone, literal paths, no prompt, no lazy fetch."""
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(folder / "gitconfig"),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PROTOCOL_FROM_USER": "0",
    }


def import_repository(source: Path, folder: Path) -> Repository:
    """Fetch every branch and tag of a repository folder or a git bundle into a new bare repository.

    `folder` must not hold one yet. CheckoutError says what is wrong with `source`.
    """
    if not source.exists():
        raise CheckoutError(f"{source} does not exist")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gitconfig").write_text(GIT_CONFIGURATION)
    repository = Repository(folder)
    run_git(["git", "init", "--quiet", "--bare", "--template=", str(repository.git_dir)], folder)
    kinds = ("heads", "tags", "remotes")
    refs = (
        [f"+refs/{kind}/*:refs/{kind}/*" for kind in kinds] if source.is_dir() else ["+refs/*:refs/bundle/*"]
    )
    fetch = ["git", f"--git-dir={repository.git_dir}", "fetch", "--quiet", "--no-auto-gc"]
    options = ["--no-recurse-submodules", "--no-write-fetch-head", "--no-tags", "--update-head-ok"]
    run_git([*fetch, *options, "--", str(source.resolve()), *refs], folder)
    fetch_head(repository, [*fetch, *options], source.resolve())
    if not run_git(["git", f"--git-dir={repository.git_dir}", "for-each-ref", "--count=1"], folder).stdout:
        raise CheckoutError(f"{source} holds no commit")
    return repository


def fetch_head(repository: Repository, fetch: Sequence[str], source: Path) -> None:
    """Let HEAD mean what it means in `source`, where it has one."""
    wanted = "+HEAD:refs/prgate/source-head"
    if run_git([*fetch, "--", str(source), wanted], repository.folder, check=False).returncode == 0:
        command = [
            "git",
            f"--git-dir={repository.git_dir}",
            "symbolic-ref",
            "HEAD",
            "refs/prgate/source-head",
        ]
        run_git(command, repository.folder)


def fetch_commit(repository: Repository, source: Path, sha: str) -> None:
    """Fetch one commit that no branch or tag of `source` reaches; CheckoutError when it is not there."""
    command = ["git", f"--git-dir={repository.git_dir}", "fetch", "--quiet", "--no-tags"]
    target = f"+{sha}:refs/prgate/commits/{sha}"
    run_git([*command, "--no-write-fetch-head", "--", str(source.resolve()), target], repository.folder)


def plan_harness(repository: Repository, base: str, head: str, paths: Sequence[str]) -> Harness:
    """Decide where the benchmark's files come from: the base; the head only for what the base lacks."""
    cleaned = tuple(clean_path(path) for path in paths)
    missing = tuple(path for path in cleaned if not repository.has(base, path))
    changed = repository.changed(base, head, cleaned)
    if missing and len(missing) == len(cleaned):
        note = (
            f"Only the head has the benchmark ({', '.join(missing[:3])}): the head's is used for both arms."
        )
        return Harness(head, cleaned, (note,), changed_by_head=True)
    if not changed:
        return Harness(base, cleaned)
    shown = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
    note = f"This pull request changes its own benchmark ({shown}): both arms were measured with the base's."
    return Harness(base, cleaned, (note,), changed_by_head=True)


def clean_path(path: str) -> str:
    """Return a harness path as git names it; CheckoutError for one that leaves the repository."""
    cleaned = path.removesuffix("/**").strip("/")
    if not cleaned or ".." in cleaned.split("/") or "\0" in cleaned or cleaned.split("/")[0] == ".git":
        raise CheckoutError(f"{path!r} is no path inside the repository")
    return cleaned
