"""What a worker does with a job id: claim it, do it under a heartbeat, and write how it ended."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from celery import Celery

from bot import jobs
from bot.celery_app import PROCESS, QUEUE
from bot.db.engine import Sessions, open_engine, open_sessions
from bot.dispatch import JobSpec, LeaseLost, RetryLater, UserError
from bot.errors import incident_id, one_line
from bot.leases import Heartbeat
from bot.log import bound, get_logger
from bot.settings import Settings

if TYPE_CHECKING:
    from bot.clients import Clients

log = get_logger(__name__)

LONGEST_OUTAGE_S = 86_400.0
LONGEST_PAUSE_S = 600.0

# Does one job: gather, decide, apply.
Run = Callable[[JobSpec, "Clients"], None]
# Tells workers about jobs.
Ring = Callable[[list[int]], None]


class Ending(StrEnum):
    """How one look at a job ended."""

    DONE = "done"
    POSTPONED = "postponed"
    FAILED = "failed"
    BURIED = "buried"
    BUSY = "busy"
    LOST = "lost"
    NOT_OURS = "not ours"


@dataclass(frozen=True)
class Worker:
    """What a worker process has: the store, the settings, and what does a job."""

    sessions: Sessions
    settings: Settings
    run: Run

    def clients(self, claim: jobs.Claim) -> "Clients":
        """Return what the job's handler may reach for."""
        from bot.clients import Clients
        from bot.guarding import Lease

        lease = Lease(self.sessions, claim)
        return Clients(self.sessions, self.settings, claim.claimed_at, claim.spec, lease)


def process(job_id: int, worker: Worker, ring: Ring) -> Ending:
    """Do one job if it is to be had, then ring for the next one of its pull request."""
    settings = worker.settings
    claim = jobs.claim(worker.sessions, job_id, settings.lease_s)
    if claim is None:
        return Ending.NOT_OURS
    if isinstance(claim, jobs.Busy):
        return Ending.BUSY
    spec = claim.spec
    ids = {"delivery": claim.delivery_guid, "repo": spec.repo_id, "pull": spec.number, "job": job_id}
    with (
        bound(**ids, verb=spec.verb),
        Heartbeat(worker.sessions, claim, settings.lease_s, settings.heartbeat_s),
    ):
        ending, following = attempt(claim, worker)
        log.info("job ended", ending=ending.value, attempt=claim.attempt)
    if following is not None:
        ring_quietly(ring, following)
    return ending


def attempt(claim: jobs.Claim, worker: Worker) -> tuple[Ending, int | None]:
    """Do a claimed job and write how it ended; return that, and the pull request's next due job."""
    try:
        worker.run(claim.spec, worker.clients(claim))
    except LeaseLost as lost:
        log.warning("the job is left to another worker", why=one_line(lost))
        return Ending.LOST, None
    except RetryLater as wait:
        return Ending.POSTPONED, jobs.postpone(worker.sessions, claim, wait.at, one_line(wait))
    except UserError as error:
        return Ending.DONE, jobs.finish(worker.sessions, claim, one_line(error))
    except Exception as error:
        wait_s = outage_wait_s(error, claim, worker.settings)
        if wait_s is None:
            return failure(claim, worker, error)
        at = datetime.now(UTC) + timedelta(seconds=wait_s)
        return Ending.POSTPONED, jobs.postpone(worker.sessions, claim, at, one_line(error))
    return Ending.DONE, jobs.finish(worker.sessions, claim)


def outage_wait_s(error: Exception, claim: jobs.Claim, settings: Settings) -> float | None:
    """Return how long to wait where GitHub itself is down, longer with the job's age; None for other faults.

    Nor is a login that is refused the job's fault: a key is being changed, or this host's clock is wrong. An
    outage of minutes or hours must bury no job; after a day it is no outage any more.
    """
    from bot.github import GitHubFault

    if not isinstance(error, GitHubFault) or not error.passing:
        return None
    age_s = (claim.claimed_at - claim.created_at).total_seconds()
    if age_s > LONGEST_OUTAGE_S:
        return None
    return min(max(settings.outage_delay_s, age_s / 4), LONGEST_PAUSE_S)


def failure(claim: jobs.Claim, worker: Worker, error: Exception) -> tuple[Ending, int | None]:
    """Queue a failed job again, later each time, or bury it after its last attempt."""
    incident = incident_id()
    log.exception("job failed", incident=incident, attempt=claim.attempt)
    says = f"{one_line(error)} (incident {incident})"
    if claim.attempt >= worker.settings.attempts:
        return Ending.BURIED, jobs.bury(worker.sessions, claim, says)
    delay_s = worker.settings.retry_delay_s * 4 ** (claim.attempt - 1)
    return Ending.FAILED, jobs.retry(worker.sessions, claim, delay_s, says)


def ring_quietly(ring: Ring, job_id: int) -> None:
    """Ring for a job; a broker that is away is no fault of ours, the relay sends it later."""
    try:
        ring([job_id])
    except Exception as error:
        log.warning("could not ring for the next job", next_job=job_id, error=one_line(error))


@lru_cache(maxsize=4)
def sessions_of(database_url: str, _process_id: int) -> Sessions:
    """Return a process's sessions; a forked child must not share its parent's connections."""
    return open_sessions(open_engine(database_url))


def add_tasks(app: Celery, settings: Settings, run: Run) -> None:
    """Register `tasks.process`, which does jobs with `run`."""
    import os

    def ring(job_ids: list[int]) -> None:
        for job_id in job_ids:
            app.send_task(PROCESS, (job_id,), queue=QUEUE, retry=False)

    def run_task(job_id: int) -> str:
        worker = Worker(sessions_of(settings.database, os.getpid()), settings, run)
        return process(job_id, worker, ring).value

    app.task(name=PROCESS, ignore_result=True)(run_task)


def default_run() -> Run:
    """Return what does a job in service: the handlers' table."""
    from bot import dispatch

    return partial(dispatch.run, table=dispatch.default_table())
