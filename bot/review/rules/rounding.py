"""A fused residual and norm must round where the unfused path stored: before the norm."""

import ast
import re
from collections.abc import Iterator

from bot.review.change import Change, FilePatch
from bot.review.models import Finding
from bot.review.python_code import Function, called, dotted, names, places

RULE = "rounding-boundary-lost"
SOURCE = "performance patterns: preserve the unfused materialization boundary"
STATISTICS = frozenset({"sum", "mean", "var", "rsqrt", "pow", "square", "layer_norm", "rms_norm"})
NORM = re.compile(r"rsqrt|sqrt\(|layer_norm|rms_norm", re.IGNORECASE)
MOST_SUMS = 40  # that are followed in one function
RESIDUAL = re.compile(r"resid|skip|hidden|\bx\b|\bh\b", re.IGNORECASE)


def check(change: Change) -> Iterator[Finding]:
    """Yield sums that are stored in a narrow dtype while the norm goes on with the wide one."""
    for file in change.files:
        if not file.is_production_python:
            continue
        for place in places(file, only_added=False):
            if not isinstance(place.node, Function) or not NORM.search(ast.unparse(place.node)):
                continue
            offset = place.line - place.node.lineno
            for name, lines in lost_boundary(place.node):
                at = next((line + offset for line in lines if line + offset in file.added), None)
                if at is not None:
                    yield finding(file, at, place.node.name, name)


def finding(file: FilePatch, line: int, function: str, name: str) -> Finding:
    """Describe one lost boundary."""
    return Finding(
        rule=RULE,
        severity="high",
        path=file.path,
        line=line,
        says=f"`{function}` stores `{name}` rounded but normalises the unrounded sum.",
        do=(
            "Round to the stored dtype and promote again before the norm, and compare the denoise "
            "trajectory with the unfused order."
        ),
        source=SOURCE,
    )


def lost_boundary(function: Function) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each sum that is stored or cast and enters a statistic uncast: its name, its lines."""
    sums = {
        target.id: node.lineno
        for node in ast.walk(function)
        if isinstance(node, ast.Assign | ast.AugAssign) and is_sum(node)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and RESIDUAL.search(ast.unparse(node))
    }
    for name in sorted(sums)[:MOST_SUMS]:
        stored = stored_at(name, function)
        if stored and not rounded_back(name, sums[name], function) and in_statistics(name, function):
            yield name, (sums[name], stored)


def is_sum(node: ast.Assign | ast.AugAssign) -> bool:
    """Say whether an assignment adds two values."""
    operation = node.op if isinstance(node, ast.AugAssign) else getattr(node.value, "op", None)
    return isinstance(operation, ast.Add)


def stored_at(name: str, function: Function) -> int | None:
    """Return the line where the sum is written out: `tl.store(…, name…)` or `other = name.to(…)`."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and is_store(node, name):
            return node.lineno
        if isinstance(node, ast.Assign) and is_cast(node.value, name) and not binds(node, name):
            return node.lineno
    return None


def is_store(call: ast.Call, name: str) -> bool:
    """Say whether a call stores a value that is made of the name."""
    return called(call).endswith("store") and len(call.args) > 1 and name in names(call.args[1])


def binds(node: ast.Assign, name: str) -> bool:
    """Say whether an assignment binds the name."""
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def is_cast(node: ast.AST, name: str) -> bool:
    """Say whether an expression is `name.to(…)` and no more."""
    return isinstance(node, ast.Call) and dotted(node.func) == f"{name}.to"


def rounded_back(name: str, line: int, function: Function) -> bool:
    """Say whether the name is bound again after `line` from a cast of itself."""
    return any(
        isinstance(node, ast.Assign)
        and node.lineno > line
        and binds(node, name)
        and ".to(" in ast.unparse(node.value)
        and name in names(node.value)
        for node in ast.walk(function)
    )


def in_statistics(name: str, function: Function) -> bool:
    """Say whether the name itself enters a mean, a variance or a norm."""
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Call)
            and called(node).rsplit(".", 1)[-1] in STATISTICS
            and name in names(node)
        ):
            return True
    return False
