"""The front matter of a Markdown page: YAML between `---` lines, read with guards against hostile text."""

from collections.abc import Mapping
from typing import Any

import yaml

MAX_CHARACTERS = 64_000
MAX_DEPTH = 12
MAX_NODES = 5_000


class FrontMatterError(ValueError):
    """The front matter cannot be read; the text says where and why, in one line."""


class PageLoader(yaml.SafeLoader):
    """YAML without tags, aliases or guessed types: every scalar stays the text that was written."""

    yaml_implicit_resolvers = {}  # noqa: RUF012

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.depth = 0
        self.nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose one node; FrontMatterError on an alias, a deep nest or very many nodes."""
        if self.check_event(yaml.AliasEvent):
            raise FrontMatterError("it uses a YAML alias, which module pages have no use for")
        self.depth += 1
        self.nodes += 1
        if self.depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise FrontMatterError("it is nested too deeply, or has too many values")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def split_page(text: str) -> str | None:
    """Return the front matter's text, None where a page has none. FrontMatterError if it is never closed."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        return None
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in ("---", "..."):
            return "\n".join(lines[1:number])
    raise FrontMatterError("its opening `---` has no closing one")


def read_front_matter(text: str) -> Mapping[str, Any] | None:
    """Return the fields (texts, lists, mappings), None where there are none; or FrontMatterError."""
    front = split_page(text[: MAX_CHARACTERS + 1])
    if front is None:
        return None
    if len(front) >= MAX_CHARACTERS:
        raise FrontMatterError(f"it is longer than {MAX_CHARACTERS:,} characters")
    try:
        fields = yaml.load(front, Loader=PageLoader)  # noqa: S506  (a SafeLoader with less)
    except yaml.MarkedYAMLError as error:
        raise FrontMatterError(said(error)) from error
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise FrontMatterError(" ".join(str(error).split())[:200]) from error
    if fields is None or fields == "":
        return {}
    if not isinstance(fields, dict):
        raise FrontMatterError("it is not a list of `name: value` lines")
    return {str(name): value for name, value in fields.items()}


def said(error: yaml.MarkedYAMLError) -> str:
    """Return YAML's complaint with the page's line, and the usual cause where it is known."""
    mark = error.problem_mark
    where = f"line {mark.line + 2}: " if mark else ""
    what = " ".join((error.problem or "not valid YAML").split())[:160]
    hint = '; handles need quotes (`"@name"`)' if "'@'" in what else ""
    return f"{where}{what}{hint}"
