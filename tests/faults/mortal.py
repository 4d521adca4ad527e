"""A worker process without Celery, started for what is due and killed at a chosen request to GitHub."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from bot import jobs
from bot.db.engine import open_engine, open_sessions
from bot.db.models import Job
from bot.demo.github.faults import Fault
from bot.log import configure
from bot.settings import load_settings
from bot.tasks import Worker, default_run, process

ROUNDS = 60
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.faults.mortal", "bot.handlers", "bot.github"])


def drain(settings: Mapping[str, Any]) -> None:
    """Do what is due until nothing is, as workers do when they are told of jobs."""
    told = load_settings(settings)
    configure(told.log_level)
    engine = open_engine(told.database)
    sessions = open_sessions(engine)
    worker = Worker(sessions, told, default_run())
    for _ in range(ROUNDS):
        with sessions() as session:
            ids = list(session.scalars(select(Job.id).where(jobs.due()).order_by(Job.id)))
        if not ids:
            break
        for job_id in ids:
            process(job_id, worker, lambda _: None)
    engine.dispose()


@dataclass
class Mortal:
    """One such process at a time. `settings` are the fields of the server's settings."""

    settings: Mapping[str, Any]
    deaths: int = 0
    _child: Any = None

    def start(self) -> None:
        """Start a process that does what is due."""
        self._child = PROCESSES.Process(target=drain, args=(dict(self.settings),), daemon=True)
        self._child.start()

    def wait(self, limit_s: float = 120.0) -> bool:
        """Wait for its end; False where it was killed."""
        self._child.join(limit_s)
        code = self._child.exitcode
        assert code is not None, "the worker hangs"
        killed: bool = code == -signal.SIGKILL
        assert killed or code == 0, f"the worker ended with {code}"
        self.deaths += killed
        return not killed

    def work(self) -> bool:
        """Let a process do what is due; False where it was killed."""
        self.start()
        return self.wait()

    def signal(self, number: int) -> None:
        """Send the process a signal, where it lives."""
        if self._child is not None and self._child.exitcode is None:
            os.kill(self._child.pid, number)


@dataclass
class Strike(Fault):
    """At the next matching request the worker gets a signal: before GitHub does it, or `after` it."""

    victim: Mortal | None = None
    number: int = signal.SIGKILL
    struck: threading.Event = field(default_factory=threading.Event)

    def __getattribute__(self, name: str) -> Any:
        """Strike where the stand-in makes its answer: it reads the status for that."""
        told = object.__getattribute__
        if name == "status" and (victim := told(self, "victim")) is not None:
            victim.signal(told(self, "number"))
            told(self, "struck").set()
        return told(self, name)
