"""Sorts changed files into groups of one owner each: a module page, or a line of CODEOWNERS."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from routing.logins import key, unique
from routing.models import By, ModuleFile, PullRequest
from routing.modules import ModulePage
from routing.ownership import Claim, Ownership
from routing.paths import PathSet, is_test, name_set


@dataclass(frozen=True, slots=True)
class Touch:
    """One path that a pull request touches; a rename touches two. `weight` is 1 + its changed lines."""

    path: str
    weight: int


@dataclass(slots=True)
class Group:
    """Files of one page or of one line, while they are gathered. `files` holds how each belongs to it."""

    key: str
    page: ModulePage | None = None
    line: int | None = None
    pattern: str = ""
    owners: list[str] = field(default_factory=list)
    files: dict[str, By] = field(default_factory=dict)
    listed: dict[str, int] = field(default_factory=dict)
    weight: float = 0.0

    def add(self, path: str, by: By, owners: Iterable[str], weight: float) -> None:
        """Add a file with the owners it brings in."""
        self.files.setdefault(path, by)
        self.weight += weight
        known = {key(owner) for owner in self.owners}
        self.owners += [owner for owner in unique(owners) if key(owner) not in known]

    def owned_files(self) -> list[str]:
        """Return the files that give the group its weight."""
        light = (By.RELATED,) if self.weight_by_validation() else (By.RELATED, By.VALIDATION)
        return [path for path, by in self.files.items() if by not in light]

    def weight_by_validation(self) -> bool:
        """Say whether the group owns nothing but tests, as in a pull request of tests alone."""
        return all(by in (By.VALIDATION, By.RELATED) for by in self.files.values())

    def module_files(self) -> tuple[ModuleFile, ...]:
        """Return the files as values."""
        return tuple(ModuleFile(path=path, by=by) for path, by in self.files.items())


@dataclass(frozen=True, slots=True)
class Sorting:
    """The groups, heaviest first; files without an owner; pages that claim the same files."""

    groups: tuple[Group, ...]
    unowned: tuple[str, ...]
    overlaps: tuple[tuple[str, ...], ...]


def touches(pr: PullRequest, generated: tuple[str, ...]) -> tuple[Touch, ...]:
    """Return what a pull request touches, by path; generated files only where there is nothing else."""
    weights: dict[str, int] = {}
    for file in pr.changed_files:
        weights[file.path] = 1 + file.lines
    for file in pr.changed_files:
        if file.previous_path:
            weights.setdefault(file.previous_path, 1)
    names = name_set(generated)
    found = [Touch(path, weight) for path, weight in sorted(weights.items())]
    written = [touch for touch in found if not is_generated(touch.path, names)]
    return tuple(written or found)


def is_generated(path: str, names: PathSet) -> bool:
    """Say whether machines write the file."""
    return names.find(path) is not None


def sort_files(touched: Sequence[Touch], ownership: Ownership) -> Sorting:
    """Return the groups that own the touched paths.

    Primary paths of module pages first, or validation paths where all files are tests. Where no page owns any
    file, the pages and lines that stand above modules do; otherwise files that only those cover are unowned.
    """
    by_tests = all(is_test(touch.path) or ownership.validating(touch.path) for touch in touched)
    groups: dict[str, Group] = {}
    overlaps: dict[tuple[str, ...], None] = {}
    rest = claim_all(touched, ownership.primary, groups, overlaps)
    if by_tests:
        rest = claim_all(rest, ownership.validating, groups, overlaps)
    has_module = bool(groups)
    if not has_module:
        rest = claim_all(rest, ownership.umbrella, groups, overlaps)
    unowned = [touch.path for touch in rest if not place(touch, ownership, groups, has_module)]
    for group in groups.values():
        note_lines(group, ownership)
    heaviest = sorted(groups.values(), key=lambda group: (-group.weight, group.page is None, group.key))
    return Sorting(tuple(heaviest), tuple(unowned), tuple(overlaps))


def claim_all(
    touched: Sequence[Touch],
    claims: Callable[[str], tuple[Claim, ...]],
    groups: dict[str, Group],
    overlaps: dict[tuple[str, ...], None],
) -> list[Touch]:
    """Give each path to the pages that claim it, its weight shared among them; return the paths left over."""
    rest = []
    for touch in touched:
        found = claims(touch.path)
        for claim in found:
            page = claim.page
            group = groups.setdefault(page.path, Group(page.path, page))
            is_page = claim.by is By.PAGE and page.document_stewards
            owners = page.document_stewards if is_page else page.owners_of(touch.path)
            group.add(touch.path, claim.by, owners, touch.weight / len(found))
        if len(found) > 1:
            overlaps[tuple(sorted(claim.page.path for claim in found))] = None
        if not found:
            rest.append(touch)
    return rest


def place(touch: Touch, ownership: Ownership, groups: dict[str, Group], has_module: bool) -> bool:
    """Put a path that no page owns where it belongs; False if nobody is asked for it."""
    validated = [claim for claim in ownership.validating(touch.path) if claim.page.path in groups]
    for claim in validated if has_module else []:
        groups[claim.page.path].files.setdefault(touch.path, By.VALIDATION)
    if has_module and validated:
        return True
    for page in ownership.related(touch.path):
        if page.path in groups:
            groups[page.path].files.setdefault(touch.path, By.RELATED)
    match = ownership.match(touch.path)
    if match is None or match.line is None or not match.owners:
        return False
    if has_module and ownership.is_umbrella_line(match.line):
        return False
    name = f"{ownership.codeowners_path} line {match.line}"
    group = groups.setdefault(name, Group(name, line=match.line, pattern=ownership.pattern_of(match.line)))
    group.add(touch.path, By.PRIMARY, match.owners, touch.weight)
    return True


def note_lines(group: Group, ownership: Ownership) -> None:
    """Note which owners CODEOWNERS names for the group's files, and in which line first."""
    for path in group.owned_files():
        match = ownership.match(path)
        if match is not None and match.line is not None:
            for owner in match.owners:
                group.listed.setdefault(key(owner), match.line)
