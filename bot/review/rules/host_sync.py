"""A device-to-host copy in a forward path or a denoise loop stalls the device once per layer or step."""

import ast
import re
from collections.abc import Iterator

from bot.review.change import Change
from bot.review.models import Finding
from bot.review.python_code import Function, Place, called, over, places

RULE = "device-sync-in-hot-path"
SOURCE = "performance patterns: eliminate per-layer synchronization"
COPIES = frozenset({"item", "tolist", "cpu", "numpy"})
HOT_FUNCTIONS = re.compile(r"^_?(forward|diffuse|denoise|predict_noise|attention|attn)")
LAYERS = re.compile(r"Block|Attention|Attn|Layer|Processor|MLP", re.IGNORECASE)
HOT_LOOPS = re.compile(r"timesteps|sigmas|num_inference_steps|blocks|layers", re.IGNORECASE)
REDUCTIONS = frozenset({"max", "min", "sum", "any", "all", "argmax", "argmin", "count_nonzero", "amax"})
LENGTHS = re.compile(r"(cu_?seq_?lens?|seq_?lens?_tensor|lengths_tensor)", re.IGNORECASE)


def check(change: Change) -> Iterator[Finding]:
    """Yield each added copy to the host inside a hot function or loop."""
    for file in change.files:
        if not file.is_production_python:
            continue
        for place in places(file):
            shown = synchronises(place.node)
            if shown and is_hot(place):
                yield finding(place, shown)


def synchronises(node: ast.AST) -> str | None:
    """Return what of a call waits for the device, as a reader would write it."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        return next((f"if ….{name}()" for name in truths(node.test)), None)
    if not isinstance(node, ast.Call):
        return None
    name = called(node)
    last = name.rsplit(".", 1)[-1]
    if last == "synchronize":
        return f"{name}()"
    if last == "to" and any(is_cpu(value) for value in (*node.args, *(each.value for each in node.keywords))):
        return '.to("cpu")'
    if isinstance(node.func, ast.Attribute) and last in COPIES and not node.args and not node.keywords:
        return None if name.endswith("shape.tolist") else f".{last}()"
    if name in {"int", "float", "bool"} and len(node.args) == 1:
        return f"{name}(…)" if reads_tensor(node.args[0]) else None
    return None


def truths(test: ast.expr) -> Iterator[str]:
    """Yield the `any` and `all` of tensors whose truth decides a branch."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from truths(value)
    elif isinstance(test, ast.UnaryOp):
        yield from truths(test.operand)
    elif isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and reads_tensor(test):
        yield test.func.attr


def is_cpu(node: ast.AST) -> bool:
    """Say whether an expression is the host by name."""
    return isinstance(node, ast.Constant) and node.value == "cpu"


def reads_tensor(node: ast.AST) -> bool:
    """Say whether an expression surely is a value on the device: a reduction, or an entry of `cu_seqlens`."""
    if isinstance(node, ast.Subscript):
        return bool(LENGTHS.search(called_or_name(node.value)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return (
            node.func.attr in REDUCTIONS
            and not node.args
            and called(node).split(".")[0] not in {"np", "math"}
        )
    return False


def called_or_name(node: ast.AST) -> str:
    """Return the last name of an expression."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_hot(place: Place) -> bool:
    """Say whether the place runs once per layer or per step."""
    function = place.function
    if in_hot_loop(place):
        return True
    return function is not None and (
        bool(HOT_FUNCTIONS.match(function.name)) or serves_forward(function.name, place)
    )


def serves_forward(name: str, place: Place) -> bool:
    """Say whether the class's own forward, where it is in sight, calls the method."""
    owner = next((each for each in reversed(place.parents) if isinstance(each, ast.ClassDef)), None)
    forward = [each for each in owner.body if isinstance(each, Function)] if owner else []
    return any(
        called(node) == f"self.{name}"
        for method in forward
        if method.name == "forward"
        for node in ast.walk(method)
    )


def in_hot_loop(place: Place) -> bool:
    """Say whether a loop over layers or steps runs the place."""
    return any(HOT_LOOPS.search(over(loop)) for loop in place.loops)


def finding(place: Place, shown: str) -> Finding:
    """Describe one copy."""
    where = place.function.name if place.function else "this loop"
    per_layer = LAYERS.search(place.class_name) or in_hot_loop(place)
    often = ", here once per layer or step" if per_layer else " in every forward"
    return Finding(
        rule=RULE,
        severity="high" if per_layer else "medium",
        path=place.file.path,
        line=place.line,
        says=f"`{shown}` in `{where}` makes the host wait for the device{often}.",
        do=(
            "Compute the value once on the host while the request is packed and pass it in; show in a "
            "trace that the "
            "synchronisation is gone."
        ),
        source=SOURCE,
    )
