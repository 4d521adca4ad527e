"""The recorded repository's files, kept as text beside this module: `tree/<layer>/<path>.in`."""

from functools import lru_cache
from pathlib import Path

TREE = Path(__file__).parent / "tree"
SUFFIX = ".in"


@lru_cache(maxsize=16)
def layer(name: str) -> dict[str, str]:
    """Return path -> text of one layer; a folder `dot_x` stands for `.x`."""
    folder = TREE / name
    files = sorted(path for path in folder.rglob(f"*{SUFFIX}") if path.is_file())
    if not files:
        raise FileNotFoundError(f"the recorded repository's layer {name!r} is not installed at {folder}")
    return {repository_path(path, folder): path.read_text(encoding="utf-8") for path in files}


def repository_path(path: Path, folder: Path) -> str:
    """Return where a layer's file lies in the repository."""
    text = path.relative_to(folder).as_posix().removesuffix(SUFFIX)
    return text.replace("dot_", ".", 1) if text.startswith("dot_") else text
