"""How well each repository is owned, read from its mirror in the background: no page waits for a fetch.

A report is kept for the process, for the tip that it was made at. Files come by `git archive`, bounded, and
nothing of the tree is run.
"""

import io
import tarfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from bot import mirror
from bot.clients import credentials
from bot.config import CONFIG_PATH, ConfigError, parse
from bot.db.engine import Sessions
from bot.db.models import Repository
from bot.errors import one_line
from bot.github import access_token
from bot.log import get_logger
from bot.mirror import MirrorError, Source
from bot.ownership import CODEOWNERS_PATHS, MOST_PAGES, PAGE_LIMIT
from bot.settings import Settings
from routing.config import RoutingConfig
from routing.ownership import Ownership
from routing.report import OwnershipReport, report

log = get_logger(__name__)

READ_AGAIN_S = 600.0
FIRST_WAIT_S = 2.0
MOST_FILES = 200_000
ARCHIVE_LIMIT = 64 * 1024**2


@dataclass(frozen=True)
class OwnedTree:
    """The report on one tip; `error` says in words why there is none."""

    sha: str = ""
    read_at: datetime | None = None
    report: OwnershipReport | None = None
    error: str = ""


@dataclass
class Trees:
    """The reports of all repositories that were asked for; `source` says where one is fetched from."""

    folder: Path
    source: Callable[[int], Source]
    _known: dict[int, OwnedTree] = field(default_factory=dict)
    _asked_at_s: dict[int, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, repo_id: int, branch: str) -> OwnedTree | None:
        """Return what is known of a repository, and have it read anew where that is old.

        None while it is being read for the first time, which is waited for a moment.
        """
        with self._lock:
            fresh = time.monotonic() - self._asked_at_s.get(repo_id, float("-inf")) < READ_AGAIN_S
            known = self._known.get(repo_id)
            if fresh:
                return known
            self._asked_at_s[repo_id] = time.monotonic()
        reading = threading.Thread(
            target=self._read, args=(repo_id, branch), name="ownership report", daemon=True
        )
        reading.start()
        if known is None:
            reading.join(FIRST_WAIT_S)
        return self._known.get(repo_id)

    def _read(self, repo_id: int, branch: str) -> None:
        try:
            path = mirror.refresh(self.folder, self.source(repo_id))
            found = read_tree(path, branch, self._known.get(repo_id))
        except Exception as error:
            # A page says that it could not be read; the service goes on.
            log.warning("no ownership report", repo=repo_id, error=one_line(error))
            says = str(error) if isinstance(error, MirrorError) else "it could not be read"
            found = OwnedTree(error=says[:300])
        self._known[repo_id] = found


def read_tree(path: Path, branch: str, known: OwnedTree | None) -> OwnedTree:
    """Return the report on a branch's tip; the known one where it did not move. MirrorError without a tip."""
    sha = said(path, ["rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}"])
    sha_text = sha.decode().strip()
    if known is not None and known.sha == sha_text:
        return known
    sizes = listed(said(path, ["ls-tree", "-r", "-l", "-z", "--full-tree", sha_text]))
    config = routing_config(path, sha_text, sizes)
    ownership = ownership_of(path, sha_text, sizes, config.module_pages)
    return OwnedTree(sha_text, datetime.now(UTC), report(ownership, list(sizes)))


def listed(text: bytes) -> dict[str, int]:
    """Return path -> size in bytes of a tree's files, the first 200,000."""
    found: dict[str, int] = {}
    for line in text.split(b"\0")[:MOST_FILES]:
        facts, _, name = line.partition(b"\t")
        size = facts.split()[-1:]
        if name and size and size[0].isdigit():
            found[name.decode("utf-8", "replace")] = int(size[0])
    return found


def routing_config(path: Path, sha: str, sizes: Mapping[str, int]) -> RoutingConfig:
    """Return the routing section of the tree's configuration; the defaults where it cannot be used."""
    text = files_at(path, sha, [CONFIG_PATH] if CONFIG_PATH in sizes else [], sizes).get(CONFIG_PATH)
    try:
        return parse(text).routing if text is not None else RoutingConfig()
    except ConfigError:
        return RoutingConfig()


def ownership_of(path: Path, sha: str, sizes: Mapping[str, int], module_pages: str) -> Ownership:
    """Return who owns what at a commit."""
    folder = module_pages.strip("/") + "/"
    place = next((one for one in CODEOWNERS_PATHS if one in sizes), None)
    pages = [one for one in sizes if one.startswith(folder) and one.endswith(".md")][:MOST_PAGES]
    texts = files_at(path, sha, [*pages, *([place] if place else [])], sizes)
    lines = texts.pop(place, None) if place else None
    return Ownership.from_texts(lines, texts, place or "CODEOWNERS")


def files_at(path: Path, sha: str, wanted: Sequence[str], sizes: Mapping[str, int]) -> dict[str, str]:
    """Return the texts of some files of a commit; larger ones than a page may be are left out."""
    small = [name for name in wanted if sizes.get(name, PAGE_LIMIT + 1) <= PAGE_LIMIT]
    if not small:
        return {}
    packed = said(path, ["archive", "--format=tar", sha, "--", *(f":(literal){name}" for name in small)])
    found = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() else None
            if stream is not None:
                found[member.name] = stream.read(PAGE_LIMIT).decode("utf-8", "replace")
    return found


def said(path: Path, arguments: Sequence[str]) -> bytes:
    """Return what git prints. MirrorError where it fails, or prints too much."""
    finished = mirror.run_git(path, arguments)
    if finished.returncode != 0:
        raise MirrorError(f"git {arguments[0]} found nothing there")
    if len(finished.stdout) > ARCHIVE_LIMIT:
        raise MirrorError("the tree is too large to report on")
    return finished.stdout


def service_trees(settings: Settings, sessions: Sessions) -> Trees:
    """Return the trees of a service: beside the runner lane's mirrors, fetched as the service logs in."""

    def source(repo_id: int) -> Source:
        with sessions() as session:
            row = session.get_one(Repository, repo_id)
        url = settings.clone_url.format(web=settings.github_web_url, full_name=row.full_name)
        return Source(repo_id, url, access_token(credentials(settings), row.installation_id))

    return Trees(settings.data_dir.resolve() / "mirrors", source)
