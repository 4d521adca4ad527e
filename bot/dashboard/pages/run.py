"""One run of the runner lane alone: its blocks and its interval drawn, and the machine that it ran on."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Request
from fastapi import Path as PathParameter
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from bot.dashboard.experiments import RunView, run_view
from bot.dashboard.pages.workers import Fact, facts_of
from bot.dashboard.rendering import as_json
from bot.dashboard.site import Scope, Site
from bot.dashboard.views import Page
from bot.db.models import Repository, Run

RunId = Annotated[str, PathParameter(min_length=1, max_length=36, pattern=r"^[A-Za-z0-9_-]+$")]


class RunPage(Page):
    """One run."""

    repo: str
    number: int
    run: RunView
    machine: tuple[Fact, ...]


def add(router: APIRouter, site: Site) -> None:
    """Add the page."""

    def found(request: Request, run_id: str) -> RunPage:
        with site.sessions() as session:
            page = read(session, site.scope(request), run_id)
        if page is None:
            raise HTTPException(404, "this run is not known here")
        return page

    @router.get("/perf/run/{run_id}.json")
    def run_json(request: Request, run_id: RunId) -> Response:
        """Return a run as JSON."""
        return as_json(found(request, run_id))

    @router.get("/perf/run/{run_id}")
    def run_html(request: Request, run_id: RunId) -> HTMLResponse:
        """Show a run."""
        shown = {"page": found(request, run_id)}
        return site.pages.render(request, "run.html", f"/perf/run/{run_id}.json", shown)


def read(session: Session, scope: Scope, run_id: str) -> RunPage | None:
    """Return the page; None where the viewer may not know the run."""
    row = session.execute(
        select(Run, Repository.full_name)
        .join(Repository, Repository.id == Run.repo_id)
        .where(scope.condition(), Run.id == run_id)
    ).first()
    if row is None:
        return None
    run, repo = row
    return RunPage(repo=repo, number=run.number, run=run_view(run), machine=facts_of(run.machine or {}))
