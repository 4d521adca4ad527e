"""Rows -> views: what the pages read, a fixed number of queries a page whatever its size."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, and_, func, or_, select
from sqlalchemy.orm import Session

from bot.dashboard.story import tell
from bot.dashboard.views import PullPage, QueuePage, QueueRow, ci_badge, perf_badge, priority_badge
from bot.db.models import Decision, Pull, Repository, Run

PAGE_SIZE = 50
QUEUE_KINDS = ("route", "priority", "ci", "perf")
LIKE = str.maketrans({"\\": r"\\", "%": r"\%", "_": r"\_"})
MOST_OPEN = 5_000  # open pull requests that the queue sorts by urgency
Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Filters:
    """What the queue is narrowed to; empty means all."""

    repo: str = ""
    text: str = ""
    priority: str = ""
    ci: str = ""

    @property
    def any(self) -> bool:
        """Say whether anything narrows the queue."""
        return bool(self.repo or self.text or self.priority or self.ci)


def queue(session: Session, filters: Filters, after: str = "", limit: int = PAGE_SIZE) -> QueuePage:
    """Return the open pull requests, most urgent first and then oldest; `after` is a page's `next`."""
    found = session.execute(open_pulls(filters)).all()
    latest = latest_decisions(session)
    rows = [row(pull, name, latest.get((pull.repo_id, pull.number), {})) for pull, name in found]
    wanted = [item for item in rows if matches(item, filters)]
    wanted.sort(key=lambda item: (-item.score, item.opened_at, item.repo, item.number))
    start = start_of(wanted, after)
    shown = tuple(wanted[start : start + limit])
    more = len(wanted) > start + limit
    return QueuePage(items=shown, next=f"{shown[-1].repo}:{shown[-1].number}" if more and shown else None)


def open_pulls(filters: Filters) -> Select[Pull, str]:
    """Return the query of the open pull requests that the filters name."""
    query = (
        select(Pull, Repository.full_name)
        .join(Repository, Repository.id == Pull.repo_id)
        .where(Pull.state == "open", Repository.removed_at.is_(None))
        .order_by(Pull.created_at)
        .limit(MOST_OPEN)
    )
    if filters.repo:
        query = query.where(func.lower(Repository.full_name) == filters.repo.lower())
    if filters.text:
        like = f"%{filters.text.translate(LIKE)}%"
        query = query.where(or_(Pull.title.ilike(like, escape="\\"), Pull.author.ilike(like, escape="\\")))
    return query


def latest_decisions(session: Session) -> dict[Key, dict[str, Decision]]:
    """Return the latest decision of each kind for each open pull request; closed ones cost nothing."""
    latest: dict[Key, dict[str, Decision]] = {}
    newest = (
        select(func.max(Decision.id))
        .join(Pull, and_(Pull.repo_id == Decision.repo_id, Pull.number == Decision.number))
        .where(Decision.kind.in_(QUEUE_KINDS), Pull.state == "open")
        .group_by(Decision.repo_id, Decision.number, Decision.kind)
    )
    for decision in session.scalars(select(Decision).where(Decision.id.in_(newest))):
        latest.setdefault((decision.repo_id, decision.number), {})[decision.kind] = decision
    return latest


def row(pull: Pull, repo: str, latest: Mapping[str, Decision]) -> QueueRow:
    """Return one row; what was decided for an older head is not shown as the present one's."""
    values: dict[str, dict[str, Any]] = {
        kind: decision.value
        for kind, decision in latest.items()
        if kind in {"route", "priority"} or decision.head_sha == pull.head_sha
    }
    return QueueRow(
        repo=repo,
        number=pull.number,
        title=pull.title,
        author=pull.author,
        draft=pull.draft,
        opened_at=pull.created_at,
        priority=priority_badge(values.get("priority")),
        score=int(values.get("priority", {}).get("score") or 0),
        owners=tuple(str(login) for login in values.get("route", {}).get("ask") or ()),
        ci=ci_badge(values.get("ci")),
        perf=perf_badge(values.get("perf")),
    )


def matches(item: QueueRow, filters: Filters) -> bool:
    """Say whether a row has the wanted priority and CI verdict."""
    return (not filters.priority or item.priority.text == filters.priority) and (
        not filters.ci or item.ci == ci_badge({"overall": filters.ci})
    )


def start_of(rows: Iterable[QueueRow], after: str) -> int:
    """Return the index behind the row named by `after` (`org/name:number`), 0 where it is not there."""
    return next((n + 1 for n, item in enumerate(rows) if f"{item.repo}:{item.number}" == after), 0)


def pull(session: Session, repo: str, number: int, web_url: str) -> PullPage | None:
    """Return the story of one pull request; None where it is not known."""
    found = session.execute(
        select(Pull, Repository.full_name)
        .join(Repository, Repository.id == Pull.repo_id)
        .where(func.lower(Repository.full_name) == repo.lower(), Pull.number == number)
    ).first()
    if found is None:
        return None
    row_, name = found
    about = (Decision.repo_id == row_.repo_id, Decision.number == number)
    decisions = session.scalars(select(Decision).where(*about).order_by(Decision.id.desc()).limit(200)).all()
    runs = session.scalars(
        select(Run)
        .where(Run.repo_id == row_.repo_id, Run.number == number)
        .order_by(Run.requested_at.desc())
        .limit(100)
    ).all()
    return PullPage(
        repo=name,
        number=number,
        title=row_.title,
        author=row_.author,
        state=row_.state,
        draft=row_.draft,
        head_sha=row_.head_sha,
        url=f"{web_url.rstrip('/')}/{name}/pull/{number}",
        story=tell(decisions, runs),
    )
