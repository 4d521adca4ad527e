"""The relay: tells workers about jobs and runs that were committed, so that no request waits for the broker.

It sends what was never sent, and sends again what seems lost: a job that still waits while the queue of
messages is empty. A message too many does no harm, a claim is conditional.
"""

import threading
from typing import Protocol

from bot import jobs, metrics
from bot.db.engine import Sessions
from bot.log import get_logger

log = get_logger(__name__)

BATCH = 200
LONGEST_PAUSE_S = 10.0
# However many messages wait, a job that is silent for this long is sent again.
LOST_S = 600.0


class JobBell(Protocol):
    """What the relay needs of the broker."""

    def ring(self, job_ids: list[int]) -> None:
        """Send one message a job."""

    def waiting(self) -> int:
        """Return how many messages wait."""


class RunBell(Protocol):
    """Rings for the runs that wait; see `bot.runs`."""

    def __call__(self) -> int:
        """Send the messages that are due and return how many."""


class Relay:
    """A thread that sends as soon as it is woken, and looks by itself every `every_s`."""

    def __init__(
        self, sessions: Sessions, bell: JobBell, runs: RunBell, resend_s: float, every_s: float = 1.0
    ) -> None:
        self._sessions = sessions
        self._bell = bell
        self._runs = runs
        self._resend_s = resend_s
        self._every_s = every_s
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="relay", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Say that something was committed."""
        self._woken.set()

    def stop(self) -> None:
        """End the thread after what it is at."""
        self._stopped.set()
        self._woken.set()
        self._thread.join(timeout=LONGEST_PAUSE_S)

    def _loop(self) -> None:
        pause_s = self._every_s
        while not self._stopped.is_set():
            self._woken.wait(pause_s)
            self._woken.clear()
            try:
                send(self._sessions, self._bell)
                resend(self._sessions, self._bell, self._resend_s)
                self._runs()
                pause_s = self._every_s
            except Exception:
                # The broker or the database is away: what waits stays in SQL, so try again, ever slower.
                metrics.RELAY_FAILURES.inc()
                log.exception("the relay could not send")
                self._stopped.wait(pause_s)
                pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


def send(sessions: Sessions, bell: JobBell) -> int:
    """Send all due jobs that no worker was told of; return how many."""
    sent = 0
    while ids := jobs.unsent(sessions, BATCH):
        sent += deliver(sessions, bell, ids)
    return sent


def resend(sessions: Sessions, bell: JobBell, after_s: float) -> int:
    """Send jobs again whose message seems lost; return how many."""
    lost = jobs.silent(sessions, LOST_S, BATCH)
    if not lost and (silent := jobs.silent(sessions, after_s, BATCH)) and bell.waiting() == 0:
        lost = silent
    return deliver(sessions, bell, lost)


def deliver(sessions: Sessions, bell: JobBell, job_ids: list[int]) -> int:
    """Ring for the jobs and remember it, in this order: rather a message too many than none."""
    if job_ids:
        bell.ring(job_ids)
        jobs.mark_sent(sessions, job_ids)
        metrics.RELAY_SENT.labels("job").inc(len(job_ids))
    return len(job_ids)
