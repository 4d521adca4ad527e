"""Who owns which path: the module pages and CODEOWNERS of one commit, asked together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from routing.codeowners import LOCATIONS, SIZE_LIMIT_BYTES, Codeowners, Match, parse
from routing.index import Index
from routing.models import By
from routing.modules import ModulePage, parse_page
from routing.paths import PathGlob
from routing.patterns import Pattern
from routing.shadow import Rule, last_cover

MAX_PAGE_BYTES = 256_000
MAX_PAGES = 2_000


@dataclass(frozen=True, slots=True)
class Claim:
    """A page's claim on a path, and how close it is (plain segments and characters of the glob)."""

    page: ModulePage
    by: By
    depth: tuple[int, int]


@dataclass(frozen=True)
class Ownership:
    """The ownership files of one commit. `codeowners` is None where the repository has no such file."""

    codeowners: Codeowners | None
    pages: Mapping[str, ModulePage]
    codeowners_path: str = "CODEOWNERS"
    page_paths: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def from_texts(
        cls, codeowners: str | None, pages: Mapping[str, str], codeowners_path: str = "CODEOWNERS"
    ) -> "Ownership":
        """Return the ownership of a CODEOWNERS text (None: no file) and the module pages' texts by path."""
        parsed = {path: parse_page(path, text) for path, text in sorted(pages.items())}
        known = {path: page for path, page in parsed.items() if page is not None}
        return cls(
            None if codeowners is None else parse(codeowners), known, codeowners_path, frozenset(pages)
        )

    @classmethod
    def from_folder(cls, root: Path, module_pages: str = "docs/design/module") -> "Ownership":
        """Return the ownership of a checked-out tree; links that lead out of it are not followed."""
        found = next((place for place in LOCATIONS if (root / place).is_file()), None)
        text = read_text(root, root / found, SIZE_LIMIT_BYTES + 1) if found else None
        folder = root / module_pages
        is_inside = folder.resolve().is_relative_to(root.resolve())
        paths = sorted(folder.rglob("*.md"))[:MAX_PAGES] if is_inside else []
        texts = {path.relative_to(root).as_posix(): read_text(root, path, MAX_PAGE_BYTES) for path in paths}
        pages = {path: page for path, page in texts.items() if page is not None}
        return cls.from_texts(text, pages, found or "CODEOWNERS")

    def with_codeowners(self, text: str, path: str) -> "Ownership":
        """Return the same pages with another CODEOWNERS text."""
        return Ownership(parse(text), self.pages, path, self.page_paths)

    @cached_property
    def modules(self) -> tuple[ModulePage, ...]:
        """Return the pages of modules, without those that stand above others."""
        return tuple(page for page in self.pages.values() if not page.is_umbrella)

    @cached_property
    def umbrellas(self) -> tuple[ModulePage, ...]:
        """Return the pages that stand above others."""
        return tuple(page for page in self.pages.values() if page.is_umbrella)

    def match(self, path: str) -> Match | None:
        """Return CODEOWNERS' answer, None where there is no such file."""
        return None if self.codeowners is None else self.codeowners.match(path)

    def primary(self, path: str) -> tuple[Claim, ...]:
        """Return the closest claims on a path: one, or several where pages overlap, or none."""
        page = self.pages.get(path)
        if page is not None and (page.document_stewards or page.owners):
            return (Claim(page, By.PAGE, (len(path), 0)),)
        return closest([claim for page in self.modules if (claim := self.claim(page, path))])

    def claim(self, page: ModulePage, path: str) -> Claim | None:
        """Return the claim of a page, or of the page it hands the path to; without owners there is none."""
        glob = page.primary.find(path)
        if glob is None:
            return None
        exception = page.exception_for(path)
        if exception is None:
            return Claim(page, By.PRIMARY, glob.depth) if page.owners_of(path) else None
        other = self.pages.get(exception.page)
        return Claim(other, By.EXCEPTION, exception.glob.depth) if other and other.owners_of(path) else None

    def umbrella(self, path: str) -> tuple[Claim, ...]:
        """Return the claims of the pages that stand above others."""
        return closest(claims_of(self.umbrellas, path, By.PRIMARY))

    def validating(self, path: str) -> tuple[Claim, ...]:
        """Return the closest claims by validation paths."""
        return closest(claims_of(self.modules, path, By.VALIDATION))

    def related(self, path: str) -> tuple[ModulePage, ...]:
        """Return the pages that name the path as related."""
        return tuple(page for page in self.pages.values() if page.related.find(path))

    def pattern_of(self, line: int) -> str:
        """Return the pattern of a line of CODEOWNERS, empty if the line has none."""
        rule = self._rule(line)
        return rule.pattern if rule else ""

    def _rule(self, line: int) -> Rule | None:
        return self._rules.get(line)

    @cached_property
    def _rules(self) -> dict[int, Rule]:
        return {rule.line: rule for rule in (self.codeowners.rules if self.codeowners else ())}

    def is_umbrella_line(self, line: int) -> bool:
        """Say whether a line of CODEOWNERS stands above modules: it covers a whole path of a module page."""
        known = self._umbrella_lines.get(line)
        if known is None:
            known = self._umbrella_lines[line] = self._covers_a_page(line)
        return known

    def _covers_a_page(self, line: int) -> bool:
        rule = (
            next((rule for rule in self.codeowners.rules if rule.line == line), None)
            if self.codeowners
            else None
        )
        if rule is None:
            return False
        return any(covers(rule.compiled(), glob) for glob in self._page_globs)

    @cached_property
    def _umbrella_lines(self) -> dict[int, bool]:
        return {}

    @cached_property
    def _page_globs(self) -> tuple[PathGlob, ...]:
        return tuple(
            glob for page in self.modules for paths in (page.primary, page.validation) for glob in paths.globs
        )

    def dangling(self, page: ModulePage) -> tuple[str, ...]:
        """Return the links of a page to pages that are not there."""
        targets = [*page.depends_on, *(exception.page for exception in page.exceptions)]
        return tuple(dict.fromkeys(target for target in targets if target not in self.page_paths))


def closest(claims: list[Claim]) -> tuple[Claim, ...]:
    """Return the claims with the longest plain beginning, one for each page."""
    if not claims:
        return ()
    depth = max(claim.depth for claim in claims)
    return tuple({claim.page.path: claim for claim in claims if claim.depth == depth}.values())


def claims_of(pages: tuple[ModulePage, ...], path: str, by: By) -> list[Claim]:
    """Return the claims of pages on a path by their primary or validation paths."""
    found = []
    for page in pages:
        glob = (page.validation if by is By.VALIDATION else page.primary).find(path)
        if glob is not None:
            found.append(Claim(page, by, glob.depth))
    return found


def covers(pattern: Pattern, glob: PathGlob) -> bool:
    """Say whether a pattern covers every path of a glob."""
    index = Index()
    index.add(pattern, 1)
    return last_cover(glob.pattern, index) > 0


def read_text(root: Path, path: Path, limit: int) -> str | None:
    """Return a file's text up to `limit` bytes, None if it is no file in `root`; bad bytes are replaced."""
    if not path.is_file() or not path.resolve().is_relative_to(root.resolve()):
        return None
    with path.open("rb") as stream:
        return stream.read(limit).decode("utf-8", errors="replace")
