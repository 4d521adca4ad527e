"""Reports how well a tree is owned: coverage, modules that hang on one person, load, drift, dead rules."""

from collections import Counter
from collections.abc import Sequence

from routing.codeowners import Codeowners
from routing.logins import key, keys, unique
from routing.models import Count, Drift, Value
from routing.modules import ModulePage
from routing.ownership import Ownership
from routing.paths import PathGlob
from routing.patterns import End, Glob, Segment, Wild
from routing.route import with_at


class ModuleReport(Value):
    """One module: its people, the files it owns, and what is wrong with its page."""

    page: str
    title: str
    owners: tuple[str, ...]
    required_reviewers: tuple[str, ...]
    files: Count
    dangling_links: tuple[str, ...]
    problems: tuple[str, ...]


class PersonReport(Value):
    """One person's load: the modules they own, and the files of these modules."""

    login: str
    modules: Count
    files: Count


class Coverage(Value):
    """How many files have how many modules, and how many have no owner in any place."""

    files: Count
    one_module: Count
    several_modules: Count
    no_module: Count
    no_owner: Count


class UnusedRule(Value):
    """A line of CODEOWNERS that decides about none of the files: misspelt, left behind, or shadowed."""

    line: int
    pattern: str


class OwnershipReport(Value):
    """The whole report. `bus_factor_one`: pages with a single owner; `without_owners`: pages with none."""

    coverage: Coverage
    modules: tuple[ModuleReport, ...]
    bus_factor_one: tuple[str, ...]
    without_owners: tuple[str, ...]
    people: tuple[PersonReport, ...]
    drift: tuple[Drift, ...]
    unused_rules: tuple[UnusedRule, ...]


def report(ownership: Ownership, files: Sequence[str]) -> OwnershipReport:
    """Return the report over the files of a tree (paths from the root)."""
    claims = {path: tuple(claim.page.path for claim in ownership.primary(path)) for path in files}
    counts = Counter(page for pages in claims.values() for page in pages)
    modules = tuple(module_report(page, counts[page.path], ownership) for page in ownership.pages.values())
    owning = [module for module in modules if ownership.pages[module.page].primary]
    return OwnershipReport(
        coverage=coverage(ownership, claims),
        modules=modules,
        bus_factor_one=tuple(module.page for module in owning if len(module.owners) == 1),
        without_owners=tuple(module.page for module in owning if not module.owners),
        people=people(modules),
        drift=page_drift(ownership),
        unused_rules=unused_rules(ownership.codeowners, files),
    )


def coverage(ownership: Ownership, claims: dict[str, tuple[str, ...]]) -> Coverage:
    """Return how many files have one module, several, none, and no owner at all."""
    sizes = Counter(min(len(pages), 2) for pages in claims.values())
    bare = [path for path, pages in claims.items() if not pages]
    unowned = sum(1 for path in bare if not has_owner(ownership, path))
    return Coverage(
        files=len(claims),
        one_module=sizes[1],
        several_modules=sizes[2],
        no_module=sizes[0],
        no_owner=unowned,
    )


def has_owner(ownership: Ownership, path: str) -> bool:
    """Say whether a path without a module has an owner in an umbrella page or in CODEOWNERS."""
    match = ownership.match(path)
    return bool(ownership.umbrella(path)) or (match is not None and bool(match.owners))


def module_report(page: ModulePage, files: int, ownership: Ownership) -> ModuleReport:
    """Return the report of one module."""
    return ModuleReport(
        page=page.path,
        title=page.title,
        owners=unique(page.owners),
        required_reviewers=unique(page.required_reviewers),
        files=files,
        dangling_links=ownership.dangling(page),
        problems=page.problems,
    )


def people(modules: Sequence[ModuleReport]) -> tuple[PersonReport, ...]:
    """Return everyone who owns a module, the most loaded first."""
    names: dict[str, str] = {}
    owned: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for module in modules:
        for owner in module.owners:
            names.setdefault(key(owner), owner)
            owned[key(owner)] += 1
            files[key(owner)] += module.files
    found = [
        PersonReport(login=names[name], modules=count, files=files[name]) for name, count in owned.items()
    ]
    return tuple(sorted(found, key=lambda person: (-person.modules, -person.files, person.login.lower())))


def page_drift(ownership: Ownership) -> tuple[Drift, ...]:
    """Return each primary path of the pages on which pages and CODEOWNERS name different people."""
    if ownership.codeowners is None:
        return ()
    globs: dict[str, PathGlob] = {}
    for page in ownership.modules:
        for glob in (*page.primary.globs, *(glob for sub in page.sub_owners for glob in sub.paths.globs)):
            globs.setdefault(glob.text, glob)
    found = [glob_drift(glob, ownership, ownership.codeowners) for _, glob in sorted(globs.items())]
    return tuple(drift for drift in found if drift)


def glob_drift(glob: PathGlob, ownership: Ownership, codeowners: Codeowners) -> Drift | None:
    """Return the drift on one glob, judged by a file that it covers; None where both agree."""
    path = example(glob)
    pages = unique(owner for claim in ownership.primary(path) for owner in claim.page.owners_of(path))
    lines = unique(codeowners.match(path).owners)
    if not pages or keys(pages) == keys(lines):
        return None
    return Drift(path=glob.text, page_owners=with_at(pages), codeowners=with_at(lines))


def example(glob: PathGlob) -> str:
    """Return a path that the glob covers."""
    names = [example_name(segment) for segment in glob.pattern.segments if segment is not Wild.DEEP]
    return "/".join([*names, "_"] if glob.pattern.end is End.BELOW else names)


def example_name(segment: Segment) -> str:
    """Return a name that one segment fits."""
    if isinstance(segment, Glob):
        return "".join(part.example() for part in segment.parts)
    return segment if isinstance(segment, str) else "_"


def unused_rules(codeowners: Codeowners | None, files: Sequence[str]) -> tuple[UnusedRule, ...]:
    """Return the lines that decide about none of the files; nothing where there are no files to judge by."""
    if codeowners is None or not files:
        return ()
    used = {codeowners.match(path).line for path in files}
    return tuple(
        UnusedRule(line=rule.line, pattern=rule.pattern) for rule in codeowners.rules if rule.line not in used
    )
