"""Says who should look at a pull request, and why: files, then modules, then owners, then whom to ask."""

import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence

from routing.codeowners import LOCATIONS
from routing.config import RoutingConfig
from routing.groups import Group, Sorting, Touch, sort_files, touches
from routing.logins import key, keys, unique
from routing.models import By, Drift, LinkedIssue, Module, Owner, OwnershipChange, Person, PullRequest, Route
from routing.modules import ModulePage, as_words
from routing.ownership import Ownership
from routing.reviewers import Bench, choose

MAX_LISTED = 50


def route(
    pr: PullRequest,
    ownership: Ownership,
    people: Mapping[str, Person],
    config: RoutingConfig,
    known_groups: Collection[str] = (),
) -> Route:
    """Return who should look. `known_groups`: an earlier route's `groups`; they are not asked for again."""
    touched = touches(pr, config.generated)
    sorting = sort_files(touched, ownership)
    total = sum(group.weight for group in sorting.groups) or 1.0
    main = [group for group in sorting.groups if group.weight / total >= config.also_below]
    main = main or list(sorting.groups[:1])
    choice = choose(main, Bench.of(pr, people, config), known_groups)
    return Route(
        modules=tuple(module(group, group.weight / total) for group in main if group.page),
        also_touches=also_touches(pr, touched, sorting, main, ownership),
        owners=owners(main, pr),
        ask=choice.ask,
        not_asked_because=choice.not_asked_because,
        drift=drift(touched, ownership),
        unowned_files=sorting.unowned,
        next_in_line=choice.next_in_line,
        counted=choice.counted,
        notes=notes(sorting, main, ownership),
        edits_ownership=edits_ownership(pr, ownership, config.module_pages),
        groups=tuple(group.key for group in main),
    )


def module(group: Group, weight: float) -> Module:
    """Return the module of a group."""
    page = group.page or ModulePage(group.key)
    return Module(
        page=page.path,
        weight=round(weight, 4),
        files=group.module_files(),
        title=page.title,
        owners=tuple(group.owners),
        required_reviewers=unique(page.required_reviewers),
    )


def also_touches(
    pr: PullRequest, touched: Sequence[Touch], sorting: Sorting, main: Sequence[Group], ownership: Ownership
) -> tuple[str, ...]:
    """Return what is named without asking: light groups, then pages that call a path related or are named."""
    light = [group for group in sorting.groups if group not in main]
    names = [group.key if group.page else f"{group.pattern} ({group.key})" for group in light]
    related = {page.path for touch in touched for page in ownership.related(touch.path)}
    tags, text = title_tags(pr.title), as_words(f"{pr.title}\n{pr.body}")
    named = {page.path for page in ownership.modules if is_named(page, text, tags)}
    asked = {group.key for group in main}
    return tuple(dict.fromkeys(names + sorted((related | named) - asked)))[:MAX_LISTED]


def owners(groups: Sequence[Group], pr: PullRequest) -> tuple[Owner, ...]:
    """Return everyone who owns what changed, heaviest group first, each with every reason."""
    reasons: dict[str, dict[str, None]] = {}
    names: dict[str, str] = {}
    for group in groups:
        said = group_reasons(group, pr)
        required = unique(group.page.required_reviewers) if group.page else ()
        for login in unique((*group.owners, *required)):
            found = reasons.setdefault(key(login), {})
            names.setdefault(key(login), login)
            if key(login) in keys(group.owners):
                found.update(dict.fromkeys(said))
                if group.page and key(login) in group.listed:
                    found[f"CODEOWNERS line {group.listed[key(login)]}"] = None
            if group.page and key(login) in keys(required):
                found[f"required reviewer of {group.page.path}"] = None
            found.update(dict.fromkeys(issue_reasons(login, pr.linked_issues)))
    return tuple(Owner(login=names[name], reasons=tuple(found)) for name, found in reasons.items())


def group_reasons(group: Group, pr: PullRequest) -> list[str]:
    """Return the reasons that hold for every owner of a group."""
    count = len(group.owned_files())
    files = f"{count} file{'' if count == 1 else 's'}"
    if group.page is None:
        return [f"CODEOWNERS line {group.line} `{group.pattern}` ({files})"]
    found = [f"module of the changed files: {group.page.path} ({files})"]
    if is_named(group.page, as_words(f"{pr.title}\n{pr.body}"), title_tags(pr.title)):
        found.append(f"module named in the description: {group.page.path}")
    for issue in pr.linked_issues:
        if is_named(
            group.page, as_words(issue.title), {*title_tags(issue.title), *map(as_words, issue.labels)}
        ):
            found.append(f"linked issue #{issue.number} names the module")
    return found


def issue_reasons(login: str, issues: Iterable[LinkedIssue]) -> list[str]:
    """Return the reasons that a linked issue gives one person."""
    return [
        f"linked issue #{issue.number} is assigned to them"
        for issue in issues
        if key(login) in keys(issue.assignees)
    ]


def is_named(page: ModulePage, words: str, tags: Collection[str]) -> bool:
    """Say whether words (see `as_words`) name a module by page, file or title, or a tag is its name."""
    return any(phrase in words for phrase in page.names) or not page.tags.isdisjoint(tags)


def title_tags(title: str) -> set[str]:
    """Return the words inside brackets of a title such as `[Bugfix][Offloader] …`."""
    return {as_words(piece.partition("]")[0]) for piece in title.split("[")[1:] if "]" in piece}


def drift(touched: Sequence[Touch], ownership: Ownership) -> tuple[Drift, ...]:
    """Return the touched paths on which module pages and CODEOWNERS name different people."""
    if ownership.codeowners is None:
        return ()
    found = []
    for touch in touched:
        claims = [claim for claim in ownership.primary(touch.path) if claim.by is not By.PAGE]
        pages = unique(owner for claim in claims for owner in claim.page.owners_of(touch.path))
        lines = unique(ownership.codeowners.match(touch.path).owners)
        if claims and keys(pages) != keys(lines):
            found.append(Drift(path=touch.path, page_owners=with_at(pages), codeowners=with_at(lines)))
    return tuple(found)


def with_at(logins: Iterable[str]) -> tuple[str, ...]:
    """Return owners as CODEOWNERS writes them."""
    return tuple(login if "@" in login else f"@{login}" for login in logins)


def notes(sorting: Sorting, main: Sequence[Group], ownership: Ownership) -> tuple[str, ...]:
    """Return what a maintainer may want to know about the pages involved."""
    found = [f"{' and '.join(pages)} own the same files" for pages in sorting.overlaps]
    for page in (group.page for group in main if group.page):
        found += [f"{page.path} links to {target}, which is not there" for target in ownership.dangling(page)]
        found += [f"{page.path}: {problem}" for problem in page.problems]
        found += [f"{page.path}: its ownership is provisional"] if page.is_provisional else []
    return tuple(found)[:MAX_LISTED]


def edits_ownership(pr: PullRequest, ownership: Ownership, module_pages: str) -> bool:
    """Say whether a pull request changes CODEOWNERS or a module page."""
    folder = posixpath.normpath(module_pages) + "/"
    files = {*LOCATIONS, ownership.codeowners_path}
    paths = [path for file in pr.changed_files for path in (file.path, file.previous_path) if path]
    return any(path in files or (path.startswith(folder) and path.endswith(".md")) for path in paths)


def ownership_changes(base: Route, head: Route) -> OwnershipChange:
    """Return what a pull request that edits ownership does to the owners of its own files."""
    before, after = [owner.login for owner in base.owners], [owner.login for owner in head.owners]
    return OwnershipChange(
        before=tuple(before),
        after=tuple(after),
        added=tuple(login for login in after if key(login) not in keys(before)),
        removed=tuple(login for login in before if key(login) not in keys(after)),
    )
