"""Module pages: what a page's front matter says about a module's code and its people."""

import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from routing.front_matter import FrontMatterError, read_front_matter
from routing.paths import PathGlob, PathSet, read_glob
from routing.patterns import PatternError

MAX_ITEMS = 1_000
MAX_TEXT = 400
NULLS = frozenset({"", "~", "null", "Null", "NULL"})
UMBRELLA_NAMES = frozenset({"index.md", "readme.md"})
UMBRELLA_KINDS = frozenset({"umbrella", "index", "family", "overview"})
OWNER = re.compile(r"@?[A-Za-z0-9][A-Za-z0-9_-]{0,99}(?:/[A-Za-z0-9_][A-Za-z0-9_.-]{0,254})?")
NO_PATHS = PathSet(())
NOT_WORDS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class SubOwners:
    """More owners for a part of a module's code."""

    paths: PathSet
    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PathException:
    """A path inside a module's primary paths that another page owns; `page` is that page's path."""

    glob: PathGlob
    page: str


@dataclass(frozen=True)
class ModulePage:
    """One page. Owners are as written; paths of other pages are from the root; `problems` are for people."""

    path: str
    title: str = ""
    kind: str = ""
    status: str = ""
    owners: tuple[str, ...] = ()
    document_stewards: tuple[str, ...] = ()
    required_reviewers: tuple[str, ...] = ()
    primary: PathSet = NO_PATHS
    related: PathSet = NO_PATHS
    validation: PathSet = NO_PATHS
    sub_owners: tuple[SubOwners, ...] = ()
    exceptions: tuple[PathException, ...] = ()
    depends_on: tuple[str, ...] = ()
    is_provisional: bool = False
    problems: tuple[str, ...] = ()

    @property
    def is_umbrella(self) -> bool:
        """Say whether the page stands above other pages: it owns what no other page does."""
        return posixpath.basename(self.path).lower() in UMBRELLA_NAMES or self.kind.lower() in UMBRELLA_KINDS

    def owners_of(self, path: str) -> tuple[str, ...]:
        """Return the module's owners with those who own the part that `path` lies in."""
        more = [owner for sub in self.sub_owners if sub.paths.find(path) for owner in sub.owners]
        return (*self.owners, *more)

    def exception_for(self, path: str) -> PathException | None:
        """Return the closest exception that hands `path` to another page."""
        found = self._exception_paths.find(path)
        return next((one for one in self.exceptions if one.glob is found), None) if found else None

    @cached_property
    def _exception_paths(self) -> PathSet:
        return PathSet(exception.glob for exception in self.exceptions)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the phrases that name the module in a text (see `as_words`)."""
        file = posixpath.basename(self.path)
        phrases = [self.path, file] if not self.is_umbrella else [self.path]
        longer = [file.removesuffix(".md"), self.title]
        words = [as_words(text) for text in phrases]
        return tuple(words + [text for text in map(as_words, longer) if text.strip().count(" ")])

    @cached_property
    def tags(self) -> frozenset[str]:
        """Return the words that name the module as a whole label or as a `[Tag]` of a title."""
        stem = posixpath.basename(self.path).removesuffix(".md")
        return (
            frozenset(as_words(text) for text in (stem, self.title) if text)
            if not self.is_umbrella
            else frozenset()
        )


def as_words(text: str) -> str:
    """Return lower-case words between single blanks, with one at each end, to be searched for in another."""
    return f" {NOT_WORDS.sub(' ', text.lower()).strip()} "


def parse_page(path: str, text: str) -> ModulePage | None:
    """Return the page, None where it has no front matter. Never raises: faults are in `problems`."""
    try:
        fields = read_front_matter(text)
    except FrontMatterError as error:
        return ModulePage(path, problems=(f"front matter: {error}",))
    return None if fields is None else build_page(path, fields)


def build_page(path: str, fields: Mapping[str, Any]) -> ModulePage:
    """Return the page of its fields; what has the wrong shape is left out and named."""
    problems: list[str] = []
    exceptions = read_exceptions(path, fields, problems)
    return ModulePage(
        path=path,
        title=text_of(fields.get("title")),
        kind=text_of(fields.get("kind")),
        status=text_of(fields.get("status")),
        owners=read_owners(fields, "owners", problems),
        document_stewards=read_owners(fields, "document_stewards", problems),
        required_reviewers=read_owners(fields, "required_reviewers", problems),
        primary=read_paths(fields, "primary_code_paths", problems),
        related=read_paths(fields, "related_code_paths", problems),
        validation=read_paths(fields, "validation_paths", problems),
        sub_owners=read_sub_owners(fields, problems),
        exceptions=exceptions,
        depends_on=tuple(link(path, one) for one in texts(fields, "depends_on", problems)),
        is_provisional=text_of(fields.get("ownership_status")).lower() == "provisional",
        problems=tuple(problems),
    )


def text_of(value: Any) -> str:
    """Return a scalar's text, empty for null, lists and mappings."""
    return value.strip()[:MAX_TEXT] if isinstance(value, str) and value.strip() not in NULLS else ""


def items(fields: Mapping[str, Any], name: str, problems: list[str]) -> list[Any]:
    """Return a list field; null and absent are empty, a single text is a list of one."""
    value = fields.get(name)
    if value is None or (isinstance(value, str) and value.strip() in NULLS):
        return []
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        problems.append(f"`{name}` is not a list")
        return []
    if len(value) > MAX_ITEMS:
        problems.append(f"`{name}` has more than {MAX_ITEMS:,} entries; the rest was left out")
    return value[:MAX_ITEMS]


def texts(fields: Mapping[str, Any], name: str, problems: list[str]) -> list[str]:
    """Return the texts of a list field; nulls are left out, other shapes are named."""
    found = []
    for item in items(fields, name, problems):
        if isinstance(item, str):
            if text_of(item):
                found.append(text_of(item))
        elif item is not None:
            problems.append(f"`{name}` holds something that is not a text")
    return found


def read_owners(fields: Mapping[str, Any], name: str, problems: list[str]) -> tuple[str, ...]:
    """Return the owners of a field, with `@`; what is no handle is named."""
    owners: dict[str, str] = {}
    for text in texts(fields, name, problems):
        if OWNER.fullmatch(text):
            owners.setdefault(text.removeprefix("@").lower(), f"@{text.removeprefix('@')}")
        else:
            problems.append(f'`{name}`: {text[:80]!r} is not a handle; write "@name" or "@org/team"')
    return tuple(owners.values())


def globs(paths: Iterable[str], name: str, problems: list[str]) -> list[PathGlob]:
    """Return the compiled globs of a field; faulty ones are named."""
    found = []
    for text in paths:
        try:
            found.append(read_glob(text))
        except PatternError as error:
            problems.append(f"`{name}`: {text[:80]!r}: {error}")
    return found


def read_paths(fields: Mapping[str, Any], name: str, problems: list[str]) -> PathSet:
    """Return the globs of a field."""
    return PathSet(globs(texts(fields, name, problems), name, problems))


def read_sub_owners(fields: Mapping[str, Any], problems: list[str]) -> tuple[SubOwners, ...]:
    """Return the owners of parts of the module (`primary_code_path_owners`)."""
    name, found = "primary_code_path_owners", []
    for item in items(fields, name, problems):
        if isinstance(item, dict):
            found.append(
                SubOwners(read_paths(item, "paths", problems), read_owners(item, "owners", problems))
            )
        elif item is not None:
            problems.append(f"`{name}` holds something that is not `paths:` and `owners:`")
    return tuple(found)


def read_exceptions(page: str, fields: Mapping[str, Any], problems: list[str]) -> tuple[PathException, ...]:
    """Return the paths that other pages own (`primary_path_exceptions`)."""
    name, found = "primary_path_exceptions", []
    for item in items(fields, name, problems):
        path = text_of(item.get("path")) if isinstance(item, dict) else ""
        owner = text_of(item.get("owner")) if isinstance(item, dict) else ""
        if path and owner:
            found += [PathException(glob, link(page, owner)) for glob in globs([path], name, problems)]
        else:
            problems.append(f"`{name}` holds something that is not `path:` and `owner:`")
    return tuple(found)


def link(page: str, target: str) -> str:
    """Return the path of the page that `target`, written relative to `page`, points to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target.partition("#")[0]))
