"""The jobs about nights. Number 0 stands for the whole repository: one writer at a time, as for a pull."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from bot import jobs
from bot.db.engine import Sessions
from bot.db.models import Repository
from bot.dispatch import JobSpec, look

VERB = "nightly"
WHOLE = 0


def look_again(session: Session, repo_id: int) -> None:
    """Queue one look at a repository's nights."""
    jobs.enqueue(session, [whole_look(repo_id)])


def whole_look(repo_id: int) -> JobSpec:
    """Return the job that judges a repository's nights."""
    return look(VERB, repo_id, WHOLE)


def tick(repo_id: int) -> JobSpec:
    """Return the job that sees whether a night is due."""
    return JobSpec(VERB, repo_id, None, "tick", dedupe_key=f"{VERB}:{repo_id}:tick")


def tick_all(sessions: Sessions) -> int:
    """Let each repository see whether its night is due; return how many there are."""
    with sessions.begin() as session:
        there = select(Repository.id).where(Repository.removed_at.is_(None)).order_by(Repository.id)
        specs = [tick(repo_id) for repo_id in session.scalars(there)]
        jobs.enqueue(session, specs)
    return len(specs)
