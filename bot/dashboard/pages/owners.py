"""The owners: who carries how much, what hangs on one person, where pages and CODEOWNERS disagree."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import Field
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from bot.dashboard.rendering import as_json
from bot.dashboard.site import Scope, Site
from bot.dashboard.trees import OwnedTree
from bot.dashboard.views import Asking, Page, View
from bot.db.models import Repository
from bot.db.standing import Asked
from routing.report import OwnershipReport, UnusedRule

MOST_PEOPLE, MOST_ROWS, MOST_REPOSITORIES = 100, 100, 200


class Which(Asking):
    """Which repository; the first by name where none is named."""

    repo: str = Field(default="", max_length=200)


class PersonRow(View):
    """One person: open requests, and the modules and files that they own at the base branch's tip."""

    login: str
    open_requests: int
    modules: int
    files: int


class ModuleRow(View):
    """One module whose page has something to say."""

    page: str
    title: str
    owners: tuple[str, ...]
    files: int
    problems: tuple[str, ...]


class DriftRow(View):
    """A path on which pages and CODEOWNERS name different people."""

    path: str
    page_owners: tuple[str, ...]
    codeowners: tuple[str, ...]


class CoverageRow(View):
    """How many files have an owner."""

    files: int
    one_module: int
    several_modules: int
    no_module: int
    no_owner: int


class OwnersPage(Page):
    """How well one repository is owned; `read_at` None: its tree is not read (yet), `error` says why."""

    repo: str
    repositories: tuple[str, ...]
    sha: str = ""
    read_at: datetime | None = None
    error: str = ""
    items: tuple[PersonRow, ...] = ()
    coverage: CoverageRow | None = None
    bus_factor_one: tuple[ModuleRow, ...] = ()
    without_owners: tuple[ModuleRow, ...] = ()
    faulty: tuple[ModuleRow, ...] = ()
    drift: tuple[DriftRow, ...] = ()
    dead_rules: tuple[UnusedRule, ...] = ()
    hidden: int = 0
    next: None = None


def add(router: APIRouter, site: Site) -> None:
    """Add the page."""
    wish = Annotated[Which, Query()]

    def found(request: Request, which: Which) -> OwnersPage:
        with site.sessions() as session:
            return read(session, site, site.scope(request), which.repo)

    @router.get("/owners.json")
    def owners_json(request: Request, which: wish) -> Response:
        """Return the owners of a repository as JSON."""
        return as_json(found(request, which))

    @router.get("/owners")
    def owners_html(request: Request, which: wish) -> HTMLResponse:
        """Show the owners of a repository."""
        page = found(request, which)
        return site.pages.render(request, "owners.html", f"/owners.json?repo={page.repo}", {"page": page})


def read(session: Session, site: Site, scope: Scope, wanted: str) -> OwnersPage:
    """Return the page."""
    asked = select(Repository).where(scope.condition()).order_by(Repository.full_name)
    rows = session.scalars(asked.limit(MOST_REPOSITORIES)).all()
    chosen = next((row for row in rows if row.full_name.lower() == wanted.lower()), None)
    if chosen is None and not wanted and rows:
        chosen = rows[0]
    names = tuple(row.full_name for row in rows)
    if chosen is None:
        return OwnersPage(repo=wanted, repositories=names)
    tree = site.trees.of(chosen.id, chosen.default_branch) if site.trees else None
    load = requests_in(session, chosen.id)
    page = OwnersPage(repo=chosen.full_name, repositories=names, items=people(load, None))
    return page if tree is None else page.model_copy(update=shown(tree, load))


def requests_in(session: Session, repo_id: int) -> dict[str, int]:
    """Return lower-case login -> open requests in this repository, the most loaded people."""
    count = func.count()
    counted = select(Asked.login, count).where(Asked.repo_id == repo_id).group_by(Asked.login)
    return dict(session.execute(counted.order_by(count.desc(), Asked.login).limit(MOST_PEOPLE)).all())


def shown(tree: OwnedTree, load: dict[str, int]) -> dict[str, object]:
    """Return the fields that the tree adds."""
    found = tree.report
    if found is None:
        return {"error": tree.error}
    modules = {module.page: module for module in module_rows(found)}
    lists: dict[str, Sequence[View | UnusedRule]] = {
        "bus_factor_one": [modules[page] for page in found.bus_factor_one],
        "without_owners": [modules[page] for page in found.without_owners],
        "faulty": [row for row in modules.values() if row.problems],
        "drift": [
            DriftRow(path=one.path, page_owners=one.page_owners, codeowners=one.codeowners)
            for one in found.drift
        ],
        "dead_rules": list(found.unused_rules),
    }
    return {
        "sha": tree.sha,
        "read_at": tree.read_at,
        "items": people(load, found),
        "coverage": CoverageRow(**found.coverage.model_dump()),
        "hidden": sum(max(0, len(rows) - MOST_ROWS) for rows in lists.values()),
        **{name: tuple(rows[:MOST_ROWS]) for name, rows in lists.items()},
    }


def module_rows(found: OwnershipReport) -> list[ModuleRow]:
    """Return the modules with what is wrong with their pages."""
    return [
        ModuleRow(
            page=one.page,
            title=one.title,
            owners=one.owners,
            files=one.files,
            problems=(
                *one.problems,
                *(f"links to {page}, which is not there" for page in one.dangling_links),
            ),
        )
        for one in found.modules
    ]


def people(load: dict[str, int], found: OwnershipReport | None) -> tuple[PersonRow, ...]:
    """Return everyone who is asked or owns something, the most loaded first."""
    owned = {one.login.removeprefix("@").casefold(): one for one in found.people} if found else {}
    rows = [
        PersonRow(
            login=owned[login].login.removeprefix("@") if login in owned else login,
            open_requests=load.get(login, 0),
            modules=owned[login].modules if login in owned else 0,
            files=owned[login].files if login in owned else 0,
        )
        for login in {**owned, **load}
    ]
    rows.sort(key=lambda row: (-row.open_requests, -row.modules, -row.files, row.login.lower()))
    return tuple(rows[:MOST_PEOPLE])
