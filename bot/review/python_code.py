"""The Python of a diff as syntax trees, though a hunk begins and ends anywhere."""

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from bot.review.change import FilePatch, Hunk

MOST_DROPPED = 40  # lines cut from the top of a hunk until the rest parses
MOST_TRIES = 30
HEADER = re.compile(r"(?:async\s+)?(def|class)\s+([A-Za-z_]\w{0,100})")
METADATA = frozenset({"device", "dtype", "shape", "ndim"})
Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.While


@dataclass(frozen=True)
class Place:
    """A node with the nodes around it, outermost first, in a file of the change."""

    file: FilePatch
    node: ast.AST
    parents: tuple[ast.AST, ...]
    line: int

    @property
    def function(self) -> Function | None:
        """Return the innermost function around the node."""
        found = [parent for parent in self.parents if isinstance(parent, Function)]
        return found[-1] if found else None

    @property
    def class_name(self) -> str:
        """Return the name of the innermost class around the node, or nothing."""
        found = [parent.name for parent in self.parents if isinstance(parent, ast.ClassDef)]
        return found[-1] if found else ""

    @property
    def loops(self) -> tuple[Loop, ...]:
        """Return the loops that run the node again and again within its function, outermost first."""
        start = self.parents.index(self.function) if self.function else 0
        chain = (*self.parents[start:], self.node)
        pairs = pairwise(chain)
        return tuple(each for each, child in pairs if isinstance(each, Loop) and child in each.body)


@dataclass(frozen=True)
class Fragment:
    """A parsed hunk: `offset` turns a line of the tree into a line of the file; `whole`: a new file."""

    tree: ast.Module
    offset: int
    whole: bool


def places(file: FilePatch, only_added: bool = True) -> tuple[Place, ...]:
    """Return every node of the file's hunks; with `only_added` those that start on an added line."""
    return tuple(place for place in all_places(file) if not only_added or place.line in file.added)


@lru_cache(maxsize=256)
def all_places(file: FilePatch) -> tuple[Place, ...]:
    """Return every node of what of the file's hunks parses; the rest is left unread."""
    parsed = (parse_hunk(hunk, file.is_new) for hunk in file.hunks)
    return tuple(
        Place(file, node, parents, node.lineno + fragment.offset)
        for fragment in parsed
        if fragment is not None
        for node, parents in walk(fragment.tree, ())
        if isinstance(node, ast.stmt | ast.expr)
    )


def walk(node: ast.AST, parents: tuple[ast.AST, ...]) -> Iterator[tuple[ast.AST, tuple[ast.AST, ...]]]:
    """Yield each node below `node` with its parents."""
    inner = (*parents, node)
    for child in ast.iter_child_nodes(node):
        yield child, inner
        yield from walk(child, inner)


def parse_hunk(hunk: Hunk, whole: bool) -> Fragment | None:
    """Return the tree of a hunk, with scaffolding around code that starts inside a block.

    A statement that the hunk's edges cut is dropped: from the top or the end, where the parser stumbles.
    """
    lines = [line.text.expandtabs(8) for line in hunk.lines]
    top, end = 0, len(lines)
    for _ in range(MOST_TRIES):
        if top >= end:
            return None
        scaffold = scaffolding(lines[top:end], hunk.header)
        tree, stumbled = parse([*scaffold, *lines[top:end]])
        if tree is not None:
            return Fragment(tree, hunk.lines[0].number + top - 1 - len(scaffold), whole)
        place = stumbled - len(scaffold)  # 1 is the first line that is left
        if place <= MOST_DROPPED and place <= (end - top) // 2:
            top += max(1, place)
        else:
            end = min(end - 1, max(top, top + place - 1))
    return None


def parse(lines: list[str]) -> tuple[ast.Module | None, int]:
    """Return the tree, or None and the number of the line that the parser stumbled over (0: none to name)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in a stranger's string is no concern
            return ast.parse("\n".join(lines)), 0
    except SyntaxError as error:
        return None, error.lineno or 0
    except (ValueError, RecursionError, MemoryError):
        return None, 0


def scaffolding(lines: list[str], header: str) -> list[str]:
    """Return opening lines for the blocks that the hunk starts inside of, outermost first."""
    levels = falling_indents(lines)
    if not levels:
        return []
    named = HEADER.match(header)
    opened: list[str] = []
    outer = 0
    for level in reversed(levels):
        if level == 0:
            continue
        opened.append(" " * outer + opening(lines, outer, named if not opened else None))
        outer = level
    return opened


def opening(lines: list[str], outer: int, named: re.Match[str] | None) -> str:
    """Return the line that opens a block at indent `outer`: the header's function, or a neutral one."""
    follows = next((line.strip() for line in lines if indent(line) == outer and line.strip()), "")
    if follows.startswith(("except", "finally")):
        return "try:"
    if named and named[1] == "def":
        return f"def {named[2]}(*_):"
    if named:
        return f"class {named[2]}:"
    return "if True:"


def falling_indents(lines: list[str]) -> list[int]:
    """Return the indents that the hunk falls to, one after the other: those of blocks it did not open."""
    falling: list[int] = []
    for line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            depth = indent(line)
            if not falling or depth < falling[-1]:
                falling.append(depth)
    return falling


def indent(line: str) -> int:
    """Return the number of leading blanks."""
    return len(line) - len(line.lstrip(" "))


def over(loop: Loop) -> str:
    """Return what a loop runs over, or as long as, as text."""
    return ast.unparse(loop.iter if isinstance(loop, ast.For) else loop.test)


def called(node: ast.AST) -> str:
    """Return the dotted name of what a call calls (`torch.cuda.synchronize`), as far as it is one."""
    return dotted(node.func) if isinstance(node, ast.Call) else ""


def dotted(node: ast.AST) -> str:
    """Return the dotted name of an expression; a part that is no name shows as nothing."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Subscript):
        return dotted(node.value)
    return ""


def names(node: ast.AST) -> set[str]:
    """Return every name and dotted attribute that is read or written below `node`."""
    found = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
    return found | {dotted(child) for child in ast.walk(node) if isinstance(child, ast.Attribute)}


def values(node: ast.AST) -> set[str]:
    """Return the names whose value is read below `node`; of `x.device` or `x.shape` it is not."""
    if isinstance(node, ast.Attribute) and node.attr in METADATA:
        return set()
    own = {node.id} if isinstance(node, ast.Name) else set()
    return own.union(*(values(child) for child in ast.iter_child_nodes(node)))


def changed(node: ast.AST) -> set[str]:
    """Return the names that are bound or changed in place below `node`."""
    return {name for child in ast.walk(node) if (name := changed_by(child))}


def changed_by(node: ast.AST) -> str:
    """Return the name that a node binds, stores into or calls a changing method of, or nothing."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else ""
    if isinstance(node, ast.Subscript | ast.Attribute):
        return root(node) if isinstance(node.ctx, ast.Store) else ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        in_place = node.func.attr.endswith("_") or node.func.attr in {"append", "extend", "update", "pop"}
        return root(node.func.value) if in_place else ""
    return ""


def root(node: ast.AST) -> str:
    """Return the name that an expression starts at (`x` of `x.y[0]`), or nothing; `self` is none."""
    name = dotted(node).partition(".")[0]
    return "" if name == "self" else name
