"""A cache across requests needs a bound and a key that holds all that changes its value."""

import ast
import re
from collections.abc import Iterator
from itertools import islice

from bot.review.change import Change, FilePatch
from bot.review.models import Finding
from bot.review.python_code import Function, Place, called, dotted, names, places

SOURCE = "performance patterns: bounded lifetime and complete key of caches"
BOUND_WORDS = re.compile(r"maxsize|max_size|max_entries|lru|evict", re.IGNORECASE)
TENSOR_MAKERS = re.compile(r"torch\.|\.to\(|device|dtype")
CACHE_NAMES = re.compile(r"(?:^|_)(?:cache|caches|cached|memo|memos)$", re.IGNORECASE)
# What changes a tensor made by a function: where one of these is used, the key must hold it.
MOST_STORES = 60  # stores into mappings that are looked at in one file
PARTS = ("device", "dtype")


def check(change: Change) -> Iterator[Finding]:
    """Yield unbounded caches and incomplete keys on added lines."""
    for file in change.files:
        if not file.is_production_python:
            continue
        for place in places(file, only_added=False):
            yield from unbounded_decorator(place)
        filled = (place for place in places(file) if stored(place.node) is not None)
        for place in islice(filled, MOST_STORES):
            yield from stores(place)


def unbounded_decorator(place: Place) -> Iterator[Finding]:
    """Yield `@cache` and `@lru_cache(maxsize=None)` on functions that make tensors from arguments."""
    node = place.node
    if not isinstance(node, Function) or not node.args.args:
        return
    decorators = [item for item in node.decorator_list if is_unbounded(item)]
    if decorators and TENSOR_MAKERS.search(ast.unparse(node)):
        line = decorators[0].lineno + place.line - node.lineno
        if not {line, place.line} & place.file.added:
            return
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
    entry = stored(node)
    if entry is None or function is None:
        return
    name, key, value = entry
    if not is_cache(name, value, function) or is_request_scoped(name) or is_index(key):
        return
    missing = missing_parts(key, value, function)
    if missing:
        says = f"The key of `{name}` lacks {' and '.join(missing)}, which change the cached value."
        yield finding("incomplete-cache-key", place.file, place.line, says)
    if not is_bounded(name.rsplit(".", 1)[-1], place.file):
        yield finding("unbounded-cache", place.file, place.line, f"`{name}` grows with every new key.")


def stored(node: ast.AST) -> tuple[str, ast.expr, ast.expr] | None:
    """Return the mapping, key and value of `cache[key] = value` and `cache.setdefault(key, value)`."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        return dotted(node.targets[0].value), node.targets[0].slice, node.value
    name, _, method = called(node).rpartition(".")
    if isinstance(node, ast.Call) and method == "setdefault" and len(node.args) == 2:
        return name, node.args[0], node.args[1]
    return None


def is_cache(name: str, value: ast.expr, function: Function) -> bool:
    """Say whether a mapping outlives the call and is a cache by its name, or by its use for tensors."""
    if name.partition(".")[0] in local_names(function) - {"self", "cls"}:
        return False
    return bool(CACHE_NAMES.search(name.rsplit(".", 1)[-1])) or is_memo(name, value, function)


def local_names(function: Function) -> set[str]:
    """Return the arguments of a function and the names that it binds, unless it declares them global."""
    shared = {
        name
        for node in ast.walk(function)
        if isinstance(node, ast.Global | ast.Nonlocal)
        for name in node.names
    }
    arguments = function.args
    given = {item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    bound = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return (given | bound) - shared


def is_memo(name: str, value: ast.expr, function: Function) -> bool:
    """Say whether a function looks a key up in a mapping, reads the value back, and makes it of tensors."""
    tested = any(
        isinstance(node, ast.Compare)
        and any(isinstance(operator, ast.In | ast.NotIn) for operator in node.ops)
        and name in {dotted(item) for item in node.comparators}
        for node in ast.walk(function)
    )
    read = any(
        isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and dotted(node.value) == name
        for node in ast.walk(function)
    )
    got = any(called(node) in {f"{name}.get", f"{name}.setdefault"} for node in ast.walk(function))
    makes_tensors = any(TENSOR_MAKERS.search(ast.unparse(item)) for item in definitions(value, function))
    return (got or (tested and read)) and makes_tensors


def is_bounded(name: str, file: FilePatch) -> bool:
    """Say whether a visible line drops entries of the cache, counts them, or gives it a bound."""
    quoted = re.escape(name)
    drops = re.compile(rf"\b{quoted}\.(?:pop|popitem|clear)\(|\bdel [\w.]*{quoted}\b|len\([\w.]*{quoted}\)")
    makes = re.compile(rf"\b{quoted}\b[^=\n]{{0,200}}=[^=]")
    lines = file.text.splitlines()
    return any(
        drops.search(line) or (makes.search(line) and BOUND_WORDS.search(line)) for line in lines
    ) or bool(re.search(r"max_entries|max_size|evict", file.text))


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
