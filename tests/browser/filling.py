"""What the record does not hold and a page shows: a job that died."""

from datetime import UTC, datetime

from sqlalchemy import select

from bot.db.engine import open_engine, open_sessions
from bot.db.models import Job, JobState, Repository
from bot.demo.past import remember_past
from bot.demo.world import EmbeddedWorld


def fill(world: EmbeddedWorld) -> None:
    """Add it, and the past that the demo shows, to a world's database."""
    remember_past(world)
    engine = open_engine(f"sqlite:///{world.folder / 'data' / 'prgate.db'}")
    with open_sessions(engine).begin() as session:
        repo_id = session.scalars(select(Repository.id)).one()
        session.add(dead_job(repo_id, world.recording.fix.number))
    engine.dispose()


def dead_job(repo_id: int, number: int) -> Job:
    """Return a job that failed for good."""
    now = datetime.now(UTC)
    return Job(
        verb="ci",
        repo_id=repo_id,
        number=number,
        state=JobState.DEAD,
        attempts=3,
        created_at=now,
        finished_at=now,
        error="TimeoutError: the log store did not answer (incident 3f2a9c01d4e7)",
    )
