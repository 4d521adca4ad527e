"""Work that depends on the request alone belongs before the denoise loop, not into it or into a layer."""

import ast
import re
from collections.abc import Iterator

from bot.review.change import Change
from bot.review.models import Finding
from bot.review.python_code import Function, Loop, Place, called, changed, over, places, values

RULE = "request-invariant-rebuilt"
SOURCE = "performance patterns: hoist request invariants"
STEP_LOOPS = re.compile(r"timesteps|sigmas|num_inference_steps|\bsteps\b", re.IGNORECASE)
LAYER_LOOPS = re.compile(r"(?:^|[._(])(?:\w{0,40}_)?(?:blocks|layers)\b", re.IGNORECASE)
INVARIANTS = re.compile(
    r"(rope|rotary|freqs|cos_sin|pos(ition)?_?(ids|emb)|mask|metadata|token_refiner|condition_proj|context_proj"
    r"|text_proj|^encode$|encode_(?:prompt|image|text)|caption|text_encoder)",
    re.IGNORECASE,
)
APPLIED = re.compile(r"apply|rotate", re.IGNORECASE)
LAYERS = re.compile(r"(Block|Attention|Attn|Layer|Processor)", re.IGNORECASE)
OWN_LAYER = re.compile(r"layer_(?:idx|id|index|type)|is_sliding", re.IGNORECASE)
BUILDS = frozenset({"arange", "outer", "polar", "linspace", "meshgrid", "einsum"})
TABLES = re.compile(r"rope|rotary|freq|cos|sin|theta|position|pos_|table", re.IGNORECASE)


def check(change: Change) -> Iterator[Finding]:
    """Yield each added rebuild of a request invariant per step or per layer."""
    for file in change.files:
        if not file.is_production_python:
            continue
        for place in places(file):
            if not isinstance(place.node, ast.Call):
                continue
            rebuilt = next((loop for loop in repeating(place) if is_invariant(place.node, loop)), None)
            if rebuilt is not None:
                unit = "step" if STEP_LOOPS.search(over(rebuilt)) else "layer"
                yield finding(
                    place,
                    f"`{called(place.node)}(…)` is called in every {unit} with nothing that changes from "
                    f"{unit} to {unit}",
                )
            elif builds_table_in_layer(place):
                yield finding(place, f"`{called(place.node)}(…)` builds a table in every layer")


def repeating(place: Place) -> tuple[Loop, ...]:
    """Return the loops over timesteps or layers whose body holds the place."""
    return tuple(
        loop for loop in place.loops if STEP_LOOPS.search(text := over(loop)) or LAYER_LOOPS.search(text)
    )


def is_invariant(call: ast.Call, loop: Loop) -> bool:
    """Say whether a call builds a known invariant from names that the loop never binds."""
    name = called(call)
    last = name.rsplit(".", 1)[-1]
    if not INVARIANTS.search(last) or APPLIED.search(last):
        return False
    changing = changed(loop)
    return not values(call) & changing


def builds_table_in_layer(place: Place) -> bool:
    """Say whether a layer's forward makes a rotary or position table by itself."""
    function = place.function
    if (
        function is None
        or function.name not in {"forward", "__call__"}
        or not LAYERS.search(place.class_name)
    ):
        return False
    if called(place.node).rsplit(".", 1)[-1] not in BUILDS:
        return False
    statement = next((parent for parent in reversed(place.parents) if isinstance(parent, ast.stmt)), None)
    if statement is None or not TABLES.search(ast.unparse(statement)):
        return False
    return not differs_by_layer(statement, function)


def differs_by_layer(statement: ast.stmt, function: Function) -> bool:
    """Say whether a statement, or what its names were assigned from, reads the layer's own number or kind."""
    used = values(statement)
    sources = [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and any(used & changed(target) for target in node.targets)
    ]
    return any(OWN_LAYER.search(ast.unparse(node)) for node in (statement, *sources))


def finding(place: Place, says: str) -> Finding:
    """Describe one rebuild."""
    return Finding(
        rule=RULE,
        severity="high",
        path=place.file.path,
        line=place.line,
        says=f"{says}.",
        do=(
            "Build it once per request before the denoise loop and pass it in; keep it on the request, "
            "not on the "
            "pipeline, where requests are batched."
        ),
        source=SOURCE,
    )
