"""The stream of changes over HTTP: `/events`, for what its visitor may read.

`repo` and `number` narrow it. It begins behind the id `after` (or the header Last-Event-ID), else a little
before `since` (seconds of the Unix epoch; a page says when it was made), else a moment ago.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import Response, StreamingResponse
from sqlalchemy import func, select

from bot.dashboard.auth.access import Access
from bot.dashboard.live import Live, Stream, Told, Wanted, beginning, messages
from bot.dashboard.rendering import PageRoute
from bot.db.models import Event, Repository

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
Name = Annotated[str, Query(max_length=200)]
Number = Annotated[str, Query(pattern=r"^\d{0,10}$")]


def create_live_router(live: Live, access: Access) -> APIRouter:
    """Return the route of the stream."""
    router = APIRouter(include_in_schema=False, route_class=PageRoute)

    @router.get("/events")
    def events(
        request: Request, repo: Name = "", number: Number = "", after: Name = "", since: Name = ""
    ) -> Response:
        """Stream what changes in the repositories that the visitor may read, or in one of them."""
        if live.full:
            raise HTTPException(503, "too many live pages are open; this one stays as it is")
        renew = renewing(access, request, repo, number_of(number))
        if renew() is None:
            raise HTTPException(404, "there is nothing to follow here")
        last = request.headers.get("last-event-id") or after
        stream = Stream(begins_at(live, last, since), renew)
        return StreamingResponse(messages(live, stream), media_type="text/event-stream", headers=HEADERS)

    return router


def begins_at(live: Live, last: str, since: str) -> int:
    """Return the id behind which a stream begins."""
    seen, made_s = number_of(last), number_of(since)
    now = datetime.now(UTC)
    if seen is None:
        made = datetime.fromtimestamp(made_s, UTC) if made_s and made_s < now.timestamp() else now
        return beginning(live.sessions, made)
    with live.sessions() as session:
        newest = session.scalar(select(func.max(Event.id))) or 0
    return min(seen, newest)


def number_of(text: str) -> int | None:
    """Return a number of an address; None where it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def renewing(access: Access, request: Request, repo: str, number: int | None) -> Callable[[], Wanted | None]:
    """Return what looks at the visitor's permissions now; None: nothing is left that they may follow."""

    def renew() -> Wanted | None:
        if not access.public and access.visitor(request).login is None:
            return None
        asked = select(Repository.id).where(access.scope(request).condition())
        if repo:
            asked = asked.where(func.lower(Repository.full_name) == repo.lower())
        with access.reading() as session:
            readable = frozenset(session.scalars(asked))
        if repo and not readable:
            return None

        def wanted(told: Told) -> bool:
            return told.repo_id in readable and number in (None, told.number)

        return wanted

    return renew
