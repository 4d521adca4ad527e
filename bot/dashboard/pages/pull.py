"""One pull request: how it stands now, and the whole story with all that each decision rests on."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Request
from fastapi import Path as PathParameter
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import func, select
from sqlalchemy.orm import Session, defer, undefer

from bot.dashboard.pages.queue import QueueRow, people_asked, queue_row, waiting_side
from bot.dashboard.rendering import as_json
from bot.dashboard.site import Scope, Site
from bot.dashboard.story import Entry, drawn_runs, tell
from bot.dashboard.views import Page
from bot.db.models import Decision, Override, Pull, Repository, Run

MOST_DECISIONS = 60
MOST_RUNS = 40
Number = Annotated[int, PathParameter(ge=1, le=2**31 - 1)]


class PullPage(Page):
    """The story of one pull request, newest first; `more` says that older decisions are not told."""

    repo: str
    number: int
    title: str
    author: str
    state: str
    draft: bool
    opened_at: datetime
    head_sha: str
    url: str
    now: QueueRow
    story: tuple[Entry, ...]
    more: bool = False


def add(router: APIRouter, site: Site) -> None:
    """Add the page."""

    def found(request: Request, repo: str, number: int) -> PullPage:
        with site.sessions() as session:
            page = read(session, site.scope(request), repo, number, site.web_url)
        if page is None:
            raise HTTPException(404, f"{repo[:200]}#{number} is not known here")
        return page

    @router.get("/pr/{owner}/{name}/{number}.json")
    def pull_json(request: Request, owner: str, name: str, number: Number) -> Response:
        """Return the story of a pull request as JSON."""
        return as_json(found(request, f"{owner}/{name}", number))

    @router.get("/pr/{owner}/{name}/{number}")
    def pull_html(request: Request, owner: str, name: str, number: Number) -> HTMLResponse:
        """Show the story of a pull request."""
        page = found(request, f"{owner}/{name}", number)
        return site.pages.render(request, "pull.html", f"/pr/{page.repo}/{number}.json", {"page": page})


def read(session: Session, scope: Scope, repo: str, number: int, web_url: str) -> PullPage | None:
    """Return the page; None where the pull request is not known, or not to this viewer."""
    row = session.execute(
        select(Pull, Repository.full_name, waiting_side().label("waiting"))
        .join(Repository, Repository.id == Pull.repo_id)
        .where(scope.condition(), func.lower(Repository.full_name) == repo.lower(), Pull.number == number)
    ).first()
    if row is None:
        return None
    pull, name = row.Pull, row.full_name
    decisions = decisions_of(session, pull)
    story = tell(decisions[:MOST_DECISIONS], runs_of(session, pull), overrides_of(session, pull))
    asked = people_asked(session, [(pull.repo_id, pull.number)])
    return PullPage(
        repo=name,
        number=number,
        title=pull.title,
        author=pull.author,
        state=pull.state,
        draft=pull.draft,
        opened_at=pull.created_at,
        head_sha=pull.head_sha,
        url=f"{web_url.rstrip('/')}/{name}/pull/{number}",
        now=queue_row(pull, name, row.waiting, asked.get((pull.repo_id, pull.number), ())),
        story=story,
        more=len(decisions) > MOST_DECISIONS,
    )


def decisions_of(session: Session, pull: Pull) -> Sequence[Decision]:
    """Return the decisions, the newest first, one more than are told."""
    about = (Decision.repo_id == pull.repo_id, Decision.number == pull.number)
    newest = select(Decision).where(*about).order_by(Decision.id.desc()).limit(MOST_DECISIONS + 1)
    return session.scalars(newest).all()


def runs_of(session: Session, pull: Pull) -> Sequence[Run]:
    """Return the runs, the newest first; results, which are large, are read of those that are drawn."""
    about = (Run.repo_id == pull.repo_id, Run.number == pull.number)
    newest = select(Run).where(*about).order_by(Run.requested_at.desc(), Run.id).limit(MOST_RUNS)
    runs = session.scalars(newest.options(defer(Run.result))).all()
    drawn = select(Run).where(Run.id.in_(drawn_runs(runs))).options(undefer(Run.result))
    session.scalars(drawn).all()
    return runs


def overrides_of(session: Session, pull: Pull) -> Sequence[Override]:
    """Return the maintainers' words on red jobs."""
    about = (Override.repo_id == pull.repo_id, Override.number == pull.number)
    return session.scalars(select(Override).where(*about).order_by(Override.id.desc()).limit(50)).all()
