"""`/pr/…/change`: a maintainer's commands without a comment, and what became of them."""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Request
from fastapi import Path as PathParameter
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from bot import jobs, store
from bot.dashboard.auth.access import Access
from bot.dashboard.auth.forms import Fields, Signed
from bot.dashboard.auth.visitor import Visitor
from bot.dashboard.rendering import PageRoute, as_json, shared_pages
from bot.dashboard.views import Page, View
from bot.db.models import Decision, Job, JobState, Pull, Repository, Run
from bot.handlers.commands.priority import LEVELS
from bot.handlers.page import Order, job_of, order_of, understood
from bot.relay import Relay
from bot.runs_queue import OPEN

MOST_SHOWN = 20
FORM = re.compile(r"[\w-]{8,24}")
WORDS: Mapping[str, tuple[str, ...]] = {
    "unrelated": ("job",),
    "mine": ("job",),
    "priority": ("level",),
    "pause": (),
    "resume": (),
    "cancel": (),
}
Number = Annotated[int, PathParameter(ge=1, le=2**31 - 1)]


class OrderView(View):
    """A command that was given here: by whom, what was answered, or where it is."""

    at: datetime
    by: str
    command: str
    says: tuple[str, ...] = ()
    state: str = "done"


class ChangePage(Page):
    """What can be changed about a pull request now, and what was."""

    repo: str
    number: int
    title: str
    state: str
    red_jobs: tuple[str, ...]
    levels: tuple[str, ...] = LEVELS
    level: str | None
    paused: bool
    open_runs: int
    orders: tuple[OrderView, ...]


@dataclass(frozen=True)
class Place:
    """A pull request that the visitor may change."""

    pull: Pull
    repo: str
    visitor: Visitor


def create_orders_router(access: Access, relay: Relay) -> APIRouter:
    """Return the routes; what is ordered becomes a job that a worker does."""
    router = APIRouter(include_in_schema=False, route_class=PageRoute)

    def place(request: Request, repo: str, number: int) -> Place:
        return allowed_place(access, request, repo, number)

    @router.get("/pr/{owner}/{name}/{number}/change.json")
    def change_json(request: Request, owner: str, name: str, number: Number) -> Response:
        """Return what can be changed as JSON."""
        with access.reading() as session:
            return as_json(read(session, place(request, f"{owner}/{name}", number)))

    @router.get("/pr/{owner}/{name}/{number}/change")
    def change_html(request: Request, owner: str, name: str, number: Number) -> Response:
        """Show the forms; who is not signed in is sent to do so."""
        if request.state.visitor.login is None:
            return RedirectResponse(f"/auth/sign-in?goes_on={request.url.path}", 303)
        with access.reading() as session:
            page = read(session, place(request, f"{owner}/{name}", number))
        shown = {"page": page, "form": secrets.token_urlsafe(12)}
        return shared_pages().render(request, "change.html", f"{request.url.path}.json", shown)

    @router.post("/pr/{owner}/{name}/{number}/change")
    def change(
        request: Request, owner: str, name: str, number: Number, fields: Fields, _: Signed
    ) -> Response:
        """Queue a command."""
        found = place(request, f"{owner}/{name}", number)
        order = order_from(fields, found.visitor)
        with access.sessions.begin() as session:
            jobs.enqueue(session, [job_of(order, found.pull.repo_id, number)])
        relay.wake()
        return RedirectResponse(f"{request.url.path}#orders", 303)

    return router


def allowed_place(access: Access, request: Request, repo: str, number: int) -> Place:
    """Return a pull request to be changed. 404 where the visitor may not read it, 403 where not write."""
    asked = (
        select(Pull, Repository.full_name)
        .join(Repository, Repository.id == Pull.repo_id)
        .where(access.scope(request).condition())
        .where(func.lower(Repository.full_name) == repo.lower(), Pull.number == number)
    )
    with access.reading() as session:
        row = session.execute(asked).first()
    if row is None:
        raise HTTPException(404, f"{repo[:200]}#{number} is not known here")
    visitor: Visitor = request.state.visitor
    if not access.may_write(visitor, row.Pull.repo_id):
        raise HTTPException(403, f"a change needs write permission on {row.full_name}")
    return Place(row.Pull, row.full_name, visitor)


def order_from(fields: Mapping[str, str], visitor: Visitor) -> Order:
    """Return what a form orders. 422, in words, for one that no command comes of."""
    verb, form = fields.get("verb", ""), fields.get("form", "")
    if verb not in WORDS or not FORM.fullmatch(form):
        raise HTTPException(422, "this form is not one of ours; reload the page and send it again")
    parts = [verb, *(fields.get(name, "") for name in WORDS[verb])]
    reason = " ".join(fields.get("reason", "").split())
    parts += ["because", reason] if reason and "job" in WORDS[verb] else []
    words = " ".join(" ".join(parts).split())
    if understood(words) is None:
        raise HTTPException(422, "name the job, and say why in at most 30 words")
    return Order(visitor.login or "", words, form)


def read(session: Session, place: Place) -> ChangePage:
    """Return the page."""
    pull = place.pull
    about = (pull.repo_id, pull.number)
    ci = store.latest_value(session, *about, "ci")
    current = ci.get("head_sha") in (None, pull.head_sha)
    groups = ci.get("groups") or () if current else ()
    running = select(func.count()).where(
        Run.repo_id == pull.repo_id, Run.number == pull.number, Run.state.in_(OPEN)
    )
    return ChangePage(
        repo=place.repo,
        number=pull.number,
        title=pull.title,
        state=pull.state,
        red_jobs=tuple(dict.fromkeys(str(job) for group in groups for job in group.get("jobs") or ())),
        level=store.latest_value(session, *about, "priority").get("level"),
        paused=bool(store.latest_value(session, *about, "pause").get("paused")),
        open_runs=session.scalar(running) or 0,
        orders=(*waiting(session, pull), *answered(session, pull)),
    )


def waiting(session: Session, pull: Pull) -> Sequence[OrderView]:
    """Return the orders that no worker has done yet, the newest first."""
    asked = select(Job).where(
        Job.repo_id == pull.repo_id,
        Job.number == pull.number,
        Job.verb == "page",
        Job.state.in_((JobState.QUEUED, JobState.RUNNING, JobState.DEAD)),
    )
    rows = session.scalars(asked.order_by(Job.id.desc()).limit(MOST_SHOWN)).all()
    found = [(row, order_of(row.subject)) for row in rows]
    return [
        OrderView(at=row.created_at, by=order.login, command=order.words, state=row.state.value)
        for row, order in found
        if order is not None
    ]


def answered(session: Session, pull: Pull) -> Sequence[OrderView]:
    """Return the orders that were done with their answers, the newest first."""
    asked = select(Decision).where(
        Decision.repo_id == pull.repo_id, Decision.number == pull.number, Decision.kind.like("page:%")
    )
    rows = session.scalars(asked.order_by(Decision.id.desc()).limit(MOST_SHOWN)).all()
    return [
        OrderView(
            at=row.decided_at,
            by=str(row.value.get("by") or ""),
            command=", ".join(map(str, row.value.get("commands") or ())),
            says=tuple(map(str, row.value.get("says") or ())),
        )
        for row in rows
    ]
