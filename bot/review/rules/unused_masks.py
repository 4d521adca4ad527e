"""A mask that is built and then not used costs its memory and its launch for nothing."""

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeGuard

from bot.review.change import Change, FilePatch
from bot.review.models import Finding
from bot.review.python_code import Function, places

RULE = "mask-built-and-unused"
SOURCE = "performance patterns: remove unused masks and allocations"


def check(change: Change) -> Iterator[Finding]:
    """Yield masks that are assigned on an added line and never read in their function."""
    for file in change.files:
        if file.is_production_python:
            yield from unused(file)


def unused(file: FilePatch) -> Iterator[Finding]:
    """Yield the unused masks of one file."""
    told: set[tuple[ast.AST, str]] = set()
    for place in places(file):
        node, function = place.node, place.function
        if not isinstance(node, ast.Assign | ast.AnnAssign) or function is None:
            continue
        if not ends_in_sight(function):
            continue
        if not isinstance(node.value, ast.Call | ast.BinOp | ast.Compare):
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name) and is_dead(target.id, function):
                if (function, target.id) in told:
                    continue
                told.add((function, target.id))
                yield Finding(
                    rule=RULE,
                    severity="medium",
                    path=file.path,
                    line=place.line,
                    says=f"`{target.id}` is built in `{function.name}` and never used there.",
                    do="Do not build it: packed attention that takes `cu_seqlens` reads no dense mask.",
                    source=SOURCE,
                )


def is_mask(name: str) -> bool:
    """Say whether a name speaks of a mask."""
    return "mask" in name.lower() and not name.startswith("_")


def is_dead(name: str, function: Function) -> bool:
    """Say whether a mask reaches nothing but itself and other masks that reach nothing."""
    return is_mask(name) and not {name, "locals", "vars"} & reached(function)


@lru_cache(maxsize=256)
def reached(function: Function) -> set[str]:
    """Return the names that are read for something else than to build a mask that nothing reads."""
    built = [found for node in ast.walk(function) if (found := built_mask(node))]
    inside = {id(node) for _, value in built for node in ast.walk(value)}
    live = {node.id for node in ast.walk(function) if is_load(node) and id(node) not in inside}
    reads: dict[str, set[str]] = {}
    for name, value in built:
        reads.setdefault(name, set()).update(node.id for node in ast.walk(value) if is_load(node))
    waiting = list(live)
    while waiting:
        fresh = reads.pop(waiting.pop(), set()) - live
        live |= fresh
        waiting.extend(fresh)
    return live


def built_mask(node: ast.AST) -> tuple[str, ast.expr] | None:
    """Return the name and the value of an assignment to one mask."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        return (name, node.value) if is_mask(name) else None
    return None


def is_load(node: ast.AST) -> TypeGuard[ast.Name]:
    """Say whether a node reads a name."""
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def ends_in_sight(function: Function) -> bool:
    """Say whether the diff shows the function to its end: its last statement leaves it."""
    return isinstance(function.body[-1], ast.Return | ast.Raise)
