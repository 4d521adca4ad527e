"""Queues and cancels runs of the runner lane: rows that its workers claim over HTTP."""

import uuid
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import func, insert, or_, select, update
from sqlalchemy.orm import Session

from bot import store
from bot.actions import CancelRuns, EnqueueRun, Target
from bot.db.models import Run, RunBlock, RunState

OPEN = (RunState.QUEUED, RunState.RUNNING)


def enqueue(action: EnqueueRun, target: Target, session: Session, now: datetime) -> None:
    """Add a run; where one of its key waits or runs already, that one is enough. The caller commits."""
    waiting = select(Run.id).where(Run.dedupe_key == action.dedupe_key, Run.state.in_(OPEN))
    if session.scalars(waiting).first() is not None:
        return
    if action.run_id is not None and session.get(Run, action.run_id) is not None:
        return
    free_key(session, action.dedupe_key)
    run_id = action.run_id or str(uuid.uuid4())
    session.add(
        Run(
            id=run_id,
            repo_id=target.repo_id,
            number=target.number,
            head_sha=target.head_sha,
            base_sha=action.base_sha,
            kind=action.kind,
            queue=action.queue,
            spec=dict(action.spec),
            requested_by=action.requested_by,
            requested_at=now,
            dedupe_key=action.dedupe_key,
        )
    )
    session.flush()
    if action.resume_of:
        copy_blocks(session, action.resume_of, run_id)
    store.tell(session, target, "run", {"run": run_id, "state": "queued"}, now)


def free_key(session: Session, key: str) -> None:
    """Let go of a key that a finished run still holds."""
    session.execute(update(Run).where(Run.dedupe_key == key).values(dedupe_key=None))


def copy_blocks(session: Session, from_run: str, to_run: str) -> None:
    """Give a run the blocks of an earlier one: the gate is replayed from them and goes on."""
    rows = session.scalars(select(RunBlock).where(RunBlock.run_id == from_run)).all()
    if rows:
        copies = [{"run_id": to_run, "case": row.case, "n": row.n, "data": row.data} for row in rows]
        session.execute(insert(RunBlock), copies)


def cancel(action: CancelRuns, target: Target, session: Session, now: datetime) -> None:
    """Cancel the waiting runs of the pull request, and ask the running ones to stop. The caller commits."""
    mine = [Run.repo_id == target.repo_id, Run.number == target.number]
    if action.keep_head:
        mine.append(Run.head_sha != action.keep_head)
    session.execute(
        update(Run)
        .where(*mine, Run.state == RunState.QUEUED)
        .values(state=RunState.CANCELED, error=action.reason, finished_at=now, dedupe_key=None)
    )
    session.execute(
        update(Run).where(*mine, Run.state == RunState.RUNNING).values(cancel_asked=True, error=action.reason)
    )


def runs_of(session: Session, repo_id: int, number: int, kind: str = "") -> Sequence[Run]:
    """Return the pull request's runs, of one kind where it is named, the newest first."""
    asked = select(Run).where(Run.repo_id == repo_id, Run.number == number)
    if kind:
        asked = asked.where(Run.kind == kind)
    return session.scalars(asked.order_by(Run.requested_at.desc(), Run.id).limit(50)).all()


def ahead_of(session: Session, run: Run) -> int:
    """Return how many runs of its queue come before a waiting run."""
    earlier = or_(Run.state == RunState.RUNNING, Run.requested_at < run.requested_at)
    asked = select(func.count()).where(Run.queue == run.queue, Run.state.in_(OPEN), Run.id != run.id, earlier)
    return session.scalars(asked).one()
