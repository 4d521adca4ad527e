"""`/dead`: the jobs that failed for good, for maintainers, who may have them done again."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Request
from fastapi import Path as PathParameter
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from bot import jobs, permissions
from bot.dashboard.auth.access import MOST_ASKED, Access
from bot.dashboard.auth.forms import Signed
from bot.dashboard.auth.visitor import Visitor
from bot.dashboard.rendering import PageRoute, as_json, shared_pages
from bot.dashboard.views import Page, View
from bot.db.models import Job, JobState, Repository
from bot.relay import Relay

MOST_SHOWN = 100
NEEDED = "maintain"
JobId = Annotated[int, PathParameter(ge=1, le=2**63 - 1)]


class DeadJob(View):
    """A job that failed for good: what it was about, how often it was tried, and the fault."""

    id: int
    repo: str
    number: int | None
    verb: str
    subject: str
    attempts: int
    created_at: datetime
    finished_at: datetime | None
    error: str


class DeadPage(Page):
    """The newest of them, of the repositories that the visitor maintains."""

    items: tuple[DeadJob, ...]
    next: None = None


def create_dead_router(access: Access, relay: Relay) -> APIRouter:
    """Return the routes."""
    router = APIRouter(include_in_schema=False, route_class=PageRoute)

    def page_for(request: Request) -> DeadPage:
        maintained = maintained_by(access, request.state.visitor)
        with access.reading() as session:
            return DeadPage(items=tuple(read(session, maintained)))

    @router.get("/dead.json")
    def dead_json(request: Request) -> Response:
        """Return the dead jobs as JSON."""
        if request.state.visitor.login is None:
            raise HTTPException(401, "sign in to read this")
        return as_json(page_for(request))

    @router.get("/dead")
    def dead_html(request: Request) -> Response:
        """Show the dead jobs; who is not signed in is sent to do so."""
        if request.state.visitor.login is None:
            return RedirectResponse("/auth/sign-in?goes_on=/dead", 303)
        return shared_pages().render(request, "dead.html", "/dead.json", {"page": page_for(request)})

    @router.post("/dead/{job_id}/replay")
    def replay(job_id: JobId, visitor: Signed) -> Response:
        """Queue a dead job again."""
        with access.reading() as session:
            job = session.get(Job, job_id)
        if job is None or not maintains(access, visitor, job.repo_id):
            raise HTTPException(404, "there is no such job in a repository that you maintain")
        with access.sessions.begin() as session:
            jobs.replay(session, Job.id == job_id)
        relay.wake()
        return RedirectResponse("/dead", 303)

    return router


def maintains(access: Access, visitor: Visitor, repo_id: int) -> bool:
    """Say whether a visitor maintains a repository."""
    return permissions.at_least(access.level(visitor, repo_id), NEEDED)


def maintained_by(access: Access, visitor: Visitor) -> Sequence[int]:
    """Return the repositories with dead jobs that a visitor maintains."""
    asked = select(Job.repo_id).where(Job.state == JobState.DEAD).distinct().limit(MOST_ASKED)
    with access.reading() as session:
        found = list(session.scalars(asked))
    return [repo_id for repo_id in found if maintains(access, visitor, repo_id)]


def read(session: Session, repo_ids: Sequence[int]) -> Sequence[DeadJob]:
    """Return the dead jobs of some repositories, the newest first."""
    asked = (
        select(Job, Repository.full_name)
        .join(Repository, Repository.id == Job.repo_id)
        .where(Job.state == JobState.DEAD, Job.repo_id.in_(repo_ids))
        .order_by(Job.id.desc())
        .limit(MOST_SHOWN)
    )
    return [
        DeadJob(
            id=row.id,
            repo=repo,
            number=row.number,
            verb=row.verb,
            subject=row.subject[:200],
            attempts=row.attempts,
            created_at=row.created_at,
            finished_at=row.finished_at,
            error=row.error or "",
        )
        for row, repo in session.execute(asked)
    ]
