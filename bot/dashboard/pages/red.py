"""The red board: failures of the default branch and of pull requests by signature, newest first."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi import Path as PathParameter
from fastapi.responses import HTMLResponse, Response
from pydantic import Field
from sqlalchemy import ColumnElement, Select, case, distinct, func, or_, select
from sqlalchemy.orm import Session, aliased

from bot.ci.flakes import attempts_of, flake_rate
from bot.dashboard.keyset import MOST_ITEMS, PAGE_SIZE, Key, after, make_token
from bot.dashboard.pages.queue import LIKE
from bot.dashboard.rendering import as_json
from bot.dashboard.site import Scope, Site
from bot.dashboard.views import Asking, Badge, Page, View
from bot.db.models import CiJob, Outcome, Pull, Repository, Signature

WHERE = {"main": "the default branch", "pulls": "pull requests alone"}
ON_MAIN_NOW, LATELY = timedelta(days=2), timedelta(days=14)
MOST_AFFECTED, MOST_TIMES, MOST_REPOSITORIES = 50, 50, 200
LOOKED_AT = 1_000  # times of one failure that are looked at for whom it affects
SEARCHED = 2_000  # newest failures that a text is looked for in
SignatureKey = Annotated[str, PathParameter(min_length=8, max_length=64, pattern=r"^[0-9a-f]+$")]


class RedFilters(Asking):
    """Which signatures of which repository; the first one's where none is named."""

    repo: str = Field(default="", max_length=200)
    text: str = Field(default="", max_length=200)
    where: str = Field(default="", max_length=10)
    limit: int = Field(default=PAGE_SIZE, ge=1, le=MOST_ITEMS)

    @property
    def narrowed(self) -> bool:
        """Say whether anything narrows the board."""
        return bool(self.text or self.where)

    def address(self, **changes: str | None) -> str:
        """Return the address's query with changes."""
        values = {**self.model_dump(exclude_defaults=True, exclude={"after"}), **changes}
        return urlencode({key: value for key, value in values.items() if value})


class SignatureRow(View):
    """One failure: since when, how often, where; `fail_pct` of `runs` runs of its job since then.

    `flickers` of `met_on` commits of the last two weeks on which it was met: its job passed there too.
    """

    key: str
    repo: str
    test: str | None
    job: str
    exception: str | None
    message: str
    first_at: datetime
    last_at: datetime
    times: int
    times_on_main: int
    pulls: int
    commits: int
    fail_pct: float
    runs: int
    flickers: int
    met_on: int
    main: Badge
    last_main_sha: str | None


class RedPage(Page):
    """A keyset page of the board of one repository."""

    repo: str
    repositories: tuple[str, ...]
    items: tuple[SignatureRow, ...]
    next: str | None = None


class AffectedRow(View):
    """An open pull request that met the failure, and when last."""

    number: int
    title: str
    author: str
    last_at: datetime


class TimeRow(View):
    """One time the failure was met."""

    at: datetime
    job: str
    sha: str
    branch: str
    number: int | None


class FlakeView(View):
    """On how many of the commits that ran a test in the last two weeks it both passed and failed."""

    flickers: int
    failing: int
    commits: int
    rate_pct: float | None


class SignaturePage(Page):
    """One failure, how flaky its test is, whom it affects, and when it was met."""

    signature: SignatureRow
    flaky: FlakeView | None
    affected: tuple[AffectedRow, ...]
    items: tuple[TimeRow, ...]
    next: None = None


def add(router: APIRouter, site: Site) -> None:
    """Add the board, and the page of one failure."""
    wish = Annotated[RedFilters, Query()]

    def board(request: Request, filters: RedFilters) -> RedPage:
        with site.sessions() as session:
            return read(session, site.scope(request), filters, datetime.now(UTC))

    def one(request: Request, repo: str, key: str) -> SignaturePage:
        with site.sessions() as session:
            page = read_one(session, site.scope(request), repo, key, datetime.now(UTC))
        if page is None:
            raise HTTPException(404, "this failure is not known here")
        return page

    @router.get("/red.json")
    def red_json(request: Request, filters: wish) -> Response:
        """Return a page of the red board as JSON."""
        return as_json(board(request, filters))

    @router.get("/red")
    def red_html(request: Request, filters: wish) -> HTMLResponse:
        """Show a page of the red board."""
        page = board(request, filters)
        shown = {"page": page, "filters": filters, "where": WHERE}
        shown["next_url"] = f"?{filters.address(after=page.next)}"
        return site.pages.render(request, "red.html", f"/red.json?{filters.address()}", shown)

    @router.get("/red/{owner}/{name}/{key}.json")
    def failure_json(request: Request, owner: str, name: str, key: SignatureKey) -> Response:
        """Return one failure as JSON."""
        return as_json(one(request, f"{owner}/{name}", key))

    @router.get("/red/{owner}/{name}/{key}")
    def failure_html(request: Request, owner: str, name: str, key: SignatureKey) -> HTMLResponse:
        """Show one failure."""
        page = one(request, f"{owner}/{name}", key)
        address = f"/red/{page.signature.repo}/{key}.json"
        return site.pages.render(request, "signature.html", address, {"page": page})


def read(session: Session, scope: Scope, filters: RedFilters, now: datetime) -> RedPage:
    """Return one page: one indexed read of the rolled-up signatures."""
    rows = session.execute(repositories(scope)).all()
    names = tuple(name for _, name in rows)
    wanted = filters.repo.strip().lower()
    repo_id, repo = next(
        ((number, name) for number, name in rows if not wanted or name.lower() == wanted), (0, filters.repo)
    )
    row = searched(repo_id) if filters.text else Signature
    keys = (Key(row.last_at, datetime, down=True), Key(row.key, str))
    query = (
        select(row)
        .where(row.repo_id == repo_id, *conditions(row, filters))
        .order_by(*(key.order() for key in keys))
        .limit(filters.limit + 1)
    )
    behind = after(keys, filters.after) if filters.after else None
    found = session.scalars(query if behind is None else query.where(behind)).all()
    shown = found[: filters.limit]
    more = len(found) > filters.limit
    flickers = flickers_of(session, repo_id, [row.key for row in shown], now)
    return RedPage(
        repo=repo,
        repositories=names,
        items=tuple(signature_row(row, repo, now, flickers.get(row.key, (0, 0))) for row in shown),
        next=make_token([shown[-1].last_at, shown[-1].key]) if more else None,
    )


def repositories(scope: Scope) -> Select[int, str]:
    """Return the query of the repositories, those with failures first."""
    red = select(Signature.key).where(Signature.repo_id == Repository.id).exists()
    asked = select(Repository.id, Repository.full_name).where(scope.condition())
    return asked.order_by(red.desc(), Repository.full_name).limit(MOST_REPOSITORIES)


def searched(repo_id: int) -> type[Signature]:
    """Return the newest signatures as the table that a text is looked for in."""
    newest = select(Signature).where(Signature.repo_id == repo_id)
    newest = newest.order_by(Signature.last_at.desc(), Signature.key).limit(SEARCHED)
    return aliased(Signature, newest.subquery())


def conditions(row: type[Signature], filters: RedFilters) -> list[ColumnElement[bool]]:
    """Return what the filters ask for."""
    found: list[ColumnElement[bool]] = []
    if filters.where == "main":
        found.append(row.times_on_main > 0)
    elif filters.where == "pulls":
        found.append(row.times_on_main == 0)
    if filters.text:
        like = f"%{filters.text.strip().translate(LIKE)}%"
        columns = (row.test, row.job, row.exception, row.message)
        found.append(or_(*(column.ilike(like, escape="\\") for column in columns)))
    return found


def signature_row(row: Signature, repo: str, now: datetime, flickers: tuple[int, int]) -> SignatureRow:
    """Return one row."""
    runs = row.times + row.passes
    return SignatureRow(
        key=row.key,
        repo=repo,
        test=row.test,
        job=row.job,
        exception=row.exception,
        message=row.message,
        first_at=row.first_at,
        last_at=row.last_at,
        times=row.times,
        times_on_main=row.times_on_main,
        pulls=row.pulls,
        commits=row.commits,
        fail_pct=round(100.0 * row.times / runs, 1) if runs else 0.0,
        runs=runs,
        flickers=flickers[0],
        met_on=flickers[1],
        main=main_badge(row, now),
        last_main_sha=row.last_main_sha,
    )


def flickers_of(
    session: Session, repo_id: int, keys: Sequence[str], now: datetime
) -> Mapping[str, tuple[int, int]]:
    """Return, by signature, on how many commits its job passed too, and on how many it was met, lately."""
    met = (
        select(Outcome.signature, Outcome.job, Outcome.sha)
        .where(Outcome.repo_id == repo_id, Outcome.signature.in_(keys), Outcome.at >= now - LATELY)
        .distinct()
        .subquery()
    )
    passed = (
        select(CiJob.id)
        .where(CiJob.repo_id == repo_id, CiJob.sha == met.c.sha, CiJob.name == met.c.job)
        .where(CiJob.conclusion == "passed")
        .exists()
    )
    both = func.count(distinct(case((passed, met.c.sha))))
    counted = select(met.c.signature, both, func.count(distinct(met.c.sha))).group_by(met.c.signature)
    return {key: (flickers, commits) for key, flickers, commits in session.execute(counted)}


def flake_view(session: Session, row: Signature, now: datetime) -> FlakeView | None:
    """Return how flaky a failure's test is; None for a job without a test."""
    if row.test is None:
        return None
    found = flake_rate(attempts_of(session, row.repo_id, row.test, now - LATELY))
    rate_pct = None if found.rate is None else round(100.0 * found.rate, 1)
    return FlakeView(flickers=found.flickers, failing=found.failing, commits=found.commits, rate_pct=rate_pct)


def main_badge(row: Signature, now: datetime) -> Badge:
    """Return whether the default branch has the failure: lately, once, or never as far as was read."""
    if row.last_main_at is None:
        return Badge(text="not seen on main", tone="unsure")
    if now - row.last_main_at < ON_MAIN_NOW:
        return Badge(text="on main now", tone="bad")
    return Badge(text=f"on main until {row.last_main_at:%Y-%m-%d}", tone="soft")


def read_one(session: Session, scope: Scope, repo: str, key: str, now: datetime) -> SignaturePage | None:
    """Return the page of one failure; None where the viewer may not know it."""
    found = session.execute(
        select(Signature, Repository.full_name)
        .join(Repository, Repository.id == Signature.repo_id)
        .where(scope.condition(), func.lower(Repository.full_name) == repo.lower(), Signature.key == key)
    ).first()
    if found is None:
        return None
    row, name = found
    met = (Outcome.repo_id == row.repo_id, Outcome.signature == key)
    flickers = flickers_of(session, row.repo_id, [key], now)
    times = session.scalars(
        select(Outcome).where(*met).order_by(Outcome.at.desc(), Outcome.id).limit(MOST_TIMES)
    ).all()
    return SignaturePage(
        signature=signature_row(row, name, now, flickers.get(key, (0, 0))),
        flaky=flake_view(session, row, now),
        affected=affected(session, row),
        items=tuple(
            TimeRow(at=one.at, job=one.job, sha=one.sha, branch=one.branch, number=one.number)
            for one in times
        ),
    )


def affected(session: Session, row: Signature) -> tuple[AffectedRow, ...]:
    """Return the open pull requests among the newest thousand times that a failure was met."""
    newest = (
        select(Outcome.number, Outcome.at)
        .where(Outcome.repo_id == row.repo_id, Outcome.signature == row.key)
        .order_by(Outcome.at.desc())
        .limit(LOOKED_AT)
        .subquery()
    )
    met = select(newest.c.number, func.max(newest.c.at)).where(newest.c.number.is_not(None))
    last_at = dict(session.execute(met.group_by(newest.c.number)).all())
    newest_first = sorted(last_at, key=lambda number: last_at[number], reverse=True)[: 4 * MOST_AFFECTED]
    open_ones = select(Pull.number, Pull.title, Pull.author).where(
        Pull.repo_id == row.repo_id, Pull.number.in_(newest_first), Pull.state == "open"
    )
    rows = [
        AffectedRow(number=number, title=title, author=author, last_at=last_at[number])
        for number, title, author in session.execute(open_ones)
    ]
    return tuple(sorted(rows, key=lambda one: one.last_at, reverse=True)[:MOST_AFFECTED])
