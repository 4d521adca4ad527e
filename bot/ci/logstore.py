"""Raw logs, kept once: a finished job's log never changes, so it is read from its provider once."""

import hashlib
import zlib
from collections.abc import Callable
from datetime import datetime

from bot.ci.snapshot import Job
from bot.db.engine import Sessions
from bot.db.models import Log

LIMIT = 64 * 1024**2


class LogStore:
    """Logs by provider and job. `now` stamps what is stored, for the sweep that deletes old ones."""

    def __init__(self, sessions: Sessions, now: datetime) -> None:
        self._sessions = sessions
        self._now = now

    def text(self, job: Job, read: Callable[[], str | None]) -> str | None:
        """Return a job's log from the store, else by `read`, which is then kept. None stays unknown."""
        key = hashlib.sha256(f"{job.provider}:{job.id}".encode()).hexdigest()
        with self._sessions() as session:
            known = session.get(Log, key)
        if known is not None:
            return zlib.decompressobj().decompress(known.data, LIMIT).decode("utf-8", errors="replace")
        found = read()
        if found is not None:
            self._keep(key, found)
        return found

    def _keep(self, key: str, text: str) -> None:
        with self._sessions() as session:
            session.merge(Log(hash=key, data=zlib.compress(text.encode()), stored_at=self._now))
            session.commit()
