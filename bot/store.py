"""What the decision half keeps in the database: decisions, comments, overrides, permissions, pulls."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from bot import standing
from bot.actions import SetOverride, Target
from bot.db.models import Comment, Decision, Event, Override, Permission, Pull
from bot.facts import PullFacts, waiting_on

PERMISSION_LIFE = timedelta(minutes=5)


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value, equal for equal values."""
    text = json.dumps(value, sort_keys=True, default=str, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def latest(
    session: Session, repo_id: int, number: int, kind: str, head: str | None = None
) -> Decision | None:
    """Return the latest decision of a kind, of one head where `head` is given."""
    asked = select(Decision).where(
        Decision.repo_id == repo_id, Decision.number == number, Decision.kind == kind
    )
    if head is not None:
        asked = asked.where(Decision.head_sha == head)
    return session.scalars(asked.order_by(Decision.id.desc()).limit(1)).first()


def latest_value(session: Session, repo_id: int, number: int, kind: str) -> Mapping[str, Any]:
    """Return the latest decision's value; empty where there is none."""
    found = latest(session, repo_id, number, kind)
    return found.value if found else {}


def record(
    session: Session,
    target: Target,
    kind: str,
    value: Mapping[str, Any],
    evidence: Sequence[Any],
    now: datetime,
) -> bool:
    """Append a decision and its event; False, and nothing added, where it equals the latest of its head."""
    facts_hash = digest([value, list(evidence)])
    standing.roll_up(session, target, kind, value)
    before = latest(session, target.repo_id, target.number, kind)
    if before is not None and before.head_sha == target.head_sha and before.facts_hash == facts_hash:
        return False
    session.add(
        Decision(
            repo_id=target.repo_id,
            number=target.number,
            kind=kind,
            head_sha=target.head_sha,
            decided_at=now,
            facts_hash=facts_hash,
            value=dict(value),
            evidence=list(evidence),
        )
    )
    tell(session, target, kind, value, now)
    return True


def tell(session: Session, target: Target, kind: str, data: Mapping[str, Any], now: datetime) -> None:
    """Add an event for the live pages."""
    session.add(Event(at=now, kind=kind, repo_id=target.repo_id, number=target.number, data=dict(data)))


def remember_pull(session: Session, facts: PullFacts) -> None:
    """Keep the pull request's row for the queue page as it was just read."""
    target = facts.target
    before = session.get(Pull, (target.repo_id, target.number))
    moved = {} if before is not None and before.head_sha == target.head_sha else standing.NOT_JUDGED
    session.merge(
        Pull(
            repo_id=target.repo_id,
            number=target.number,
            title=facts.title,
            author=facts.author,
            state="merged" if facts.merged else facts.state,
            draft=facts.draft,
            head_sha=target.head_sha,
            base_sha=facts.base_sha,
            base_ref=facts.base_ref,
            labels=list(facts.labels),
            created_at=facts.created_at,
            updated_at=facts.updated_at,
            opened_by_association=facts.author_association,
            mode=target.mode.value,
            turn=waiting_on(facts) or "",
            **moved,
        )
    )
    if facts.state != "open":
        standing.forget_asked(session, target)


def comment_row(session: Session, target: Target, marker: str) -> Comment | None:
    """Return what is known of our comment of a marker."""
    return session.get(Comment, (target.repo_id, target.number, marker))


def remember_comment(
    session: Session, target: Target, marker: str, comment_id: int, body: str, now: datetime
) -> None:
    """Keep what we wrote, so that an equal text needs no request."""
    session.merge(
        Comment(
            repo_id=target.repo_id,
            number=target.number,
            marker=marker,
            comment_id=comment_id,
            body_hash=digest(body),
            head_sha=target.head_sha,
            updated_at=now,
        )
    )


def forget_comment(session: Session, target: Target, marker: str) -> None:
    """Drop what we believed of a comment that is not there any more."""
    key = (
        Comment.repo_id == target.repo_id,
        Comment.number == target.number,
        Comment.marker == marker,
    )
    session.execute(delete(Comment).where(*key))


def cached_permission(session: Session, repo_id: int, login: str, now: datetime) -> str | None:
    """Return a person's permission where it was asked for lately."""
    row = session.get(Permission, (repo_id, login.casefold()))
    return row.level if row is not None and row.until > now else None


def remember_permission(session: Session, repo_id: int, login: str, level: str, now: datetime) -> None:
    """Keep a person's permission for a few minutes."""
    session.merge(
        Permission(repo_id=repo_id, login=login.casefold(), level=level, until=now + PERMISSION_LIFE)
    )


def overrides(session: Session, repo_id: int, number: int) -> list[Override]:
    """Return the maintainers' words on this pull request's red jobs, oldest first; the latest counts."""
    asked = select(Override).where(Override.repo_id == repo_id, Override.number == number)
    return list(session.scalars(asked.order_by(Override.id)))


def add_override(session: Session, target: Target, action: SetOverride, now: datetime) -> None:
    """Keep a maintainer's word; said twice in a row it is kept once."""
    said = [row for row in overrides(session, target.repo_id, target.number) if row.job == action.job]
    if said and (said[-1].verdict, said[-1].by, said[-1].reason) == (
        action.verdict,
        action.by,
        action.reason,
    ):
        return
    session.add(
        Override(
            repo_id=target.repo_id,
            number=target.number,
            job=action.job,
            verdict=action.verdict,
            by=action.by,
            reason=action.reason,
            at=now,
        )
    )
    tell(session, target, "override", {"job": action.job, "verdict": action.verdict, "by": action.by}, now)
