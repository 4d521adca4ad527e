"""A cache across requests needs a bound and a key that holds all that changes its value."""

import ast
import re
from collections.abc import Iterator

from bot.review.change import Change, FilePatch
from bot.review.models import Finding
from bot.review.python_code import Function, Place, called, dotted, names, places

SOURCE = "performance patterns: bounded lifetime and complete key of caches"
BOUNDS = re.compile(
    r"popitem|\.pop\(|\bdel |\.clear\(|maxsize|max_size|max_entries|len\(|LRU|OrderedDict|evict",
    re.IGNORECASE,
)
TENSOR_MAKERS = re.compile(r"torch\.|\.to\(|device|dtype")
CACHE_NAMES = re.compile(r"(?:^|_)(?:cache|caches|cached|memo|memos)$", re.IGNORECASE)
# What changes a tensor made by a function: where one of these is used, the key must hold it.
PARTS = ("device", "dtype")


def check(change: Change) -> Iterator[Finding]:
    """Yield unbounded caches and incomplete keys on added lines."""
    for file in change.files:
        if not file.is_production_python:
            continue
        for place in places(file):
            yield from unbounded_decorator(place)
            yield from stores(place)


def unbounded_decorator(place: Place) -> Iterator[Finding]:
    """Yield `@cache` and `@lru_cache(maxsize=None)` on functions that make tensors from arguments."""
    node = place.node
    if not isinstance(node, Function) or not node.args.args:
        return
    decorators = [item for item in node.decorator_list if is_unbounded(item)]
    if decorators and TENSOR_MAKERS.search(ast.unparse(node)):
        line = decorators[0].lineno + place.line - node.lineno
        yield finding("unbounded-cache", place.file, line, f"`{node.name}` keeps every result for ever.")


def is_unbounded(decorator: ast.expr) -> bool:
    """Say whether a decorator caches without a bound."""
    if isinstance(decorator, ast.Call):
        if dotted(decorator.func).rsplit(".", 1)[-1] != "lru_cache":
            return False
        sizes = [*decorator.args, *(item.value for item in decorator.keywords if item.arg == "maxsize")]
        return any(isinstance(size, ast.Constant) and size.value is None for size in sizes)
    return dotted(decorator).rsplit(".", 1)[-1] == "cache" and dotted(decorator) in {
        "cache",
        "functools.cache",
    }


def stores(place: Place) -> Iterator[Finding]:
    """Yield what is wrong with `cache[key] = value`."""
    node, function = place.node, place.function
    if not isinstance(node, ast.Assign) or function is None or not isinstance(node.targets[0], ast.Subscript):
        return
    target = node.targets[0]
    name = dotted(target.value)
    if not CACHE_NAMES.search(name.rsplit(".", 1)[-1]) or is_request_scoped(name) or is_index(target.slice):
        return
    missing = missing_parts(target.slice, node.value, function)
    if missing:
        says = f"The key of `{name}` lacks {' and '.join(missing)}, which change the cached value."
        yield finding("incomplete-cache-key", place.file, place.line, says)
    if not BOUNDS.search(place.file.text):
        yield finding("unbounded-cache", place.file, place.line, f"`{name}` grows with every new key.")


def is_request_scoped(name: str) -> bool:
    """Say whether the cache hangs on a request, where its life is bounded."""
    return bool(re.search(r"request|state|kv_cache|past_key|feat", name, re.IGNORECASE))


def is_index(key: ast.AST) -> bool:
    """Say whether a key is a place in a list of fixed length, such as a layer's number."""
    named = dotted(key).rsplit(".", 1)[-1].lower()
    return isinstance(key, ast.Constant) or bool(
        re.search(r"(?:^|_)(?:idx|index|i|n|layer|step|pos)$", named)
    )


def missing_parts(key: ast.AST, value: ast.AST, function: Function) -> list[str]:
    """Return the parts that make the value but are not in its key."""
    key_text = " ".join(ast.unparse(item) for item in definitions(key, function))
    made_of = " ".join(ast.unparse(item) for item in definitions(value, function))
    return [part for part in PARTS if re.search(rf"\b{part}\b", made_of) and part not in key_text]


def definitions(node: ast.AST, function: Function) -> list[ast.AST]:
    """Return an expression and what its names were assigned from in the function, one level deep."""
    used = names(node)
    assigned = [
        item.value
        for item in ast.walk(function)
        if isinstance(item, ast.Assign) and any(dotted(target) in used for target in item.targets)
    ]
    return [node, *(value for value in assigned if value is not node and not called(value).endswith(".get"))]


def finding(rule: str, file: FilePatch, line: int, says: str) -> Finding:
    """Describe one cache."""
    return Finding(
        rule=rule,
        severity="medium",
        path=file.path,
        line=line,
        says=says,
        do=(
            "Bound it, and key it by shape, layout, device, dtype, schedule, task and adapter; or keep it "
            "on the request."
        ),
        source=SOURCE,
    )
