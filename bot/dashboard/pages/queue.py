"""The queue: pull requests by urgency, whose turn it is, who is asked and how loaded they are."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import Field
from sqlalchemy import ColumnElement, and_, case, func, or_, select, tuple_
from sqlalchemy.orm import Session

from bot.dashboard.keyset import MOST_ITEMS, PAGE_SIZE, Key, after, make_token
from bot.dashboard.rendering import as_json
from bot.dashboard.site import Scope, Site
from bot.dashboard.views import Asking, Badge, Page, View, ci_badge, perf_word_badge, priority_badge
from bot.db.models import Pull, Repository
from bot.db.standing import Asked

LIKE = str.maketrans({"\\": r"\\", "%": r"\%", "_": r"\_"})
PLACE = re.compile(r"([\w.-]{1,100})/([\w.-]{1,100})(?:/pull/|#)(\d{1,10})(?!\d)")
TIE = (Key(Pull.repo_id, int), Key(Pull.number, int))
OPENED = Key(Pull.created_at, datetime)
SORTS: Mapping[str, tuple[Key, ...]] = {
    "urgent": (Key(Pull.score, int, down=True), OPENED, *TIE),
    "oldest": (OPENED, *TIE),
    "newest": (Key(Pull.created_at, datetime, down=True), *TIE),
    "updated": (Key(Pull.updated_at, datetime, down=True), *TIE),
}
# The choices of each filter: the word in the address, and how it reads.
CHOICES: Mapping[str, Mapping[str, str]] = {
    "priority": {"critical": "critical", "high": "high", "medium": "medium", "low": "low"},
    "waiting": {"author": "author", "reviewers": "reviewers", "nobody": "nobody asked"},
    "ci": {
        "green": "green",
        "pending": "running",
        "unrelated": "red, unrelated",
        "unknown": "red, unknown",
        "regression": "red, regression",
    },
    "perf": {
        "regression": "regression",
        "inconclusive": "inconclusive",
        "no_regression": "no regression",
        "improved": "improved",
        "failed": "could not be measured",
    },
    "state": {"open": "open", "merged": "merged", "closed": "closed", "all": "all"},
    "sort": {
        "urgent": "most urgent",
        "oldest": "oldest",
        "newest": "newest",
        "updated": "updated last",
    },
}


class Filters(Asking):
    """What the queue is narrowed to; empty means all. `text` may be a pull request's address."""

    repo: str = Field(default="", max_length=200)
    text: str = Field(default="", max_length=300)
    owner: str = Field(default="", max_length=200)
    priority: str = Field(default="", max_length=20)
    waiting: str = Field(default="", max_length=20)
    ci: str = Field(default="", max_length=20)
    perf: str = Field(default="", max_length=20)
    state: str = Field(default="open", max_length=20)
    sort: str = Field(default="urgent", max_length=20)
    limit: int = Field(default=PAGE_SIZE, ge=1, le=MOST_ITEMS)

    @property
    def narrowed(self) -> bool:
        """Say whether anything narrows the queue."""
        names = ("repo", "text", "owner", "priority", "waiting", "ci", "perf")
        return any(getattr(self, name) for name in names)

    def address(self, **changes: Any) -> str:
        """Return the address's query with changes; what is as by default is left out."""
        values = {**self.model_dump(exclude_defaults=True, exclude={"after"}), **changes}
        return urlencode({key: value for key, value in values.items() if value})


class AskedPerson(View):
    """Someone who is asked, and on how many open pull requests in all."""

    login: str
    open_requests: int


class QueueRow(View):
    """One pull request of the queue."""

    repo: str
    number: int
    title: str
    author: str
    state: str
    draft: bool
    opened_at: datetime
    updated_at: datetime
    priority: Badge
    score: int
    waiting: str
    owners: tuple[AskedPerson, ...]
    ci: Badge
    perf: Badge


class QueuePage(Page):
    """A keyset page of the queue; `next` opens the following page."""

    items: tuple[QueueRow, ...]
    next: str | None = None


def add(router: APIRouter, site: Site) -> None:
    """Add the page."""
    wish = Annotated[Filters, Query()]

    def found(request: Request, filters: Filters) -> QueuePage:
        with site.sessions() as session:
            return read(session, site.scope(request), filters)

    @router.get("/queue.json")
    def queue_json(request: Request, filters: wish) -> Response:
        """Return a page of the queue as JSON."""
        return as_json(found(request, filters))

    @router.get("/")
    def queue_html(request: Request, filters: wish) -> Response:
        """Show a page of the queue; a pull request's pasted address leads to it."""
        page = found(request, filters)
        if place_in(filters.text) and len(page.items) == 1:
            return RedirectResponse(f"/pr/{page.items[0].repo}/{page.items[0].number}", 303)
        next_url = f"?{filters.address(after=page.next)}"
        shown = {"page": page, "filters": filters, "choices": CHOICES, "next_url": next_url}
        return site.pages.render(request, "queue.html", f"/queue.json?{filters.address()}", shown)


def read(session: Session, scope: Scope, filters: Filters) -> QueuePage:
    """Return one page: two reads, whatever the size of the queue."""
    keys = SORTS.get(filters.sort, SORTS["urgent"])
    query = (
        select(Pull, Repository.full_name, waiting_side().label("waiting"))
        .join(Repository, Repository.id == Pull.repo_id)
        .where(scope.condition(), *conditions(filters))
        .order_by(*(key.order() for key in keys))
        .limit(filters.limit + 1)
    )
    behind = after(keys, filters.after) if filters.after else None
    rows = session.execute(query if behind is None else query.where(behind)).all()
    shown = rows[: filters.limit]
    asked = people_asked(session, [(row.Pull.repo_id, row.Pull.number) for row in shown])
    items = tuple(
        queue_row(row.Pull, row.full_name, row.waiting, asked.get((row.Pull.repo_id, row.Pull.number), ()))
        for row in shown
    )
    more = len(rows) > filters.limit
    return QueuePage(items=items, next=token_of(shown[-1].Pull, keys) if more else None)


def token_of(pull: Pull, keys: Sequence[Key]) -> str:
    """Return the token of a row."""
    return make_token([getattr(pull, key.column.key) for key in keys])


def waiting_side() -> ColumnElement[str]:
    """Return whose turn it is: the author's for a draft, asked changes or a regression, else reviewers'."""
    asked = select(Asked.login).where(Asked.repo_id == Pull.repo_id, Asked.number == Pull.number).exists()
    theirs = or_(Pull.draft, Pull.turn == "author", Pull.ci == "regression", Pull.perf == "regression")
    return case((theirs, "author"), (or_(Pull.turn == "reviewers", asked), "reviewers"), else_="nobody")


def conditions(filters: Filters) -> list[ColumnElement[bool]]:
    """Return what the filters ask for."""
    place = place_in(filters.text)
    if place:
        repo, number = place
        return [func.lower(Repository.full_name) == repo.lower(), Pull.number == number]
    wanted: list[ColumnElement[bool]] = []
    if filters.state != "all":
        wanted.append(Pull.state == filters.state)
    for column, value in ((Pull.level, filters.priority), (Pull.ci, filters.ci), (Pull.perf, filters.perf)):
        wanted += [column == value] if value else []
    if filters.waiting:
        wanted.append(waiting_side() == filters.waiting)
    if filters.repo:
        wanted.append(func.lower(Repository.full_name) == filters.repo.strip().lower())
    if filters.owner:
        login = filters.owner.strip().removeprefix("@").casefold()
        mine = and_(Asked.repo_id == Pull.repo_id, Asked.number == Pull.number, Asked.login == login)
        wanted.append(select(Asked.login).where(mine).exists())
    if filters.text:
        wanted.append(has_text(filters.text.strip()))
    return wanted


def has_text(text: str) -> ColumnElement[bool]:
    """Return the condition that title, author or number hold a text."""
    like = f"%{text.translate(LIKE)}%"
    found: list[ColumnElement[bool]] = [
        Pull.title.ilike(like, escape="\\"),
        Pull.author.ilike(like, escape="\\"),
    ]
    digits = text.removeprefix("#")
    if digits.isascii() and digits.isdigit() and len(digits) < 10:
        found.append(Pull.number == int(digits))
    return or_(*found)


def place_in(text: str) -> tuple[str, int] | None:
    """Return repository and number of a pull request's address (`…/org/name/pull/7`, `org/name#7`)."""
    found = PLACE.search(text)
    if not found or int(found[3]) >= 2**31:
        return None
    return f"{found[1]}/{found[2]}", int(found[3])


def people_asked(
    session: Session, places: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], tuple[AskedPerson, ...]]:
    """Return who is asked on each of some pull requests, with their load over all repositories."""
    rows = session.scalars(
        select(Asked).where(tuple_(Asked.repo_id, Asked.number).in_(places)).order_by(Asked.login)
    ).all()
    load = open_requests(session, {row.login for row in rows})
    found: dict[tuple[int, int], tuple[AskedPerson, ...]] = {}
    for row in rows:
        person = AskedPerson(login=row.name, open_requests=load.get(row.login, 0))
        found[row.repo_id, row.number] = (*found.get((row.repo_id, row.number), ()), person)
    return found


def open_requests(session: Session, logins: set[str]) -> dict[str, int]:
    """Return on how many open pull requests each person is asked."""
    counted = select(Asked.login, func.count()).where(Asked.login.in_(sorted(logins))).group_by(Asked.login)
    return dict(session.execute(counted).all())


def queue_row(pull: Pull, repo: str, waiting: str, owners: tuple[AskedPerson, ...]) -> QueueRow:
    """Return one row."""
    return QueueRow(
        repo=repo,
        number=pull.number,
        title=pull.title,
        author=pull.author,
        state=pull.state,
        draft=pull.draft,
        opened_at=pull.created_at,
        updated_at=pull.updated_at,
        priority=priority_badge({"level": pull.level}),
        score=pull.score,
        waiting=waiting,
        owners=owners,
        ci=ci_badge({"overall": pull.ci}),
        perf=perf_word_badge(pull.perf, pull.perf_pct),
    )
