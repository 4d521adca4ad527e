"""Raw logs, kept once: a finished job's log never changes, so it is read from its provider once."""

import hashlib
import zlib
from datetime import datetime
from typing import Protocol

from sqlalchemy.exc import IntegrityError

from bot.ci.snapshot import Job
from bot.db.engine import Sessions
from bot.db.models import Log

LIMIT = 256 * 1024**2  # a replaced byte takes three
POINTER = b"log:"  # no zlib stream begins like this


class LogStore(Protocol):
    """Where logs are kept, by the job that wrote them."""

    def get(self, job: Job) -> str | None:
        """Return a job's log; None where it is not kept."""

    def put(self, job: Job, text: str) -> None:
        """Keep a job's log."""


class SqlLogs:
    """Logs in the database, compressed, by the hash of their content; a row a job points at its log.

    `now` stamps what is stored, for the sweep that deletes old ones.
    """

    def __init__(self, sessions: Sessions, now: datetime) -> None:
        self._sessions = sessions
        self._now = now

    def get(self, job: Job) -> str | None:
        """Return a job's log; None where it is not kept."""
        with self._sessions() as session:
            pointer = session.get(Log, job.key)
            if pointer is None or not pointer.data.startswith(POINTER):
                return None
            kept = session.get(Log, pointer.data[len(POINTER) :].decode("ascii"))
        if kept is None:
            return None
        return zlib.decompressobj().decompress(kept.data, LIMIT).decode("utf-8", errors="replace")

    def put(self, job: Job, text: str) -> None:
        """Keep a job's log."""
        raw = text.encode("utf-8", errors="replace")
        content = hashlib.sha256(raw).hexdigest()
        with self._sessions() as session:
            session.merge(Log(hash=content, data=zlib.compress(raw), stored_at=self._now))
            session.merge(Log(hash=job.key, data=POINTER + content.encode(), stored_at=self._now))
            try:
                session.commit()
            except IntegrityError:  # another worker keeps the same log at the same moment
                session.rollback()
