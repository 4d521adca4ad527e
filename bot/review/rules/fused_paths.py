"""A fused path needs a guard, an eager fallback, and a test that both give the same."""

import ast
import re
from collections.abc import Iterator

from bot.review.change import Change, FilePatch
from bot.review.models import Finding
from bot.review.python_code import Function, Place, called, dotted, places

SOURCE = "performance patterns: fusion-first operator patterns"
FUSED = re.compile(r"(^|_)fused(_|$)|_fused$|_triton$|^triton_", re.IGNORECASE)
NOT_A_CALL = re.compile(
    r"^_*(is|has|can|use|uses|should|supports|enable|disable|set|get|register|test)_", re.IGNORECASE
)
LEAVES = (ast.Return, ast.Raise)


def check(change: Change) -> Iterator[Finding]:
    """Yield fused calls without a guard, and new fused functions that no changed test names."""
    for file in change.files:
        if file.is_production_python:
            yield from unguarded(file)
            yield from untested(file, change)


def unguarded(file: FilePatch) -> Iterator[Finding]:
    """Yield added calls of a fused function that run whatever the input."""
    for place in places(file):
        name = called(place.node).rsplit(".", 1)[-1]
        if not FUSED.search(name) or NOT_A_CALL.match(name) or place.function is None:
            continue
        if not is_visible(place.function):
            continue
        if FUSED.search(place.function.name) or is_guarded(place):
            continue
        yield Finding(
            rule="fused-path-without-guard",
            severity="high",
            path=file.path,
            line=place.line,
            says=(
                f"`{name}(…)` is taken for every input: no guard by device, dtype, shape or size, and no "
                "eager path."
            ),
            do=(
                "Guard it (device, dtype, head size, a minimum of tokens below which launches cost more "
                "than the kernel "
                "saves), keep the eager path as the fallback, and count which one ran."
            ),
            source=SOURCE,
        )


def is_visible(function: Function) -> bool:
    """Say whether the function's own `def` is in the diff, so that a guard above the call would be seen."""
    arguments = function.args
    return arguments.vararg is None or arguments.vararg.arg != "_"


def is_guarded(place: Place) -> bool:
    """Say whether a branch decides about the call, around it or by leaving before it."""
    function = place.function
    if function is None:
        return True
    inner = place.parents[place.parents.index(function) + 1 :]
    if any(isinstance(parent, ast.If | ast.IfExp | ast.Try | ast.Match | ast.BoolOp) for parent in inner):
        return True
    line = getattr(place.node, "lineno", 0)
    earlier = [node for node in ast.walk(function) if isinstance(node, ast.If) and node.lineno < line]
    return any(isinstance(last, LEAVES) for node in earlier for last in ast.walk(node))


def untested(file: FilePatch, change: Change) -> Iterator[Finding]:
    """Yield new fused functions that none of the changed tests mentions."""
    tests = "\n".join(test.text for test in change.tests)
    for place in places(file):
        if not isinstance(place.node, Function) or place.parents[1:]:
            continue
        name = place.node.name
        is_kernel = any(dotted(item).endswith("jit") for item in place.node.decorator_list)
        if is_kernel or not FUSED.search(name) or NOT_A_CALL.match(name) or name in tests:
            continue
        yield Finding(
            rule="fused-path-without-parity-test",
            severity="medium",
            path=file.path,
            line=place.line,
            says=f"`{name}` is new and no changed test compares it with the eager path.",
            do=(
                "Add a parity test against the unfused order over odd shapes, strided inputs and every "
                "supported dtype, and "
                "one that unsupported input takes the fallback."
            ),
            source=SOURCE,
        )
