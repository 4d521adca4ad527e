"""A mask that is built and then not used costs its memory and its launch for nothing."""

import ast
from collections.abc import Iterator

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
    for place in places(file):
        node, function = place.node, place.function
        if not isinstance(node, ast.Assign) or function is None or not ends_in_sight(function):
            continue
        if not isinstance(node.value, ast.Call | ast.BinOp | ast.Compare):
            continue
        for target in node.targets:
            if isinstance(target, ast.Name) and is_mask(target.id) and not is_read(target.id, function):
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


def is_read(name: str, function: Function) -> bool:
    """Say whether the function reads the name anywhere, or hands out its whole scope."""
    return any(
        isinstance(node, ast.Name)
        and ((node.id == name and isinstance(node.ctx, ast.Load)) or node.id in {"locals", "vars"})
        for node in ast.walk(function)
    )


def ends_in_sight(function: Function) -> bool:
    """Say whether the diff shows the function to its end: its last statement leaves it."""
    return isinstance(function.body[-1], ast.Return | ast.Raise)
