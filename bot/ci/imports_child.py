"""The child of `bot.ci.imports`: builds the import graph of a checkout and answers one question as JSON."""

import ast
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grimp import ImportGraph

MEMORY_BYTES = 2 * 1024**3
FILES_LIMIT = 20_000


def main() -> None:
    """Read a request from standard input and print which changed files each failing file reaches."""
    import resource

    import grimp

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    request: dict[str, Any] = json.load(sys.stdin)
    checkout = Path(request["checkout"])
    roots = [root for root in (checkout, checkout / "src") if root.is_dir()]
    packages = {package.name: root for root in roots for package in packages_in(root)}
    if not packages:
        raise SystemExit(2)
    sys.path[:0] = [str(root) for root in roots]
    graph = grimp.build_graph(*packages, cache_dir=None, include_external_packages=False)
    modules = {path: module_of(path, packages, checkout) for path in request["changed"]}
    answers = {file: reached(file, checkout, graph, modules) for file in request["failing"]}
    json.dump({file: answer for file, answer in answers.items() if answer is not None}, sys.stdout)


def packages_in(root: Path) -> list[Path]:
    """Return the packages that lie directly in a folder."""
    found = [path for path in sorted(root.iterdir()) if (path / "__init__.py").is_file()]
    found = [path for path in found if path.name.isidentifier()]
    return [path for path in found if sum(1 for _ in path.rglob("*.py")) <= FILES_LIMIT]


def module_of(path: str, packages: dict[str, Path], checkout: Path) -> str | None:
    """Return the module of a path, or None where it is in no package."""
    for name, root in packages.items():
        prefix = (root / name).relative_to(checkout).as_posix()
        if path.startswith(prefix + "/"):
            inner = path[len(prefix) - len(name) :].removesuffix(".py").removesuffix("/__init__")
            return inner.replace("/", ".")
    return None


def reached(
    file: str, checkout: Path, graph: "ImportGraph", modules: dict[str, str | None]
) -> list[str] | None:
    """Return the changed files that a file reaches, or None where it or one of them is not in the graph."""
    source = checkout / file
    if any(module is None or module not in graph.modules for module in modules.values()):
        return None
    if not source.is_file() or not source.resolve().is_relative_to(checkout.resolve()):
        return None
    starts = {name for name in imported_by(source) for name in known_parts(name, graph)}
    if not starts:
        return None
    upstream = starts | {module for start in starts for module in graph.find_upstream_modules(start)}
    return [path for path, module in modules.items() if module in upstream or path == file]


def imported_by(source: Path) -> Iterable[str]:
    """Return the names that a file and the conftest files above it import."""
    for path in (source, *conftests(source)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8", errors="replace"))):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def conftests(source: Path) -> list[Path]:
    """Return the conftest files that pytest loads for a test."""
    return [folder / "conftest.py" for folder in source.parents if (folder / "conftest.py").is_file()]


def known_parts(name: str, graph: "ImportGraph") -> Iterable[str]:
    """Return the modules of the graph that importing a name runs: itself and its packages."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        module = ".".join(parts[:end])
        if module in graph.modules:
            yield module


if __name__ == "__main__":
    main()
