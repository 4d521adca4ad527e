"""The embedded world: Redis, the stand-ins, the service, its worker and a runner lane on this machine."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from sqlalchemy import Engine, Select, func, select

from bot.db.engine import open_engine, open_reading_sessions
from bot.db.models import Job, JobState, Run, RunState
from bot.demo.buildkite import StandInBuildkite
from bot.demo.children import Child, wait_until
from bot.demo.github import StandIn
from bot.demo.github.sign_in import CLIENT_ID, CLIENT_SECRET
from bot.demo.recorded import Recording, load
from bot.demo.redis_child import RedisChild
from bot.demo.target import TargetRepository, World, build_target

QUEUE = "runner.cpu"
START_LIMIT_S = 60.0
WORKER_PROCESSES = 2  # processes of the bot's own lane: routing and CI verdict side by side


@dataclass(frozen=True)
class Address:
    """Where the world is reached: the service's port, and the stand-in's beside it."""

    port: int

    @property
    def service(self) -> str:
        """The service's URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def github_port(self) -> int:
        """The stand-in GitHub's port."""
        return self.port + 1


class EmbeddedWorld:
    """Starts everything in `folder` and stops it again; state lives there, so a second start goes on.

    `told` tells the recorded history otherwise (for tests); `unsandboxed` lets the lane run without a
    sandbox, which only the recorded code may.
    """

    def __init__(
        self,
        folder: Path,
        port: int,
        *,
        told: World | None = None,
        unsandboxed: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.address = Address(port)
        self._unsandboxed = unsandboxed
        self._more = dict(variables or {})
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("logs", "work"):
            (folder / name).mkdir(exist_ok=True)
        self.keys = load_keys(folder / "keys.json")
        self.target = load_target(folder / "target.git", folder / "target.json", told)
        self.recording: Recording = load(self.target, main_green=bool(told and told.main_green))
        self.redis = RedisChild(folder / "redis")
        self.github = StandIn(
            self.target.path,
            self.recording.repository,
            port=self.address.github_port,
            people=self.recording.people,
            hook_url=f"{self.address.service}/webhooks/github",
            secret=self.keys["webhook"],
            state_file=folder / "standin.state",
        )
        self.github.state.required = self.recording.required
        self.buildkite = StandInBuildkite(self.recording, self.github, self.keys["buildkite"])
        self.web = self._child("web service", ["serve", "--port", str(port)], "web")
        self.worker = self._child(
            "worker", ["worker", "--lane", "cpu", "--concurrency", str(WORKER_PROCESSES)], "worker"
        )
        self.lane = self._child("runner lane", ["worker", "--lane", "gpu"], "lane")
        self._engine: Engine | None = None

    @property
    def children(self) -> tuple[Child, ...]:
        """Return the processes of the service."""
        return (self.web, self.worker, self.lane)

    def _child(self, name: str, arguments: list[str], short: str) -> Child:
        variables = self._lane_variables() if short == "lane" else self._service_variables()
        return Child(name, arguments, {**variables, **self._more}, self.folder / "logs" / f"{short}.log")

    def _service_variables(self) -> dict[str, str]:
        """Return the settings of the service and its worker."""
        stand_in = self.github.url
        return {
            "PRGATE_DATA_DIR": str(self.folder / "data"),
            "PRGATE_BROKER_URL": self.redis.url,
            "PRGATE_PUBLIC_URL": self.address.service,
            "PRGATE_WEBHOOK_SECRETS": self.keys["webhook"],
            "PRGATE_GITHUB_API_URL": f"{stand_in}/api/v3",
            "PRGATE_GITHUB_WEB_URL": stand_in,
            "PRGATE_GITHUB_APP_ID": "99",
            "PRGATE_GITHUB_PRIVATE_KEY": self.keys["app"],
            "PRGATE_GITHUB_CLIENT_ID": CLIENT_ID,
            "PRGATE_GITHUB_CLIENT_SECRET": CLIENT_SECRET,
            "PRGATE_CLONE_URL": str(self.target.path),
            "PRGATE_BUILDKITE_API_URL": self.buildkite.url,
            "PRGATE_BUILDKITE_TOKEN": self.keys["buildkite"],
            "PRGATE_BUILDKITE_ORG": self.buildkite.organization,
            "PRGATE_LOG_HOSTS": "127.0.0.1",
            "PRGATE_SERVICE_KEY": self.keys["service"],
            "PRGATE_LANE_KEYS": self.keys["lane"],
            "PRGATE_ALLOW_UNSANDBOXED": "1" if self._unsandboxed else "0",
            "PRGATE_RECONCILE_MINUTES": "1440",
            "PRGATE_GITHUB_WRITE_GAP_S": "0.2",  # the stand-in has no limit to keep
        }

    def _lane_variables(self) -> dict[str, str]:
        """Return the settings of the runner lane: it has a key to ask with, and no secret else."""
        return {
            "PRGATE_SERVICE_URL": self.address.service,
            "PRGATE_LANE_KEY": self.keys["lane"],
            "PRGATE_LANE_QUEUES": QUEUE,
            "PRGATE_BROKER_URL": self.redis.url,
            "PRGATE_WORK_FOLDER": str(self.folder / "work"),
            "PRGATE_LANE_POLL_S": "2",
            "PRGATE_ALLOW_UNSANDBOXED": "1" if self._unsandboxed else "0",
        }

    def start(self) -> Self:
        """Start everything and wait until the service is ready."""
        self.buildkite.install()
        for build in self.recording.builds:
            if self.github.state.statuses_of(build.commit):
                self.buildkite.publish(build)  # it ran in an earlier life of this world
        self.github.start()
        self.redis.start()
        for child in self.children:
            child.start()
        wait_until(self.answers, self.children, START_LIMIT_S, "the start of the service")
        self._engine = open_engine(f"sqlite:///{self.folder / 'data' / 'prgate.db'}")
        return self

    def answers(self) -> bool:
        """Say whether the service answers."""
        try:
            return httpx.get(f"{self.address.service}/healthz", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def stop(self) -> None:
        """Stop everything, the service first, and keep the stand-in's state."""
        for child in self.children:
            child.stop()
        self.github.stop()
        self.redis.stop()
        if self._engine is not None:
            self._engine.dispose()

    def settle(self, limit_s: float = 120.0, *, runs: bool = True) -> None:
        """Wait until nothing is left to do (with `runs`: nor to measure)."""

        def quiet() -> bool:
            drained = self.github.hub.hooks.drain(5.0)
            return drained and self._open_jobs() == 0 and (not runs or self._open_runs() == 0)

        def stays_quiet() -> bool:
            # A delivery that was just answered may not have become a job yet, and a job may have led to one.
            return quiet() and quiet()

        wait_until(stays_quiet, self.children, limit_s, "an end of the work")

    def dead_jobs(self) -> list[str]:
        """Return the jobs that failed for good, in words."""
        if self._engine is None:
            return []
        with open_reading_sessions(self._engine)() as session:
            dead = session.scalars(select(Job).where(Job.state == JobState.DEAD)).all()
        return [f"the end of job {job.verb} on #{job.number} ({job.error})" for job in dead]

    def _open_jobs(self) -> int:
        return self._count(
            select(func.count()).select_from(Job).where(Job.state.in_((JobState.QUEUED, JobState.RUNNING)))
        )

    def _open_runs(self) -> int:
        return self._count(
            select(func.count()).select_from(Run).where(Run.state.in_((RunState.QUEUED, RunState.RUNNING)))
        )

    def _count(self, query: Select[int]) -> int:
        if self._engine is None:
            return 0
        with open_reading_sessions(self._engine)() as session:
            return session.execute(query).scalar_one()

    def __enter__(self) -> Self:
        """Start everything; what was started is stopped where that fails."""
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything."""
        self.stop()


def load_keys(file: Path) -> dict[str, str]:
    """Return this world's own secrets, made at its first start and readable by its owner alone."""
    if file.exists():
        found: dict[str, str] = json.loads(file.read_text())
        return found
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    names = ("webhook", "service", "lane", "buildkite")
    keys = {"app": pem, **{name: secrets.token_urlsafe(24) for name in names}}
    file.touch(mode=0o600)
    file.write_text(json.dumps(keys))
    return keys


def load_target(folder: Path, record: Path, told: World | None) -> TargetRepository:
    """Return the recorded repository, built at the first start; commits made since stay in it."""
    if record.exists():
        known = json.loads(record.read_text())
        return TargetRepository(folder, known["shas"], tuple(known["history"]))
    target = build_target(folder, told)
    record.write_text(json.dumps({"shas": dict(target.shas), "history": target.history}))
    return target
