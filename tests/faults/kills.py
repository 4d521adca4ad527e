"""Kills one process of a running service after another, and watches how soon its work goes on."""

import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy import func, select, text
from sqlalchemy.exc import SQLAlchemyError

from bot.db.models import Job, JobState, Run, RunState
from bot.db.upsert import time_of
from bot.jobs import due
from tests.faults.world import LEASE_S, FaultWorld

# What the issue of the fault suite asks: whatever dies, its work goes on within the lease and half a minute.
RECOVERY_LIMIT_S = LEASE_S + 30.0


@dataclass(frozen=True)
class Kill:
    """One kill: of what, how many jobs and runs were in its hands, and how long until work went on."""

    target: str
    in_hand: int
    recovered_s: float


@dataclass
class Reaper:
    """Strikes at random; the same seed strikes in the same order."""

    world: FaultWorld
    rng: random.Random
    kills: list[Kill] = field(default_factory=list)

    def strike(self, target: str | None = None) -> Kill:
        """Kill something, let a supervisor start it again, and wait until its work goes on."""
        chosen = target or self.rng.choice(KILLED)
        jobs, runs = self.in_hand(chosen)
        with self.world.sessions() as session:
            now = time_of(session)
        WAYS[chosen](self.world)
        struck_at = time.monotonic()
        time.sleep(self.rng.choice((0.0, 0.0, 0.3, 1.5)))
        goes_on = lambda: self.goes_on(chosen, jobs, runs, now)  # noqa: E731
        self.world.wait(goes_on, RECOVERY_LIMIT_S, f"the recovery of {chosen}")
        self.kills.append(Kill(chosen, len(jobs) + len(runs), time.monotonic() - struck_at))
        return self.kills[-1]

    def in_hand(self, target: str) -> tuple[dict[int, str], dict[str, int]]:
        """Return which jobs (by their owner) and runs (by their attempt) the target is at."""
        dying = self.pids(target)
        with self.world.sessions() as session:
            owned = (Job.state == JobState.RUNNING) & Job.lease_owner.is_not(None)
            running = session.execute(select(Job.id, Job.lease_owner).where(owned)).all()
            measured = session.execute(select(Run.id, Run.attempt).where(Run.state == RunState.RUNNING)).all()
        jobs = {job_id: owner for job_id, owner in running if int(owner.split(":")[-2]) in dying}
        return jobs, dict(measured) if target == "lane" else {}

    def pids(self, target: str) -> set[int]:
        """Return the processes of the worker that die with the target."""
        if target == "child":
            return {self.world.child_of_worker() or 0}
        return group_of(self.world.worker.pid) if target in ("worker", "frozen worker") else set()

    def goes_on(
        self, target: str, jobs: Mapping[int, str], runs: Mapping[str, int], struck_at: datetime
    ) -> bool:
        """Say whether the target is back, nothing is held in a dead hand, and jobs are done again."""
        try:
            return UP[target](self.world) and self.taken_back(jobs, runs) and self.works(jobs, struck_at)
        except (SQLAlchemyError, RedisError, OSError):
            return False

    def taken_back(self, jobs: Mapping[int, str], runs: Mapping[str, int]) -> bool:
        """Say whether each job and run is over, or waits, or is somebody else's."""
        with self.world.sessions() as session:
            held = [session.get_one(Job, job_id) for job_id in jobs]
            measured = [session.get_one(Run, run_id) for run_id in runs]
        by_dead = any(job.state is JobState.RUNNING and job.lease_owner == jobs[job.id] for job in held)
        lost = any(run.state is RunState.RUNNING and run.attempt == runs[run.id] for run in measured)
        return not (by_dead or lost)

    def works(self, jobs: Mapping[int, str], struck_at: datetime) -> bool:
        """Say whether a job was claimed or ended since the strike, or none waits."""
        alive = (Job.state == JobState.RUNNING) & Job.lease_owner.not_in(jobs.values())
        with self.world.sessions() as session:
            waiting = session.scalar(select(func.count()).select_from(Job).where(due()))
            moved = select(Job.id).where(alive | (Job.finished_at > struck_at)).limit(1)
            return not waiting or session.scalar(moved) is not None


def group_of(pid: int) -> set[int]:
    """Return the processes that were started with this one."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getpgid(int(process.name)) == pid:
                found.add(int(process.name))
    return found


def answers_redis(world: FaultWorld) -> bool:
    """Say whether Redis takes commands again."""
    with Redis.from_url(world.redis.redis_url, socket_timeout=2) as client:
        return bool(client.ping())


def answers_postgres(world: FaultWorld) -> bool:
    """Say whether PostgreSQL takes statements again."""
    with world.sessions() as session:
        return session.scalar(text("SELECT 1")) == 1


def freeze(world: FaultWorld) -> None:
    """Let the worker and its children stand still past their leases, then go on."""
    pids = group_of(world.worker.pid)
    signal_all(pids, signal.SIGSTOP)
    time.sleep(LEASE_S + 1.5)
    signal_all(pids, signal.SIGCONT)


def signal_all(pids: Iterable[int], number: int) -> None:
    """Send a signal to those processes that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def fill_disk(world: FaultWorld) -> None:
    """Let no file of web, worker, Redis and PostgreSQL grow for a while, as where the disk is full."""
    limit_files(world, 4096)
    time.sleep(3.0)
    limit_files(world, resource.RLIM_INFINITY)


def limit_files(world: FaultWorld, size: int) -> None:
    """Let the files of all processes grow to so many bytes."""
    for pid in [*group_of(world.web.pid), *group_of(world.worker.pid), *filter(None, [world.redis.pid])]:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    world.postgres.limit_files("unlimited" if size == resource.RLIM_INFINITY else str(size))


def jump(world: FaultWorld) -> None:
    """Let the wall clocks of web and worker be wrong for a while, by hours or a day, ahead or behind."""
    assert world.clock is not None
    world.clock.set(world.clock.rng.choice((-86_400.0, -7_200.0, 7_200.0, 86_400.0)))
    time.sleep(3.0)
    world.clock.set(0.0)


def all_up(world: FaultWorld) -> bool:
    """Say whether everything answers."""
    return world.is_up() and world.worker.running and answers_redis(world) and answers_postgres(world)


KILLED = ("web", "worker", "child", "lane", "redis", "postgres", "backend")
WAYS: Mapping[str, Callable[[FaultWorld], None]] = {
    "web": lambda world: world.web.kill(),
    "worker": lambda world: world.worker.kill(),
    "child": lambda world: world.kill_child_of_worker(),
    "lane": lambda world: world.lane.kill(),
    "redis": lambda world: world.redis.kill(),
    "postgres": lambda world: world.postgres.kill(),
    "backend": lambda world: world.postgres.kill_backend(),
    "frozen worker": freeze,
    "full disk": fill_disk,
    "clock": jump,
}
UP: Mapping[str, Callable[[FaultWorld], bool]] = {
    "web": FaultWorld.is_up,
    "worker": lambda world: world.worker.running,
    "child": lambda world: world.worker.running,
    "lane": lambda world: world.lane.running,
    "redis": answers_redis,
    "postgres": answers_postgres,
    "backend": answers_postgres,
    "frozen worker": lambda world: world.worker.running,
    "full disk": all_up,
    "clock": all_up,
}
