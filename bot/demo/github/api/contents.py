"""Files and trees at a commit, out of the git repository."""

import base64
from typing import Any

from fastapi import APIRouter

from bot.demo.github.api.frame import Here
from bot.demo.github.git import Entry
from bot.demo.github.hub import Hub, Refused
from bot.demo.github.shapes import Json

KINDS = {"blob": "file", "tree": "dir", "commit": "submodule"}


router = APIRouter(prefix="/repos/{org}/{repo}")


@router.get("/contents")
@router.get("/contents/{path:path}")
def contents(hub: Here, path: str = "", ref: str = "main") -> Any:
    """Answer `GET /contents and GET /contents/{path:path}`."""
    sha = hub.git.resolve(ref)
    if sha is None:
        raise Refused(404, f"No commit found for the ref {ref}")
    path = path.strip("/")
    folder = hub.git.tree(sha, path)
    if folder is not None:
        return [entry(hub, item, f"{path}/{item.path}".lstrip("/")) for item in folder]
    parent, _, name = path.rpartition("/")
    found = next((item for item in hub.git.tree(sha, parent) or () if item.path == name), None)
    if found is None:
        raise Refused(404, "Not Found")
    raw = hub.git.blob(found.sha) or b""
    small = len(raw) <= 1_000_000
    return {
        **entry(hub, found, path),
        "encoding": "base64" if small else "none",
        "content": base64.encodebytes(raw).decode() if small else "",
    }


def entry(hub: Hub, item: Entry, path: str) -> Json:
    """Return an entry of a folder."""
    return {
        "type": KINDS[item.kind],
        "name": path.rpartition("/")[2],
        "path": path,
        "sha": item.sha,
        "size": item.size,
        "url": f"{hub.shapes.api}/contents/{path}",
        "html_url": f"{hub.shapes.html}/blob/main/{path}",
        "git_url": f"{hub.shapes.api}/git/blobs/{item.sha}",
        "download_url": None,
    }


@router.get("/git/trees/{sha}")
def tree(hub: Here, sha: str, recursive: str = "") -> Json:
    """Answer `GET /git/trees/{sha}`."""
    found = hub.git.tree(sha, recursive=bool(recursive))
    if found is None:
        raise Refused(404, "Not Found")
    entries = [
        {"path": item.path, "type": item.kind, "sha": item.sha, "size": item.size, "mode": "100644"}
        for item in found
    ]
    return {"sha": sha, "tree": entries, "truncated": False}


@router.get("/git/blobs/{sha}")
def blob(hub: Here, sha: str) -> Json:
    """Answer `GET /git/blobs/{sha}`."""
    raw = hub.git.blob(sha)
    if raw is None:
        raise Refused(404, "Not Found")
    return {"sha": sha, "size": len(raw), "encoding": "base64", "content": base64.b64encode(raw).decode()}
