"""Two commits side by side: every nightly series that both have, the worst change first."""

import re
from datetime import date
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import Field
from sqlalchemy import ColumnElement, Select, Subquery, and_, case, func, or_, select
from sqlalchemy.orm import Session

from bot.dashboard.keyset import MOST_ITEMS, PAGE_SIZE, Key, after, make_token
from bot.dashboard.pages.perf import change_badge
from bot.dashboard.rendering import as_json
from bot.dashboard.site import Scope, Site
from bot.dashboard.views import Asking, Badge, Page, View
from bot.db.models import Repository
from bot.db.nightly import Nightly, NightlySeries

SHA = re.compile(r"[0-9a-f]{4,64}")
KNOWN_COMMITS = 14


class Pair(Asking):
    """Which two commits of which repository; a commit may be cut to four digits or more."""

    repo: str = Field(default="", max_length=200)
    base: str = Field(default="", max_length=64)
    head: str = Field(default="", max_length=64)
    limit: int = Field(default=PAGE_SIZE, ge=1, le=MOST_ITEMS)

    def address(self, **changes: Any) -> str:
        """Return the address's query with changes."""
        values = {**self.model_dump(exclude_defaults=True, exclude={"after"}), **changes}
        return urlencode({key: value for key, value in values.items() if value})


class ComparedRow(View):
    """One series at both commits; `change_pct` above 0 is better."""

    series_id: int
    test: str
    config: str
    hardware: str
    metric: str
    base: float
    head: float
    change: Badge
    change_pct: float
    other_host: bool


class KnownCommit(View):
    """A commit that a night measured."""

    night: date
    sha: str


class ComparePage(Page):
    """A keyset page of the comparison; `asked` False while no two commits are named."""

    repo: str
    base: str
    head: str
    asked: bool
    commits: tuple[KnownCommit, ...]
    items: tuple[ComparedRow, ...]
    next: str | None = None


def add(router: APIRouter, site: Site) -> None:
    """Add the page."""
    wish = Annotated[Pair, Query()]

    def found(request: Request, pair: Pair) -> ComparePage:
        with site.sessions() as session:
            return read(session, site.scope(request), pair)

    @router.get("/perf/compare.json")
    def compare_json(request: Request, pair: wish) -> Response:
        """Return a page of the comparison as JSON."""
        return as_json(found(request, pair))

    @router.get("/perf/compare")
    def compare_html(request: Request, pair: wish) -> HTMLResponse:
        """Show a page of the comparison."""
        page = found(request, pair)
        shown = {"page": page, "next_url": f"?{pair.address(after=page.next)}"}
        return site.pages.render(request, "compare.html", f"/perf/compare.json?{pair.address()}", shown)


def read(session: Session, scope: Scope, pair: Pair) -> ComparePage:
    """Return the page."""
    repository = chosen(session, scope, pair.repo)
    base, head = pair.base.strip().lower(), pair.head.strip().lower()
    asked = bool(repository and SHA.fullmatch(base) and SHA.fullmatch(head))
    rows: list[Any] = []
    if repository and asked:
        rows = list(session.execute(compared(repository.id, base, head, pair)).all())
    shown = rows[: pair.limit]
    more = len(rows) > pair.limit
    return ComparePage(
        repo=repository.full_name if repository else pair.repo,
        base=base,
        head=head,
        asked=asked,
        commits=known_commits(session, repository.id) if repository else (),
        items=tuple(compared_row(row) for row in shown),
        next=make_token([shown[-1].change_pct, shown[-1].NightlySeries.id]) if more else None,
    )


def chosen(session: Session, scope: Scope, name: str) -> Repository | None:
    """Return the repository named, or the first that has nights."""
    query = select(Repository).where(scope.condition())
    if name:
        return session.scalar(query.where(func.lower(Repository.full_name) == name.strip().lower()))
    has_nights = select(NightlySeries.id).where(NightlySeries.repo_id == Repository.id).exists()
    return session.scalar(query.where(has_nights).order_by(Repository.full_name).limit(1))


def known_commits(session: Session, repo_id: int) -> tuple[KnownCommit, ...]:
    """Return the newest commits that nights measured, by one series of the repository."""
    series = session.scalar(
        select(NightlySeries.id)
        .where(NightlySeries.repo_id == repo_id)
        .order_by(NightlySeries.last_night.desc().nulls_last(), NightlySeries.id)
        .limit(1)
    )
    rows = session.execute(
        select(Nightly.night, Nightly.sha)
        .where(Nightly.series_id == series, Nightly.sha != "")
        .order_by(Nightly.night.desc())
        .limit(KNOWN_COMMITS)
    )
    return tuple(KnownCommit(night=night, sha=sha) for night, sha in rows)


def compared(repo_id: int, base_sha: str, head_sha: str, pair: Pair) -> Select[Any]:
    """Return the query: the mean of each series at both commits, worst change first."""
    both = at_both(repo_id, base_sha, head_sha)
    base, head = both.c.base, both.c.head
    up, down = (head / base - 1.0) * 100.0, (base / head - 1.0) * 100.0
    change = case((NightlySeries.way == "higher", up), else_=down)
    keys = (Key(change, float), Key(NightlySeries.id, int))
    other_host = (both.c.base_machine != both.c.head_machine).label("other_host")
    query = (
        select(NightlySeries, base, head, change.label("change_pct"), other_host)
        .join(both, both.c.series_id == NightlySeries.id)
        .where(base > 0, head > 0)
        .order_by(*(key.order() for key in keys))
        .limit(pair.limit + 1)
    )
    behind = after(keys, pair.after) if pair.after else None
    return query if behind is None else query.where(behind)


def at_both(repo_id: int, base_sha: str, head_sha: str) -> Subquery:
    """Return mean and machine of each series at two commits; null where a commit has no night of it."""
    old, new = begins_with(base_sha), begins_with(head_sha)
    return (
        select(
            Nightly.series_id,
            func.avg(case((old, Nightly.value))).label("base"),
            func.avg(case((new, Nightly.value))).label("head"),
            func.max(case((old, Nightly.machine))).label("base_machine"),
            func.max(case((new, Nightly.machine))).label("head_machine"),
        )
        .where(Nightly.repo_id == repo_id, or_(old, new))
        .group_by(Nightly.series_id)
        .subquery()
    )


def begins_with(sha: str) -> ColumnElement[bool]:
    """Return the condition that a night's commit begins with some digits; `g` follows each of them."""
    return and_(Nightly.sha >= sha, Nightly.sha < f"{sha}g")


def compared_row(row: Any) -> ComparedRow:
    """Return one row."""
    series: NightlySeries = row.NightlySeries
    return ComparedRow(
        series_id=series.id,
        test=series.test,
        config=series.config,
        hardware=series.hardware,
        metric=series.metric,
        base=row.base,
        head=row.head,
        change=change_badge(row.change_pct),
        change_pct=row.change_pct,
        other_host=bool(row.other_host),
    )
