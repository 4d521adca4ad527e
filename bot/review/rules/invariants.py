"""Work that depends on the request alone belongs before the denoise loop, not into it or into a layer."""

import ast
import re
from collections.abc import Iterator

from bot.review.change import Change
from bot.review.models import Finding
from bot.review.python_code import Place, assigned, called, names, places

RULE = "request-invariant-rebuilt"
SOURCE = "performance patterns: hoist request invariants"
STEP_LOOPS = re.compile(r"timesteps|sigmas|num_inference_steps|\bsteps\b", re.IGNORECASE)
INVARIANTS = re.compile(
    r"(rope|rotary|freqs|cos_sin|pos(ition)?_?(ids|emb)|mask|metadata|token_refiner|condition_proj|context_proj"
    r"|text_proj|encode_prompt|caption|text_encoder)",
    re.IGNORECASE,
)
APPLIED = re.compile(r"apply|rotate", re.IGNORECASE)
LAYERS = re.compile(r"(Block|Attention|Attn|Layer|Processor)", re.IGNORECASE)
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
            loop = step_loop(place)
            if loop is not None and is_invariant(place.node, loop):
                yield finding(
                    place,
                    f"`{called(place.node)}(…)` is called in every step with nothing that changes from "
                    "step to step",
                )
            elif loop is None and builds_table_in_layer(place):
                yield finding(place, f"`{called(place.node)}(…)` builds a table in every layer")


def step_loop(place: Place) -> ast.For | None:
    """Return the loop over timesteps around the place."""
    return next((loop for loop in place.loops if STEP_LOOPS.search(ast.unparse(loop.iter))), None)


def is_invariant(call: ast.Call, loop: ast.For) -> bool:
    """Say whether a call builds a known invariant from names that the loop never binds."""
    name = called(call)
    last = name.rsplit(".", 1)[-1]
    if not INVARIANTS.search(last) or APPLIED.search(last):
        return False
    changing = assigned(loop.target) | {found for statement in loop.body for found in assigned(statement)}
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    used = {used for argument in arguments for used in names(argument)}
    return not used & changing


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
    return statement is not None and bool(TABLES.search(ast.unparse(statement)))


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
