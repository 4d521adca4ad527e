"""Was this head there when a maintainer spoke? A comment's payload names no commit, so pushes are dated.

The date of a commit can be forged; that of its `pull_request` delivery is GitHub's own.
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from bot.db.models import Delivery
from bot.pulls import when

PUSHES = ("opened", "synchronize", "reopened")
LOOKED_AT = 20


@dataclass(frozen=True, slots=True)
class Arrival:
    """When GitHub saw a head arrive, by its own clock; `known`: some push is on record."""

    at: datetime | None
    known: bool


def arrival(session: Session, repo_id: int, number: int, head_sha: str) -> Arrival:
    """Return when this head came, from the deliveries that told of it."""
    asked = (
        select(Delivery.payload, Delivery.action)
        .where(
            Delivery.event == "pull_request",
            Delivery.repo_id == repo_id,
            Delivery.number == number,
            Delivery.action.in_(PUSHES),
        )
        .order_by(Delivery.received_at.desc())
        .limit(LOOKED_AT)
    )
    pushes = [(pull_of(payload), action) for payload, action in session.execute(asked)]
    times = [time for pull, action in pushes for time in times_of(pull, action, head_sha)]
    return Arrival(max(times, default=None), any(pull for pull, _ in pushes))


def times_of(pull: Mapping[str, Any], action: str, head_sha: str) -> Iterator[datetime]:
    """Yield the time of a delivery that brought this head: times are in seconds, so a push counts as late."""
    if pull.get("head", {}).get("sha") != head_sha:
        return
    stamp = pull.get("created_at") if action == "opened" else pull.get("updated_at")
    if isinstance(stamp, str):
        yield when(stamp) + timedelta(seconds=0 if action == "opened" else 1)


def pull_of(payload: bytes | None) -> Mapping[str, Any]:
    """Return the pull request of a stored payload; empty where it is gone or broken."""
    if not payload:
        return {}
    try:
        found = json.loads(zlib.decompress(payload)).get("pull_request")
    except (ValueError, zlib.error, AttributeError):
        return {}
    return found if isinstance(found, dict) else {}


def was_there(head: Arrival, committed: datetime | None, spoken: datetime) -> bool:
    """Say whether the head was there when the comment was written.

    The commit's own date counts only where no push of the pull request is known: it can be forged.
    """
    at = head.at if head.known else committed
    return at is not None and at <= spoken
