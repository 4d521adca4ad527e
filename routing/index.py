"""Finds the last of many patterns that covers a path: dictionaries for plain names, a trie for wildcards.

What a folder's path has reached is worked out once and kept, so a further file of that folder costs a few
dictionary look-ups. Positions count from 1; 0 stands for "no rule".
"""

from collections.abc import Iterable, Sequence

from routing.patterns import End, Glob, Pattern, Segment, Wild

# Enough for the folders of the largest repositories; beyond it the cache starts anew.
MAX_FOLDERS = 50_000
MAX_PATH = 4096

Globs = list[tuple[Glob, int]]
# What a file's name is looked up in: plain names, extensions (`*.py`), other globs (in order).
Lookup = tuple[dict[str, int] | None, dict[str, int] | None, Globs | None]
# Best rule for a file here by folders alone, plain files here, look-ups.
Folder = tuple[int, dict[str, int] | None, tuple[Lookup, ...]]


class Names:
    """The last segments that end rules at one node of the trie; most nodes have one kind of them only."""

    __slots__ = ("any", "extensions", "globs", "plain")

    def __init__(self) -> None:
        self.plain: dict[str, int] | None = None
        self.extensions: dict[str, int] | None = None
        self.globs: Globs | None = None
        self.any = 0

    def add(self, segment: Segment, position: int) -> None:
        """Add the rule at `position`, later than all before it."""
        if isinstance(segment, Glob):
            suffix = segment.suffix
            if suffix is not None and suffix[:1] == "." and suffix.find(".", 1) < 0:
                self.extensions = {} if self.extensions is None else self.extensions
                self.extensions[suffix] = position
            else:
                self.globs = [] if self.globs is None else self.globs
                self.globs.append((segment, position))
        elif isinstance(segment, str):
            self.plain = {} if self.plain is None else self.plain
            self.plain[segment] = position
        else:
            self.any = position

    def best(self, name: str, best: int) -> int:
        """Return the last rule that the name fits, if it comes after `best`."""
        best = max(best, self.any)
        if self.plain is not None:
            best = max(best, self.plain.get(name, 0))
        if self.extensions is not None and "." in name:
            best = max(best, self.extensions.get(name[name.rfind(".") :], 0))
        return best_glob(self.globs, name, best) if self.globs is not None else best


def best_glob(globs: Globs, name: str, best: int) -> int:
    """Return the position of the last glob after `best` that fits the name, or `best`."""
    for glob, position in reversed(globs):
        if position <= best:
            return best
        if glob.matches(name):
            return position
    return best


class Node:
    """A place in the trie of patterns with wildcards. A `deep` node stands for `**`: it stays reached."""

    __slots__ = ("below", "children", "deep", "globs", "here", "is_deep")

    def __init__(self, is_deep: bool = False) -> None:
        self.is_deep = is_deep
        self.here: Names | None = None
        self.below: Names | None = None
        self.deep: Node | None = None
        self.children: dict[str, Node] | None = None
        self.globs: dict[Segment, Node] | None = None

    def child(self, segment: Segment) -> "Node":
        """Return the node behind a segment, made if it is not there."""
        if segment is Wild.DEEP:
            if self.deep is None:
                self.deep = Node(is_deep=True)
            return self.deep
        if isinstance(segment, str):
            self.children = {} if self.children is None else self.children
            node = self.children.get(segment)
            if node is None:
                node = self.children[segment] = Node()
            return node
        self.globs = {} if self.globs is None else self.globs
        return self.globs.setdefault(segment, Node())

    def end(self, segment: Segment, end: End, position: int) -> None:
        """Let the rule at `position` end here with a last segment."""
        if end is not End.BELOW:
            if self.here is None:
                self.here = Names()
            self.here.add(segment, position)
        if end is not End.SELF:
            if self.below is None:
                self.below = Names()
            self.below.add(segment, position)


class Reached:
    """What the path of a folder has reached: the best rule that covers all below it, and the trie's nodes."""

    __slots__ = ("best", "nodes")

    def __init__(self, best: int, nodes: Sequence[Node]) -> None:
        self.best = best
        self.nodes = nodes


def with_deep(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return the nodes, each once, with the `**` nodes that they open at no cost."""
    found: dict[Node, None] = {}
    for node in nodes:
        found[node] = None
        if node.deep is not None:
            found[node.deep] = None
    return tuple(found)


class Index:
    """All patterns of a file, in order. `add` and `add_plain` come first, then `find`."""

    __slots__ = ("below", "everything", "files", "folders", "max_folders", "reached", "roots")

    def __init__(self, max_folders: int = MAX_FOLDERS) -> None:
        self.max_folders = max_folders
        self.everything = 0
        self.below: dict[str, int] = {}
        self.files: dict[str, dict[str, int]] = {}
        self.roots: dict[str, Node] = {}
        self.folders: dict[str, Folder] = {}
        self.reached: dict[str, Reached] = {}

    def add(self, pattern: Pattern, position: int) -> None:
        """Add a pattern as the rule at `position`."""
        segments = pattern.segments
        if not segments:
            self.everything = position
            return
        prefix = pattern.literal_prefix()
        key = "/".join(prefix)
        if len(prefix) == len(segments):
            self.add_plain(key, pattern.end, position)
            return
        node = self.roots.get(key)
        if node is None:
            node = self.roots[key] = Node()
        for segment in segments[len(prefix) : -1]:
            node = node.child(segment)
        node.end(segments[-1], pattern.end, position)

    def add_plain(self, path: str, end: End, position: int) -> None:
        """Add a pattern without wildcards that starts at the root."""
        if end is not End.SELF:
            self.below[path] = position
        if end is not End.BELOW:
            folder, _, name = path.rpartition("/")
            self.files.setdefault(folder, {})[name] = position

    def find(self, path: str) -> int:
        """Return the position of the last rule that covers the path, 0 for none."""
        folder, _, name = path.rpartition("/")
        known = self.folders.get(folder)
        best, files, lookups = self.enter(folder) if known is None else known
        if files is not None and files.get(name, 0) > best:
            best = files[name]
        for plain, extensions, globs in lookups:
            if plain and plain.get(name, 0) > best:
                best = plain[name]
            if extensions:
                dot = name.rfind(".")
                if dot >= 0:
                    found = extensions.get(name[dot:], 0)
                    if found > best:
                        best = found
            if globs:
                best = best_glob(globs, name, best)
        return best

    def enter(self, folder: str) -> Folder:
        """Work out and keep what files of a folder are looked up in."""
        if len(folder) > MAX_PATH:
            return 0, None, ()
        if len(self.folders) >= self.max_folders or len(self.reached) >= self.max_folders:
            self.folders.clear()
            self.reached.clear()
        reached = self.reach(folder)
        best = reached.best
        lookups = []
        for node in reached.nodes:
            names = node.here
            if names is not None:
                best = max(best, names.any)
                if names.plain or names.extensions or names.globs:
                    lookups.append((names.plain, names.extensions, names.globs))
        made = self.folders[folder] = (best, self.files.get(folder), tuple(lookups))
        return made

    def reach(self, folder: str) -> Reached:
        """Return what the folder's path has reached, working out its parents as needed."""
        missing = []
        while folder and folder not in self.reached:
            missing.append(folder)
            folder = folder.rpartition("/")[0]
        at = self.reached.get(folder) or self.start()
        for step in reversed(missing):
            at = self.reached[step] = self.step(at, step)
        return at

    def start(self) -> Reached:
        """Return what is reached at the root."""
        root = self.roots.get("")
        at = self.reached[""] = Reached(self.everything, with_deep([root]) if root else ())
        return at

    def step(self, above: Reached, folder: str) -> Reached:
        """Return what is reached one folder further down."""
        name = folder.rpartition("/")[2]
        best = max(above.best, self.below.get(folder, 0))
        nodes: list[Node] = []
        for node in above.nodes:
            if node.below is not None:
                best = node.below.best(name, best)
            if node.is_deep:
                nodes.append(node)
            if node.children is not None and name in node.children:
                nodes.append(node.children[name])
            for segment, child in node.globs.items() if node.globs else ():
                if segment is Wild.ANY or (isinstance(segment, Glob) and segment.matches(name)):
                    nodes.append(child)
        root = self.roots.get(folder)
        if root is not None:
            nodes.append(root)
        return Reached(best, with_deep(nodes))
