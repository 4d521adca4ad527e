"""The whole service as processes that can be killed: web, sweeps, worker, runner lane, Redis, PostgreSQL.

Leases of 3 s, a beat a second and a visibility of 10 s, so that a lost worker is missed soon.
"""

import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
from sqlalchemy import ColumnElement, func, or_, select

from bot.db.engine import open_engine, open_sessions
from bot.db.models import Job, JobState, Run, RunState
from bot.demo.children import Child
from bot.demo.github import StandIn
from bot.demo.github.state import Delivery
from bot.demo.redis_child import RedisChild
from bot.demo.world import load_keys
from tests.faults.clock import Clock
from tests.faults.repository import FULL_NAME, PEOPLE, build
from tests.postgres import Postgres, kill_if_there

LEASE_S = 3.0
SETTINGS = {
    "LEASE_S": f"{LEASE_S:g}",
    "HEARTBEAT_S": "1",
    "VISIBILITY_S": "10",
    "JOB_LIMIT_S": "9",
    "SWEEP_S": "0.5",
    "RESEND_S": "2",
    "RETRY_DELAY_S": "0.2",
    "OUTAGE_DELAY_S": "1",
    "REDELIVER_S": "3",
    # Many kills must not use up a job's attempts: that a poisonous job is given up is tested elsewhere.
    "ATTEMPTS": "20",
    "RUN_ATTEMPTS": "20",
    "GITHUB_WRITE_GAP_S": "0",
    "GITHUB_WRITES_A_MINUTE": "100000",
    "GITHUB_WRITES_AN_HOUR": "100000",
}
# Jobs that come back by themselves, whatever happens: they are no work that must end.
REGULAR = ("open", "redeliver")


class FaultWorld:
    """A running service in `folder`, reached at a port of its own; `clock`: one that can be set."""

    def __init__(self, folder: Path, postgres: Postgres, clock: Clock | None = None) -> None:
        self.folder = folder
        self.postgres = postgres
        self.clock = clock
        folder.mkdir(parents=True, exist_ok=True)
        self.keys = load_keys(folder / "keys.json")
        self.port = free_port()
        self.redis = RedisChild(folder / "redis")
        self.github = StandIn(
            build(folder / "engine.git"),
            FULL_NAME,
            people=PEOPLE,
            hook_url=f"{self.url}/webhooks/github",
            secret=self.keys["webhook"],
        )
        self.github.state.required = ("buildkite/engine",)
        self.database_url = postgres.new_database()
        self.engine = open_engine(self.database_url)
        self.sessions = open_sessions(self.engine)
        self.web = self._child("web", ["serve", "--port", str(self.port)], self._service())
        self.worker = self._child("worker", ["worker", "--concurrency", "2"], self._service())
        self.lane = self._child("lane", ["worker", "--lane", "gpu"], self._lane())

    @property
    def url(self) -> str:
        """Where the service is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def children(self) -> tuple[Child, ...]:
        """The service's own processes."""
        return (self.web, self.worker, self.lane)

    def _child(self, name: str, arguments: list[str], variables: Mapping[str, str]) -> Child:
        clock = self.clock.variables if self.clock and name != "lane" else {}
        return Child(name, arguments, {**variables, **clock}, self.folder / f"{name}.log")

    def _service(self) -> dict[str, str]:
        told = {
            "DATA_DIR": str(self.folder / "data"),
            "DATABASE_URL": self.database_url,
            "BROKER_URL": self.redis.url,
            "PUBLIC_URL": self.url,
            "WEBHOOK_SECRETS": self.keys["webhook"],
            "GITHUB_API_URL": f"{self.github.url}/api/v3",
            "GITHUB_WEB_URL": self.github.url,
            "GITHUB_APP_ID": "99",
            "GITHUB_PRIVATE_KEY": self.keys["app"],
            "CLONE_URL": str(self.folder / "engine.git"),
            "SERVICE_KEY": self.keys["service"],
            "LANE_KEYS": self.keys["lane"],
            "ALLOW_UNSANDBOXED": "1",
            "RECONCILE_MINUTES": "1440",
        }
        return {f"PRGATE_{name}": value for name, value in {**told, **SETTINGS}.items()}

    def _lane(self) -> dict[str, str]:
        told = {
            "SERVICE_URL": self.url,
            "LANE_KEY": self.keys["lane"],
            "LANE_QUEUES": "runner.cpu",
            "BROKER_URL": self.redis.url,
            "WORK_FOLDER": str(self.folder / "work"),
            "LANE_POLL_S": "1",
            "WORKER_NAME": "lane-1",
            "ALLOW_UNSANDBOXED": "1",
        }
        return {f"PRGATE_{name}": value for name, value in told.items()}

    def start(self) -> None:
        """Start everything and wait until the service answers."""
        self.github.start()
        self.redis.start()
        for child in self.children:
            child.start()
        self.wait(self.is_up, 120, "the start of the service")

    def stop(self) -> None:
        """End everything."""
        for child in self.children:
            child.kill()
        self.github.stop()
        self.redis.stop()
        self.engine.dispose()

    def is_up(self) -> bool:
        """Say whether the service answers."""
        try:
            return httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def keep_up(self) -> None:
        """Start again what ended, as a supervisor does: without its database a process does not stay."""
        if not self.redis.pid:
            self.redis.start()
        if not self.postgres.running:
            self.postgres.start()
        for child in self.children:
            if not child.running:
                child.start()

    def wait(self, holds: Callable[[], bool], limit_s: float, what: str) -> float:
        """Wait until `holds`, keeping all up; return how long it took. AssertionError after `limit_s`."""
        started = time.monotonic()
        while not holds():
            self.keep_up()
            took_s = time.monotonic() - started
            assert took_s < limit_s, f"waited {limit_s:.0f} s for {what}: {self.state()}"
            time.sleep(0.1)
        return time.monotonic() - started

    def settle(self, limit_s: float = 240.0) -> float:
        """Wait until every delivery arrived and nothing is left to do; return how long it took."""
        return self.wait(lambda: self.is_quiet() and self.is_quiet(), limit_s, "an end of the work")

    def is_quiet(self) -> bool:
        """Say whether all arrived and is done. A database that is away is not quiet."""
        if not self.github.hub.hooks.drain(1.0) or self.lost():
            return False
        try:
            return self.count(Job, open_job()) == 0 and self.count(Run, open_run()) == 0
        except Exception:
            return False

    def lost(self) -> int:
        """Return how many deliveries were never taken."""
        return sum(not arrived(one) for one in list(self.github.state.deliveries))

    def count(self, table: type[Job] | type[Run], condition: ColumnElement[bool]) -> int:
        """Return how many rows meet a condition."""
        with self.sessions() as session:
            return session.scalar(select(func.count()).select_from(table).where(condition)) or 0

    def state(self) -> str:
        """Say where everything stands, for messages."""
        try:
            with self.sessions() as session:
                jobs = session.scalars(select(Job).where(open_job() | (Job.state == JobState.DEAD))).all()
                runs = session.scalars(select(Run).where(open_run())).all()
        except Exception as error:
            return f"the database does not answer ({type(error).__name__})"
        lines = [f"{job.id} {job.verb} #{job.number} {job.state.value} {job.error}" for job in jobs[:10]]
        return json.dumps({"lost": self.lost(), "jobs": lines, "runs": [run.state.value for run in runs]})

    def child_of_worker(self) -> int | None:
        """Return the process id of one of the worker's children."""
        pid = self.worker.pid
        try:
            words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return None
        return int(words[-1]) if words else None

    def kill_child_of_worker(self) -> None:
        """Kill one process of the worker's pool."""
        pid = self.child_of_worker()
        if pid is not None:
            kill_if_there(pid)


def arrived(delivery: Delivery) -> bool:
    """Say whether some attempt of a delivery was taken, be it not the last."""
    codes = (delivery.status_code, delivery.first_code or 0, *(one.status_code for one in delivery.again))
    return any(200 <= code < 300 for code in codes)


def open_job() -> ColumnElement[bool]:
    """Return the condition that a job is not done yet, the regular chores left out."""
    regular = (Job.verb == "expand") & Job.subject.in_(REGULAR)
    return Job.state.in_((JobState.QUEUED, JobState.RUNNING)) & ~regular


def open_run() -> ColumnElement[bool]:
    """Return the condition that a run is not over."""
    return or_(Run.state == RunState.QUEUED, Run.state == RunState.RUNNING)


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(folder: Path, postgres: Postgres, clock: Clock | None = None) -> Iterator[FaultWorld]:
    """A started world for a `with` block."""
    world = FaultWorld(folder, postgres, clock)
    try:
        world.start()
        yield world
    finally:
        world.stop()
