"""Which part of CI's past has been read whole: a time span a scope, so that only the rest is asked for.

A scope is a pipeline's builds of one branch, or its red builds of pull requests.
"""

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from bot.ci.providers.reads import Window
from bot.db.models import CiCoverage

# A build may wait for machines, end, and have a job run again long after it was created.
SETTLED_AFTER = timedelta(hours=24)


def rest_of(asked: Window, covered: Window | None) -> Window | None:
    """Return the one span of `asked` that still has to be read; None where all of it was."""
    if covered is None or asked.end < covered.start or asked.start > covered.end:
        return asked
    if asked.start >= covered.start:
        return Window(covered.end, asked.end) if asked.end > covered.end else None
    return asked if asked.end > covered.end else Window(asked.start, covered.start)


def joined(covered: Window | None, read: Window) -> Window:
    """Return the span that is known after another one was read; of two that do not touch, the later."""
    if covered is None:
        return read
    if read.start > covered.end or read.end < covered.start:
        return max(covered, read, key=lambda one: one.end)
    return Window(min(covered.start, read.start), max(covered.end, read.end))


def settled(read: Window, now: datetime) -> Window | None:
    """Return the part of a span that no build changes any more; None where there is none."""
    end = min(read.end, now - SETTLED_AFTER)
    return Window(read.start, end) if end > read.start else None


def covered_by(session: Session, repo_id: int, scope: str) -> Window | None:
    """Return the span of a scope that was read whole; None where nothing was."""
    row = session.get(CiCoverage, (repo_id, scope))
    return None if row is None else Window(row.start_at, row.end_at)


def cover(session: Session, repo_id: int, scope: str, read: Window) -> None:
    """Note that a span of a scope was read whole."""
    known = joined(covered_by(session, repo_id, scope), read)
    session.merge(CiCoverage(repo_id=repo_id, scope=scope, start_at=known.start, end_at=known.end))
