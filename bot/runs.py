"""The states of a run in SQL: queued -> running (under a lease) -> done, failed or canceled.

`attempt` fences: a token is good for one attempt, so a worker that was given up can change nothing any more.
What workers send is untrusted: it is validated before it gets here, counted here, and stored as data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.orm import Session
from sqlalchemy.sql.elements import ColumnElement

from bot import jobs, metrics
from bot.db.engine import Sessions
from bot.db.models import Event, Repository, Run, RunBlock, RunState
from bot.db.types import now_plus
from bot.db.upsert import changed, insert_into
from bot.dispatch import JobSpec, look
from bot.nightly.due import BY_NIGHT
from bot.nightly.noise import priors_for
from bot.settings import Settings
from perf_runner.models import Machine
from perf_runner.protocol import RUN_TASK, Offer, Report, RunSpec, StoredBlock, make_token

MOST_BLOCKS = 2_000
RINGS = 100
# Where a doorbell was lost, workers find the run by polling; it is rung again all the same.
RING_AGAIN_S = 120.0
OUTCOMES = {"done": RunState.DONE, "failed": RunState.FAILED, "canceled": RunState.CANCELED}
# Which jobs look at what a run brought; the first one also looks when it begins.
LOOKS = {"experiment": ("perf", "triage"), "tests": ("settle", "ci"), "bisect": ("bisect",)}


class RunRing(Protocol):
    """What the relay needs of the runner lane's broker."""

    def ring_run(self, task: str, queue: str, run_id: str, token: str) -> None:
        """Tell a queue about a run."""


@dataclass(frozen=True, slots=True)
class Hold:
    """One attempt of one run, as a valid token names it."""

    run_id: str
    attempt: int


def due() -> ColumnElement[bool]:
    """Return the condition that a queued run may start now."""
    waited = or_(Run.not_before.is_(None), Run.not_before <= now_plus(0))
    return and_(Run.state == RunState.QUEUED, waited)


def token_for(settings: Settings, run: Run, now: datetime) -> str:
    """Return the token of a run's next attempt."""
    expires_at = now + timedelta(minutes=settings.run_token_minutes)
    return make_token(settings.service_key.get_secret_value(), run.id, run.attempt + 1, expires_at)


def offer(sessions: Sessions, queues: Sequence[str], settings: Settings) -> Offer | None:
    """Return the oldest run that waits on one of the queues, with its token; claiming it is another step."""
    with sessions() as session:
        waiting = select(Run).where(due(), Run.queue.in_(queues)).order_by(Run.requested_at, Run.id)
        run = session.scalars(waiting.limit(1)).first()
    return Offer(run_id=run.id, token=token_for(settings, run, datetime.now(UTC))) if run else None


def claim(
    sessions: Sessions, hold: Hold, worker: str, machine: Machine, settings: Settings
) -> RunSpec | None:
    """Take a run; None where it is taken, over, or this attempt is an old one."""
    waits = and_(Run.id == hold.run_id, Run.attempt == hold.attempt - 1, due())
    values = {
        "state": RunState.RUNNING,
        "attempt": hold.attempt,
        "lease_owner": worker,
        "lease_until": now_plus(settings.lease_s),
        "started_at": now_plus(0),
        "machine": machine.model_dump(mode="json"),
    }
    with sessions.begin() as session:
        if changed(session, update(Run).where(waits).values(**values)) == 0:
            return None
        run = session.get_one(Run, hold.run_id)
        tell(session, run, {"state": "running", "worker": worker})
        jobs.enqueue(session, looks(run)[:1])
        return spec_of(session, run, settings)


def spec_of(session: Session, run: Run, settings: Settings) -> RunSpec:
    """Return what the worker is told: the run's own spec, and what only the service knows."""
    repository = session.get_one(Repository, run.repo_id)
    blocks: dict[str, list[Any]] = {}
    rows = select(RunBlock).where(RunBlock.run_id == run.id).order_by(RunBlock.case, RunBlock.n)
    for row in session.scalars(rows):
        blocks.setdefault(row.case, []).append(row.data)
    service_side = {
        "run_id": run.id,
        "attempt": run.attempt,
        "kind": run.kind,
        "repo_full_name": repository.full_name,
        "number": run.number,
        "lease_s": settings.lease_s,
        "blocks": blocks,
        "priors": priors(session, run),
        "allow_unsandboxed": settings.allow_unsandboxed,
    }
    return RunSpec.model_validate({**run.spec, **service_side})


def priors(session: Session, run: Run) -> Mapping[str, Any]:
    """Return the noise that the nights measured on this run's class of hosts; none for a night itself."""
    if run.requested_by == BY_NIGHT:
        return {}
    host_class = str((run.machine or {}).get("host_class", ""))
    return priors_for(session, run.repo_id, run.spec.get("cases", ()), host_class)


def held(hold: Hold) -> ColumnElement[bool]:
    """Return the condition that the run is still at this attempt."""
    return and_(Run.id == hold.run_id, Run.attempt == hold.attempt, Run.state == RunState.RUNNING)


def beat(
    sessions: Sessions,
    hold: Hold,
    lease_s: float,
    progress: Mapping[str, Any] | None,
    blocks: Sequence[StoredBlock],
) -> bool | None:
    """Extend the run's lease, keep what came with it; True asks the worker to stop, None: it lost the run."""
    values: dict[str, Any] = {"lease_until": now_plus(lease_s)}
    if progress is not None:
        values["progress"] = dict(progress)
    with sessions.begin() as session:
        if changed(session, update(Run).where(held(hold)).values(**values)) == 0:
            return None
        run = session.get_one(Run, hold.run_id)
        store_blocks(session, run.id, blocks)
        if progress is not None:
            tell(session, run, {"state": "running", "progress": dict(progress)})
        return run.cancel_asked


def store_blocks(session: Session, run_id: str, blocks: Sequence[StoredBlock]) -> None:
    """Keep blocks as they came; one that is there already stays, and a run has its limit."""
    have = session.scalar(select(func.count()).where(RunBlock.run_id == run_id)) or 0
    rows = [
        {
            "run_id": run_id,
            "case": item.case,
            "n": item.block.number,
            "data": item.block.model_dump(mode="json"),
        }
        for item in blocks[: max(0, MOST_BLOCKS - have)]
        if item.block.number < MOST_BLOCKS
    ]
    if rows:
        session.execute(insert_into(session, RunBlock).on_conflict_do_nothing(), rows)


def report(sessions: Sessions, hold: Hold, said: Report) -> bool:
    """Store how a run ended and queue the look at it; False where this attempt lost the run."""
    with sessions.begin() as session:
        run = session.scalar(select(Run).where(held(hold)).with_for_update())
        if run is None:
            return False
        if said.outcome == "handed_back":
            requeue(session, run)
        else:
            end(session, run, OUTCOMES[said.outcome], said.error, said.model_dump(mode="json"))
    return True


def end(
    session: Session, run: Run, state: RunState, error: str | None, result: Mapping[str, Any] | None = None
) -> None:
    """Write a run's last state, and queue the jobs that look at it."""
    run.state = state
    run.error = error or run.error
    run.result = dict(result) if result is not None else None
    run.finished_at = datetime.now(UTC)
    run.lease_owner = run.lease_until = run.dedupe_key = None
    tell(session, run, {"state": state.value})
    jobs.enqueue(session, looks(run))


def requeue(session: Session, run: Run) -> None:
    """Put a run back for another worker; what was measured stays. A canceled one ends instead."""
    if run.cancel_asked:
        end(session, run, RunState.CANCELED, None)
        return
    run.state = RunState.QUEUED
    run.lease_owner = run.lease_until = run.sent_at = None
    tell(session, run, {"state": "queued"})


def looks(run: Run) -> list[JobSpec]:
    """Return the jobs that look at a run's state; one of number 0 is of no pull request but of a night."""
    if run.number == 0:
        return [look("nightly", run.repo_id, 0)]
    return [look(verb, run.repo_id, run.number) for verb in LOOKS.get(run.kind, ())]


def tell(session: Session, run: Run, data: Mapping[str, Any]) -> None:
    """Let the live pages know."""
    event = Event(
        at=datetime.now(UTC), kind="run", repo_id=run.repo_id, number=run.number, data={"run": run.id, **data}
    )
    session.add(event)


def expire(sessions: Sessions, attempts: int) -> int:
    """Take runs back whose worker stopped beating; after `attempts` such losses it could not be measured."""
    with sessions.begin() as session:
        lost = and_(Run.state == RunState.RUNNING, Run.lease_until < now_plus(0))
        runs = session.scalars(select(Run).where(lost).limit(100).with_for_update()).all()
        for run in runs:
            run.failures += 1
            if run.failures >= attempts:
                end(session, run, RunState.FAILED, f"could not measure: the worker was lost {attempts} times")
            else:
                requeue(session, run)
    return len(runs)


def ring(sessions: Sessions, bell: RunRing, settings: Settings) -> int:
    """Ring for the runs that wait and were not rung for lately; return how many."""
    quiet = or_(Run.sent_at.is_(None), Run.sent_at < now_plus(-RING_AGAIN_S))
    with sessions() as session:
        waiting = select(Run).where(due(), quiet).order_by(Run.requested_at, Run.id).limit(RINGS)
        runs = session.scalars(waiting).all()
    for run in runs:
        bell.ring_run(RUN_TASK, run.queue, run.id, token_for(settings, run, datetime.now(UTC)))
    if runs:
        with sessions.begin() as session:
            still = and_(Run.id.in_([run.id for run in runs]), Run.state == RunState.QUEUED)
            session.execute(update(Run).where(still).values(sent_at=now_plus(0)))
        metrics.RELAY_SENT.labels("run").inc(len(runs))
    return len(runs)
