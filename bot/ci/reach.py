"""What the failing tests of a head can reach by imports, asked of a checkout of the merge base.

The checkout holds Python files alone, out of the service's mirror, else out of one commit that is fetched.
Checkouts are kept by commit and answers beside them. Whatever fails or takes too long: no graph, no evidence.
"""

import hashlib
import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bot.ci.failures import Reading
from bot.ci.imports import Reach, read_reach
from bot.ci.snapshot import Snapshot
from bot.clients import Clients
from bot.github import GitHubFault, access_token
from bot.mirror import MirrorError, Source, git, locked, login, missing, prepare, run_git

FETCH_S = 60.0
CHECKOUTS_KEPT = 5
MOST_FILES = 20_000
MOST_BYTES = 200 * 1024**2
MOST_FAILING = 50
MOST_CHANGED = 300
FULL_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
PYTHON = "*.py"


@dataclass(frozen=True, slots=True)
class Question:
    """Do the `failing` files of a commit reach the `changed` ones?"""

    sha: str
    changed: tuple[str, ...]
    failing: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Return a name for it."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:32]


def base_reach(snapshot: Snapshot, readings: Mapping[str, Reading], clients: Clients) -> Reach | None:
    """Return what a head's failing tests reach on its merge base; None where that is not known."""
    asked = question(snapshot, readings)
    if asked is None or clients.mirrors is None:
        return None
    repository, settings = clients.repository, clients.settings
    url = settings.clone_url.format(web=settings.github_web_url, full_name=repository.full_name)
    try:
        token = access_token(clients.credentials, clients.installation_id)
    except GitHubFault:
        return None
    return answer(asked, clients.mirrors, Source(repository.id, url, token))


def question(snapshot: Snapshot, readings: Mapping[str, Reading]) -> Question | None:
    """Return what is to be asked about a head; None where an answer would be none.

    All changed files must be known and Python: what else changed is in no import graph.
    """
    pr = snapshot.pr
    changed = tuple(
        sorted({path for one in pr.changed_files for path in (one.path, one.previous_path) if path})
    )
    red = [readings[job.key] for job in snapshot.jobs if job.is_failure and job.key in readings]
    failures = [one for reading in red for one in reading.failures if one.category == "test"]
    failing = tuple(sorted({one.file for one in failures if one.file and one.file.endswith(".py")}))
    known = pr.changed_files_complete is True and all(path.endswith(".py") for path in changed)
    if not (known and changed and failing) or len(changed) > MOST_CHANGED:
        return None
    if not FULL_SHA.fullmatch(pr.merge_base_sha or ""):
        return None
    return Question(str(pr.merge_base_sha), changed, failing[:MOST_FAILING])


def answer(asked: Question, mirrors: Path, source: Source) -> Reach | None:
    """Return the answer, which is kept; None where there is none to be had."""
    folder = mirrors / f"{source.repo_id}-checkouts"
    kept = folder / asked.sha / "answers" / f"{asked.digest}.json"
    try:
        with locked(mirrors / f"{source.repo_id}-checkouts.lock"):
            kept.parent.mkdir(parents=True, exist_ok=True)
            if not kept.exists():
                found = look(asked, folder, mirrors, source)
                kept.write_text(json.dumps(dict(found.by_file) if found else None), encoding="utf-8")
            os.utime(folder / asked.sha)
            drop_old(folder)
            value = json.loads(kept.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return None if value is None else Reach({file: tuple(paths) for file, paths in value.items()})


def look(asked: Question, folder: Path, mirrors: Path, source: Source) -> Reach | None:
    """Check the commit out and ask; None, and never asked again, where that cannot be done."""
    try:
        check_out(folder, mirrors, source, asked.sha)
    except (MirrorError, OSError, tarfile.TarError):
        return None
    return read_reach(folder / asked.sha / "tree", asked.changed, asked.failing)


def check_out(folder: Path, mirrors: Path, source: Source, sha: str) -> None:
    """Lay a commit's Python files out below `folder`. MirrorError where they cannot be had."""
    target = folder / sha / "tree"
    if target.exists():
        return
    home = repository_with(folder, mirrors, source, sha)
    require_small(home, sha)
    with tempfile.TemporaryDirectory(dir=target.parent) as working:
        packed, half = Path(working) / "files.tar", Path(working) / "tree"
        git(home, ["archive", "--format=tar", f"--output={packed}", sha, "--", PYTHON])
        with tarfile.open(packed) as archive:
            archive.extractall(half, [one for one in archive if one.isfile() or one.isdir()], filter="data")
        half.rename(target)


def repository_with(folder: Path, mirrors: Path, source: Source, sha: str) -> Path:
    """Return a repository that has a commit: the mirror, else one into which it is fetched alone."""
    mirror = mirrors / f"{source.repo_id}.git"
    if (mirror / "HEAD").exists() and not missing(mirror, [sha]):
        return mirror
    own = folder / "git"
    prepare(own)
    if missing(own, [sha]):
        command = ["fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules"]
        finished = run_git(own, [*command, "--", source.url, sha], login(source), FETCH_S)
        if finished.returncode != 0:
            raise MirrorError(f"commit {sha[:12]} is not to be had from {source.url}")
    return own


def require_small(home: Path, sha: str) -> None:
    """Raise MirrorError where a commit holds more Python than a verdict may look at."""
    listed = run_git(home, ["ls-tree", "-r", "-l", "-z", "--full-tree", sha])
    entries = [one.partition(b"\t") for one in listed.stdout.split(b"\0")]
    sizes = [head.split()[-1] for head, _, path in entries if path.endswith(b".py")]
    total = sum(int(size) for size in sizes if size.isdigit())
    if listed.returncode != 0 or len(sizes) > MOST_FILES or total > MOST_BYTES:
        raise MirrorError(f"commit {sha[:12]} holds more than can be looked at")


def drop_old(folder: Path) -> None:
    """Keep the checkouts that were used last."""
    found = [path for path in folder.iterdir() if FULL_SHA.fullmatch(path.name)]
    found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[CHECKOUTS_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)
