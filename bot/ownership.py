"""Reads who owns what at a commit: CODEOWNERS where GitHub looks for it, and the module pages."""

from collections.abc import Mapping

from bot.github import BLOB_LIMIT, Cache, RepoClient
from routing.ownership import Ownership

CODEOWNERS_PATHS = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
MOST_PAGES = 500
PAGE_LIMIT = 256_000

_read = Cache(100)


def read_ownership(client: RepoClient, ref: str, module_pages: str) -> Ownership:
    """Return the ownership at a commit; kept for the process, since a commit never changes."""
    key = (client.full_name, ref, module_pages)
    known: Ownership | None = _read.get(key)
    if known is None:
        path, text = read_codeowners(client, ref)
        known = Ownership.from_texts(text, read_pages(client, ref, module_pages), path)
        _read.put(key, known)
    return known


def read_codeowners(client: RepoClient, ref: str) -> tuple[str, str | None]:
    """Return path and text of the file that GitHub uses: the first that is there; text None without one."""
    for path in CODEOWNERS_PATHS:
        found = client.text_at(path, ref)
        if found is not None:
            return path, found[1]
    return "CODEOWNERS", None


def read_pages(client: RepoClient, ref: str, folder: str) -> Mapping[str, str]:
    """Return the module pages at a commit: path -> text."""
    parent, _, name = folder.strip("/").rpartition("/")
    entries = client.folder(parent, ref)
    tree = next((one["sha"] for one in entries if one["name"] == name and one["type"] == "dir"), None)
    if tree is None:
        return {}
    pages = [one for one in client.tree(tree) if is_page(one)][:MOST_PAGES]
    return {f"{folder.strip('/')}/{one['path']}": client.blob(one["sha"]) for one in pages}


def is_page(entry: Mapping[str, object]) -> bool:
    """Say whether a tree's entry is a Markdown file of a sensible size."""
    size = entry.get("size")
    small = isinstance(size, int) and size <= min(PAGE_LIMIT, BLOB_LIMIT)
    return entry.get("type") == "blob" and str(entry.get("path", "")).endswith(".md") and small


def edits_ownership(paths: list[str], module_pages: str) -> bool:
    """Say whether changed paths hold CODEOWNERS or a module page."""
    folder = module_pages.strip("/") + "/"
    return any(path in CODEOWNERS_PATHS or path.startswith(folder) for path in paths)
