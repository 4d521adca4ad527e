"""A whole small service in a folder: real Redis, real database, real processes, real HTTP."""

import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import func, select
from sqlalchemy.engine import Engine

from bot.db.engine import Sessions, open_engine, open_sessions
from bot.db.models import Base, Delivery, Job, JobState
from bot.demo.redis_child import RedisChild

SECRET = "first-webhook-secret"
OLD_SECRET = "older-webhook-secret"
SERVICE_KEY = "service-key-canary"
LANE_KEY = "lane-key-canary"
REPOSITORY = {"id": 5_000_000_001, "full_name": "acme/engine", "default_branch": "main", "private": False}
DUMMY = Path(__file__).with_name("dummy.py")
ROOT = Path(__file__).parents[3]
MOUNT = "import typer, bot.cli_service as c; app = typer.Typer(pretty_exceptions_enable=False); c.mount(app)"
PROGRAM = f"{MOUNT}; app()"


def signature(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], Any], limit_s: float = 60.0, what: str = "") -> Any:
    """Return the condition's first true value; fail the test where none comes in time."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {limit_s} s in vain {what}")


@dataclass
class World:
    folder: Path
    redis: RedisChild
    database_url: str
    extra: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine: Engine = open_engine(self.database_url)
        self.sessions: Sessions = open_sessions(self.engine)
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=20)

    @property
    def environment(self) -> dict[str, str]:
        quick = {
            "LEASE_S": "2", "HEARTBEAT_S": "0.5", "SWEEP_S": "0.3", "RESEND_S": "1", "RETRY_DELAY_S": "0.05",
            "OUTAGE_DELAY_S": "0.2", "JOB_LIMIT_S": "8", "VISIBILITY_S": "10", "LOG_LEVEL": "INFO",
        }  # fmt: skip
        told = {
            "DATA_DIR": str(self.folder),
            "DATABASE_URL": self.database_url,
            "BROKER_URL": self.redis.url,
            "WEBHOOK_SECRETS": f"{SECRET},{OLD_SECRET}",
            "SERVICE_KEY": SERVICE_KEY,
            "LANE_KEYS": LANE_KEY,
            "BUILDKITE_WEBHOOK_SECRET": "buildkite-canary",
            "GITHUB_TOKEN": "ghp_canarycanarycanarycanarycanary",
            "GITHUB_API_URL": "http://127.0.0.1:9",
        }
        own = {f"PRGATE_{name}": value for name, value in {**quick, **told, **self.extra}.items()}
        plain = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        dummy = {name: value for name, value in self.extra.items() if name.startswith("DUMMY_")}
        return {**plain, **own, **dummy, "DUMMY_EFFECTS": str(self.effects_file), "PYTHONPATH": str(ROOT)}

    @property
    def effects_file(self) -> Path:
        return self.folder / "effects.jsonl"

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{arguments[0]}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(DUMMY), *arguments], env=self.environment, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def start_web(self) -> subprocess.Popen[bytes]:
        process = self.start("web", str(self.port))
        wait_until(self.is_up, what=f"for the web process:\n{self.log('web')[-2000:]}")
        return process

    def start_worker(self, concurrency: int = 1) -> subprocess.Popen[bytes]:
        return self.start("worker", str(concurrency))

    def is_up(self) -> bool:
        try:
            return self.http.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process and its children, as a crash of the machine would."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def post(self, event: str, payload: dict[str, Any], guid: str | None = None, secret: str = SECRET) -> Any:
        body = json.dumps({"repository": REPOSITORY, **payload}).encode()
        headers = {
            "X-GitHub-Event": event,
            "X-GitHub-Delivery": guid or str(uuid.uuid4()),
            "X-Hub-Signature-256": signature(body, secret),
            "Content-Type": "application/json",
        }
        return self.http.post("/webhooks/github", content=body, headers=headers)

    def effects(self, what: str | None = None, number: int | None = None) -> list[dict[str, Any]]:
        """Return what the jobs noted, in order."""
        if not self.effects_file.exists():
            return []
        lines = [json.loads(line) for line in self.effects_file.read_text().splitlines()]
        return [line for line in lines if what in (None, line["what"]) and number in (None, line["number"])]

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def count(self, table: type[Base]) -> int:
        with self.sessions() as session:
            return session.scalar(select(func.count()).select_from(table)) or 0

    def jobs(self, number: int | None = None) -> list[Job]:
        """Return the jobs about pull requests (the regular chores' come and go by themselves)."""
        asked = select(Job).where(Job.number > 0 if number is None else Job.number == number)
        with self.sessions() as session:
            return list(session.scalars(asked.order_by(Job.id)))

    def state_of(self, guid: str) -> str | None:
        with self.sessions() as session:
            row = session.get(Delivery, guid)
        return row.state.value if row else None

    def deliveries(self) -> dict[str, str]:
        with self.sessions() as session:
            return {row.guid: row.state.value for row in session.scalars(select(Delivery))}

    def all_ended(self, jobs: int, number: int | None = None) -> bool:
        ended = (JobState.DONE, JobState.DEAD)
        rows = self.jobs(number)
        return len(rows) >= jobs and all(job.state in ended for job in rows)

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                self.kill(process)
        self.http.close()
        self.engine.dispose()
