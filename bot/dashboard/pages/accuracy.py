"""Accuracy: what the verdicts said against what maintainers said, and every disagreement."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from bot.ci.accuracy import (
    SAID,
    TOLD,
    Accuracy,
    Call,
    Disagreement,
    Said,
    Told,
    Word,
    accuracy,
    calls_in,
    word_of,
)
from bot.dashboard.rendering import as_json
from bot.dashboard.site import Scope, Site
from bot.dashboard.views import Page, View
from bot.db.engine import Sessions
from bot.db.models import Decision, Override, Repository

MOST_WORDS, MOST_CALLS, MOST_ROWS = 500, 4_000, 100
Names = tuple[tuple[int, str], ...]


class ScoreRow(View):
    """One verdict where maintainers spoke; shares in per cent, None where there was nothing to count."""

    verdict: str
    said: int
    told: int
    right: int
    precision_pct: float | None
    recall_pct: float | None


class CountRow(View):
    """How often a verdict was said, by what maintainers told."""

    said: Said
    told: dict[Told, int]


class DisagreementRow(View):
    """One verdict that a maintainer replaced by the opposite one."""

    repo: str
    number: int
    job: str
    said: str
    kind: str
    because: str
    told: str
    by: str
    reason: str
    at: datetime


class AccuracyPage(Page):
    """The table over the newest words, and the disagreements, newest first."""

    words: int
    judged: int
    unjudged: int
    counts: tuple[CountRow, ...]
    scores: tuple[ScoreRow, ...]
    items: tuple[DisagreementRow, ...]
    next: None = None


def add(router: APIRouter, site: Site) -> None:
    """Add the page. What maintainers said changes seldom: the count is kept until somebody speaks."""

    @lru_cache(maxsize=20)
    def counted(names: Names, newest: int) -> AccuracyPage:
        return count(site.sessions, names, newest)

    def found(request: Request) -> AccuracyPage:
        with site.sessions() as session:
            return counted(*spoken(session, site.scope(request)))

    @router.get("/accuracy.json")
    def accuracy_json(request: Request) -> Response:
        """Return the table as JSON."""
        return as_json(found(request))

    @router.get("/accuracy")
    def accuracy_html(request: Request) -> HTMLResponse:
        """Show the table."""
        return site.pages.render(request, "accuracy.html", "/accuracy.json", {"page": found(request)})


def spoken(session: Session, scope: Scope) -> tuple[Names, int]:
    """Return the readable repositories that a maintainer spoke in, and the id of the newest word."""
    spoke = select(Override.id).where(Override.repo_id == Repository.id).exists()
    asked = select(Repository.id, Repository.full_name).where(scope.condition(), spoke)
    names = tuple((repo_id, name) for repo_id, name in session.execute(asked.order_by(Repository.id)))
    return names, session.scalar(select(func.max(Override.id))) or 0


def count(sessions: Sessions, names: Names, newest: int) -> AccuracyPage:
    """Return the page over the newest words up to `newest`."""
    repositories = dict(names)
    with sessions() as session:
        said = select(Override).where(Override.repo_id.in_(repositories), Override.id <= newest)
        words = session.scalars(said.order_by(Override.id.desc()).limit(MOST_WORDS)).all()
        found = accuracy(calls_about(session, words), [word(row) for row in words])
    return page_of(found, repositories, len(words))


def calls_about(session: Session, words: Sequence[Override]) -> list[Call]:
    """Return what was said of the pull requests that maintainers spoke about, the newest decisions."""
    places = {(row.repo_id, row.number) for row in words}
    asked = (
        select(Decision)
        .where(tuple_(Decision.repo_id, Decision.number).in_(sorted(places)), Decision.kind == "ci")
        .order_by(Decision.id.desc())
        .limit(MOST_CALLS)
    )
    return [
        call
        for row in session.scalars(asked)
        for call in calls_in(row.value, row.repo_id, row.number, row.head_sha, row.decided_at)
    ]


def word(row: Override) -> Word:
    """Return a maintainer's word as it is counted."""
    return Word(
        repo_id=row.repo_id,
        number=row.number,
        job=row.job,
        verdict=word_of(row.verdict),
        by=row.by,
        reason=row.reason,
        at=row.at,
    )


def page_of(found: Accuracy, repositories: dict[int, str], words: int) -> AccuracyPage:
    """Return the page."""
    return AccuracyPage(
        words=words,
        judged=found.n,
        unjudged=found.unjudged,
        counts=tuple(
            CountRow(said=said, told={told: found.counts[said][told] for told in TOLD}) for said in SAID
        ),
        scores=tuple(
            ScoreRow(
                verdict=one.verdict,
                said=one.said,
                told=one.told,
                right=one.right,
                precision_pct=per_cent(one.precision),
                recall_pct=per_cent(one.recall),
            )
            for one in found.scores
        ),
        items=tuple(row_of(one, repositories) for one in found.disagreements[:MOST_ROWS]),
    )


def per_cent(share: float | None) -> float | None:
    """Return a share in per cent."""
    return None if share is None else round(100.0 * share, 1)


def row_of(one: Disagreement, repositories: dict[int, str]) -> DisagreementRow:
    """Return one disagreement."""
    call, told = one.call, one.word
    return DisagreementRow(
        repo=repositories[call.repo_id],
        number=call.number,
        job=call.job,
        said=call.verdict,
        kind=(call.kind or "").replace("_", " "),
        because=call.reason,
        told=told.verdict,
        by=told.by,
        reason=told.reason,
        at=told.at,
    )
