"""One database under load: the ratio to the bare application, the memory over many deliveries, the drain."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import func, select, text

from bot.db.engine import Sessions, open_engine, open_sessions
from bot.db.migrate import upgrade
from bot.db.models import Delivery, Job, JobState
from bot.demo.redis_child import RedisChild
from tests.bot.service.world import free_port, wait_until
from tests.load.drive import Answers, for_seconds, so_many
from tests.load.mix import SECRET, Recorded, requests

ROOT = Path(__file__).parents[2]
WARM_UP_S = 1.0
START_LIMIT_S = 120.0
DRAIN_LIMIT_S = 900.0
SAMPLE_S = 0.25


@dataclass(frozen=True)
class Plan:
    """How long and how much: clients side by side, rounds of so many seconds, deliveries for the memory."""

    clients: int = 16
    rounds: int = 3
    seconds: float = 5.0
    deliveries: int = 30_000


@dataclass
class Memory:
    """Samples a process's resident memory in a thread."""

    pid: int
    kib: list[int] = field(default_factory=list)

    @contextmanager
    def watched(self) -> Iterator["Memory"]:
        """Sample while the block runs."""
        over = threading.Event()
        thread = threading.Thread(target=self._sample, args=(over,))
        thread.start()
        try:
            yield self
        finally:
            over.set()
            thread.join()

    def _sample(self, over: threading.Event) -> None:
        while not over.wait(SAMPLE_S):
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
            self.kib += [int(line.split()[1]) for line in lines if line.startswith("VmRSS:")]

    def part(self, place: int, of: int = 5) -> float:
        """Return the median of one part of the time, in MiB."""
        size = max(1, len(self.kib) // of)
        return median(self.kib[place * size : (place + 1) * size] or self.kib) / 1024


def measure(database_url: str, folder: Path, deliveries: Sequence[Recorded], plan: Plan) -> dict[str, Any]:
    """Return what one database gives, as a part of the report."""
    with ExitStack() as stack:
        redis = stack.enter_context(RedisChild())
        engine = open_engine(database_url)
        stack.callback(engine.dispose)
        upgrade(engine)
        sessions = open_sessions(engine)
        started = Processes(stack, settings(redis.url, database_url, folder), folder)
        messages = requests(deliveries)
        ratio = ratios(started, messages, plan)
        grown = memory(started, messages, plan)
        drained = drain(started, sessions)
        return {"database": engine.dialect.name, **ratio, **grown, **drained, **sizes(sessions)}


def settings(broker_url: str, database_url: str, folder: Path) -> dict[str, str]:
    """Return the variables of the processes; GitHub is not there, and nothing under load asks it."""
    told = {
        "DATA_DIR": str(folder),
        "DATABASE_URL": database_url,
        "BROKER_URL": broker_url,
        "WEBHOOK_SECRETS": SECRET,
        "SERVICE_KEY": "service-key-of-the-load",
        "GITHUB_TOKEN": "token-of-the-load",
        "GITHUB_API_URL": "http://127.0.0.1:9",
    }
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, **{f"PRGATE_{name}": value for name, value in told.items()}, "PYTHONPATH": str(ROOT)}


@dataclass
class Processes:
    """Starts what is measured, and ends it with the stack."""

    stack: ExitStack
    variables: dict[str, str]
    folder: Path
    ports: dict[str, int] = field(default_factory=dict)
    pids: dict[str, int] = field(default_factory=dict)

    def start(self, role: str) -> None:
        """Start a process; a server is waited for."""
        self.ports[role] = free_port()
        with (self.folder / f"{role}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.load.servers", role, str(self.ports[role])],
                env=self.variables, stdout=log, stderr=log, cwd=ROOT, start_new_session=True,
            )  # fmt: skip
        self.pids[role] = process.pid
        self.stack.callback(end, process)
        if role != "worker":
            wait_until(lambda: listens(self.ports[role]), START_LIMIT_S, f"for the {role}")


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a process and what it started."""
    process.terminate()
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def listens(port: int) -> bool:
    """Say whether somebody takes connections."""
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ratios(started: Processes, messages: Iterator[bytes], plan: Plan) -> dict[str, Any]:
    """Return throughput and latency of both, taken in turns: what slows the machine slows both."""
    found: dict[str, list[Answers]] = {"bare": [], "service": []}
    for role in found:
        started.start(role)
        for_seconds(started.ports[role], messages, plan.clients, WARM_UP_S)
    for _ in range(plan.rounds):
        for role, answers in found.items():
            answers.append(for_seconds(started.ports[role], messages, plan.clients, plan.seconds))
    pairs = list(zip(found["bare"], found["service"], strict=True))
    return {
        "bare_per_second": round(median(one.per_second for one in found["bare"])),
        "service_per_second": round(median(one.per_second for one in found["service"])),
        "ratio": round(median(service.per_second / bare.per_second for bare, service in pairs), 3),
        "bare_p50_ms": round(median(one.p50_ms for one in found["bare"]), 2),
        "p50_ms": round(median(one.p50_ms for one in found["service"]), 2),
        "p99_ms": round(median(one.p99_ms for one in found["service"]), 2),
        "p99_over_p50": round(median(one.p99_ms / one.p50_ms for one in found["service"]), 2),
        "refused": sum(one.refused for one in found["service"]),
    }


def memory(started: Processes, messages: Iterator[bytes], plan: Plan) -> dict[str, Any]:
    """Return how the service's memory goes over many deliveries."""
    with Memory(started.pids["service"]).watched() as seen:
        answers = so_many(started.ports["service"], messages, plan.clients, plan.deliveries)
    return {
        "deliveries": len(answers.latencies_s),
        "refused_of_them": answers.refused,
        "early_mib": round(seen.part(1), 1),
        "late_mib": round(seen.part(4), 1),
        "memory_growth": round(seen.part(4) / seen.part(1), 3),
    }


def drain(started: Processes, sessions: Sessions) -> dict[str, Any]:
    """Start a worker and wait until nothing waits any more."""
    before, began = open_jobs(sessions), time.monotonic()
    started.start("worker")
    wait_until(lambda: open_jobs(sessions) == 0, DRAIN_LIMIT_S, "for the end of the backlog")
    wall_s = time.monotonic() - began
    return {"backlog_jobs": before, "drained_in_s": round(wall_s, 1), "left": open_jobs(sessions)}


def open_jobs(sessions: Sessions) -> int:
    """Return how many jobs wait or run."""
    waiting = Job.state.in_((JobState.QUEUED, JobState.RUNNING))
    with sessions() as session:
        return session.scalar(select(func.count()).select_from(Job).where(waiting)) or 0


def sizes(sessions: Sessions) -> dict[str, Any]:
    """Return the bytes of a row of the tables that every delivery fills, indexes too (PostgreSQL only)."""
    with sessions() as session:
        if session.get_bind().dialect.name != "postgresql":
            return {}
        found: dict[str, Any] = {}
        for name, table in (("delivery", Delivery), ("job", Job)):
            rows = session.scalar(select(func.count()).select_from(table)) or 1
            size = session.scalar(text(f"SELECT pg_total_relation_size('{table.__tablename__}')")) or 0
            found[f"bytes_per_{name}"] = round(size / rows)
            found[f"{name}_rows"] = rows
        return found
