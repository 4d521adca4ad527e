"""The folder that a world lives in: one world at a time, made by this version of the demo."""

import fcntl
import hashlib
import json
import shutil
from pathlib import Path
from typing import IO

LOCK = "lock"
SHAPE = "shape.json"
# Every world has one of these from its first moment on; a folder without them is not ours to remove.
SIGNS = {SHAPE, "keys.json"}


def claim_folder(folder: Path, *, fresh: bool) -> IO[str]:
    """Return the held lock of a folder that is ready for a world; closing it gives the folder free.

    A world that another version of the demo made is forgotten: its stand-in's state would not be understood.
    RuntimeError, one line, where another world runs there or the folder holds something else.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RuntimeError(
            f"{str(folder)[:200]} can be no folder ({error.strerror}); choose another with --folder"
        ) from None
    entries = {entry.name for entry in folder.iterdir()} - {LOCK}
    if entries and not entries & SIGNS:
        raise RuntimeError(f"{folder} holds other files; choose an empty or new one with --folder")
    held = (folder / LOCK).open("a", encoding="utf-8")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        held.close()
        raise RuntimeError(f"another demo runs in {folder}; stop it, or choose --folder") from None
    if fresh or read_shape(folder) != shape():
        empty(folder)
    (folder / SHAPE).write_text(json.dumps({"shape": shape()}), encoding="utf-8")
    return held


def empty(folder: Path) -> None:
    """Remove everything of a world but its lock."""
    for entry in folder.iterdir():
        if entry.name == LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def read_shape(folder: Path) -> str | None:
    """Return the version of the demo that made a world; None where it is not known."""
    try:
        found = json.loads((folder / SHAPE).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found.get("shape") if isinstance(found, dict) else None


def shape() -> str:
    """Return what the demo's own code and records hash to: a change of either makes another world."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted(here.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(f"{file.relative_to(here)}\0".encode() + file.read_bytes())
    return digest.hexdigest()
