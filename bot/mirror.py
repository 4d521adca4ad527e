"""Bare mirrors of the repositories, and the bundles that the runner lane gets its source from.

The service fetches with its own credentials; a runner host needs none, also for private repositories. A
fetched repository is hostile: no hook, no filter, no submodule of it is ever run here.
"""

import base64
import fcntl
import hashlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

FETCH_LIMIT_S = 600
BUNDLES_KEPT = 20
QUIET_GIT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "https:http:ssh:file",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}


class MirrorError(RuntimeError):
    """The source could not be fetched; the text says what git said, without credentials."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a repository's commits come from; `token` is sent as a header, never on a command line."""

    repo_id: int
    url: str
    token: str | None = None


def bundle(folder: Path, source: Source, shas: Sequence[str], number: int | None) -> Path:
    """Return a git bundle that holds the commits `shas`; MirrorError where they cannot be had.

    `folder` keeps the mirrors. Calls for one repository wait for each other, also between processes.
    """
    mirror = folder / f"{source.repo_id}.git"
    name = hashlib.sha256("\n".join(sorted(shas)).encode()).hexdigest()[:32]
    target = folder / f"{source.repo_id}-bundles" / f"{name}.bundle"
    with locked(folder / f"{source.repo_id}.lock"):
        if target.exists():
            os.utime(target)
            return target
        prepare(mirror)
        fetch(mirror, source, shas, number)
        write_bundle(mirror, target, shas)
        drop_old(target.parent)
    return target


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file for the time of the block."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def prepare(mirror: Path) -> None:
    """Make the bare repository where there is none, and drop what a killed git left locked: we are alone."""
    for stale in mirror.rglob("*.lock"):
        stale.unlink(missing_ok=True)
    if not (mirror / "HEAD").exists():
        git(mirror.parent, ["init", "--quiet", "--bare", "--template=", str(mirror)])


def fetch(mirror: Path, source: Source, shas: Sequence[str], number: int | None) -> None:
    """Bring the commits in: branches and the pull request's head first, then each that is still missing."""
    if not missing(mirror, shas):
        return
    wanted = ["+refs/heads/*:refs/heads/*"]
    if number is not None:
        wanted.append(f"+refs/pull/{number}/head:refs/pull/{number}/head")
    if not try_fetch(mirror, source, wanted):
        try_fetch(mirror, source, wanted[:1])
    for sha in missing(mirror, shas):
        try_fetch(mirror, source, [f"+{sha}:refs/prgate/{sha}"])
    still = missing(mirror, shas)
    if still:
        raise MirrorError(f"commit {still[0][:12]} is not to be had from {source.url}")


def missing(mirror: Path, shas: Sequence[str]) -> list[str]:
    """Return those commits that the mirror lacks."""
    return [sha for sha in shas if not succeeds(mirror, ["cat-file", "-e", f"{sha}^{{commit}}"])]


def try_fetch(mirror: Path, source: Source, refspecs: Sequence[str]) -> bool:
    """Fetch; False where the source does not have one of the refs."""
    command = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--", source.url, *refspecs]
    return succeeds(mirror, command, login(source))


def login(source: Source) -> Mapping[str, str]:
    """Return the environment that makes git send the token to this URL alone."""
    if source.token is None or not source.url.startswith(("https://", "http://")):
        return {}
    word = base64.b64encode(f"x-access-token:{source.token}".encode()).decode()
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.{source.url}.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {word}",
    }


def write_bundle(mirror: Path, target: Path, shas: Sequence[str]) -> None:
    """Write the bundle under another name first, so that no reader sees half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    refs = [f"refs/prgate/{sha}" for sha in shas]
    for sha, ref in zip(shas, refs, strict=True):
        git(mirror, ["update-ref", ref, sha])
    half = target.with_suffix(f".{os.getpid()}.part")
    git(mirror, ["bundle", "create", "--quiet", str(half), *refs])
    half.replace(target)


def drop_old(folder: Path) -> None:
    """Keep the newest bundles only, and no half of one."""
    for half in folder.glob("*.part"):
        half.unlink(missing_ok=True)
    found = sorted(folder.glob("*.bundle"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[BUNDLES_KEPT:]:
        path.unlink(missing_ok=True)


def succeeds(folder: Path, arguments: Sequence[str], extra: Mapping[str, str] | None = None) -> bool:
    """Say whether a git command ended well."""
    return run_git(folder, arguments, extra).returncode == 0


def git(folder: Path, arguments: Sequence[str]) -> None:
    """Run a git command; MirrorError where it fails."""
    finished = run_git(folder, arguments)
    if finished.returncode != 0:
        said = finished.stderr.decode("utf-8", "replace").strip().splitlines()
        raise MirrorError(f"git {arguments[0]} failed: {said[-1][:300] if said else 'it said nothing'}")


def run_git(
    folder: Path,
    arguments: Sequence[str],
    extra: Mapping[str, str] | None = None,
    limit_s: float = FETCH_LIMIT_S,
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a bare environment. MirrorError where it takes too long or is not installed."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), **QUIET_GIT, **(extra or {})}
    command = ["git", "-c", f"core.hooksPath={os.devnull}", "-c", "gc.auto=0", *arguments]
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise MirrorError(f"git {arguments[0]} took more than {limit_s:g} s") from None
    except FileNotFoundError:
        raise MirrorError("git is not installed") from None


def refresh(folder: Path, source: Source) -> Path:
    """Bring the mirror's branches up to date and return it. MirrorError where nothing can be fetched."""
    mirror = folder / f"{source.repo_id}.git"
    with locked(folder / f"{source.repo_id}.lock"):
        prepare(mirror)
        if not try_fetch(mirror, source, ["+refs/heads/*:refs/heads/*"]):
            raise MirrorError(f"no branch is to be had from {source.url}")
    return mirror
