"""What `route` and `priority` are asked by: a JSON request, the configuration, and files of paths."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from routing.config import PriorityConfig, RoutingConfig
from routing.models import Level, Person, PullRequest, Value
from routing.ownership import Ownership
from routing.toml_text import load

MAX_REQUEST_BYTES = 32 * 1024 * 1024
MAX_TREE_FILES = 500_000
CONFIG_PATH = ".github/prgate.toml"
M = TypeVar("M", bound=BaseModel)


class InputError(ValueError):
    """The input cannot be used; the text says what, where and what to do, in one line."""


class Request(Value):
    """A request: the tree of the base commit, the pull request, and what is known of people."""

    root: str
    pr: PullRequest
    module_pages: str | None = None
    people: Mapping[str, Person] = {}
    perf_regression: bool = False
    main_is_red: bool = False
    override: Level | None = None


class Config(Value):
    """The two sections of the configuration that routing reads; other sections belong to others."""

    routing: RoutingConfig = RoutingConfig()
    priority: PriorityConfig = PriorityConfig()


def read_bytes(name: str, limit: int = MAX_REQUEST_BYTES) -> bytes:
    """Return the bytes of a file, or of stdin for `-`. InputError if there are none to read, or too many."""
    try:
        if name == "-":
            data = sys.stdin.buffer.read(limit + 1)
        else:
            with Path(name).open("rb") as stream:
                data = stream.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"{name}: cannot be read ({reason})") from error
    if len(data) > limit:
        raise InputError(f"{name}: larger than {limit:,} bytes")
    return data


def read_text(name: str) -> str:
    """Return a file's text (`-`: stdin), with or without BOM, invalid bytes replaced."""
    return read_bytes(name).decode("utf-8", errors="replace").removeprefix("\ufeff")


def read_request(name: str) -> Request:
    """Return the request of a JSON file (`-`: stdin). InputError names each wrong field."""
    try:
        data = json.loads(read_text(name))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not JSON: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(data, dict):
        raise InputError(f"{name}: a request is a JSON object with `root` and `pr`")
    return validate(Request, data, name)


def validate(model: type[M], data: Any, name: str) -> M:
    """Return the value. InputError with the first faults and where they are."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        said = [
            f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg'].lower()}" for fault in faults[:3]
        ]
        more = f" (and {len(faults) - 3} more)" if len(faults) > 3 else ""
        raise InputError(f"{name}: {'; '.join(said)[:500]}{more}") from error


def root_of(request: Request, name: str) -> Path:
    """Return the request's tree, relative to its file or else to here. InputError if it is no folder."""
    beside = Path.cwd() if name == "-" else Path(name).resolve().parent
    for root in (beside / request.root, Path(request.root)):
        if "\0" not in request.root and root.is_dir():
            return root
    raise InputError(
        f"{name}: root: {request.root[:200]!r} is not a folder; give the tree of the base commit"
    )


def read_config(name: str | None, root: Path) -> Config:
    """Return the configuration of a file, by default of the tree, else the defaults. InputError if faulty."""
    path = name or str(root / CONFIG_PATH)
    if name is None and not Path(path).is_file():
        return Config()
    try:
        table = load(read_text(path))
    except ValueError as error:
        raise InputError(f"{path}: not TOML: {' '.join(str(error).split())[:200]}") from error
    return validate(Config, table, path)


def read_ownership(request: Request, config: RoutingConfig, root: Path) -> Ownership:
    """Return the ownership of the request's tree."""
    return Ownership.from_folder(root, request.module_pages or config.module_pages)


def read_paths(name: str) -> list[str]:
    """Return the paths of a file, one a line, or each ended by a NUL."""
    text = read_text(name)
    lines = text.split("\0") if "\0" in text else text.replace("\r\n", "\n").split("\n")
    return [clean_path(line) for line in lines if line]


def clean_path(path: str) -> str:
    """Return a path from the root, as git writes it."""
    while path.startswith("./"):
        path = path[2:]
    return path


def tree_files(root: Path) -> list[str]:
    """Return the files of a tree without git's own, sorted; at most 500,000."""
    found: list[str] = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name != ".git")
        inside = Path(folder).relative_to(root)
        found.extend((inside / name).as_posix().encode("utf-8", "replace").decode() for name in names)
        if len(found) >= MAX_TREE_FILES:
            break
    return sorted(found)[:MAX_TREE_FILES]
