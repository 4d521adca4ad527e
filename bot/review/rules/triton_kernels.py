"""A Triton kernel trusts its launcher: shapes, strides and dtypes must be checked there."""

import ast
import re
from collections.abc import Iterator

from bot.review.change import Change, FilePatch
from bot.review.models import Finding
from bot.review.python_code import Function, dotted, places

RULE = "triton-kernel-without-checks"
SOURCE = "performance patterns: do not generalize a model-specific Triton kernel"
CHECKS = re.compile(
    r"dtype|shape|stride|size|contiguous|is_cuda|device|head_dim|numel|ndim|supported", re.IGNORECASE
)


def check(change: Change) -> Iterator[Finding]:
    """Yield added launches in functions that check nothing about their input."""
    for file in change.files:
        if file.is_production_python:
            yield from unchecked(file)


def unchecked(file: FilePatch) -> Iterator[Finding]:
    """Yield the launches of one file."""
    kernels = {
        place.node.name
        for place in places(file)
        if isinstance(place.node, Function)
        and any(
            "jit" in dotted(item if not isinstance(item, ast.Call) else item.func)
            for item in place.node.decorator_list
        )
    }
    for place in places(file):
        node = place.node
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)):
            continue
        name = dotted(node.func.value)
        function = place.function
        known = name.rsplit(".", 1)[-1] in kernels or name.endswith("_kernel")
        if not known or function is None or checks_input(function):
            continue
        yield Finding(
            rule=RULE,
            severity="high",
            path=file.path,
            line=place.line,
            says=f"`{name}` is launched by `{function.name}` without a check of dtype, shape or strides.",
            do=(
                "Check what the kernel assumes (dtype, head size, last stride, equal shapes) and take the "
                "eager path or raise "
                "a ValueError that names the input otherwise."
            ),
            source=SOURCE,
        )


def checks_input(function: Function) -> bool:
    """Say whether a function asserts, raises or branches on a property of its input."""
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.Assert | ast.IfExp) and CHECKS.search(ast.unparse(node.test)):
            return True
        if isinstance(node, ast.Call) and re.search(r"check|validate|supported|assert", dotted(node.func)):
            return True
    return False
