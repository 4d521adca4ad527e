"""The one set-up that a process offers: its token, and the ways to GitHub that were begun with it."""

import hmac
import os
import secrets
import threading
from dataclasses import dataclass, field
from pathlib import Path

MOST_WAYS = 50


@dataclass
class Setup:
    """Open until an App was made; the token is good for that one time."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    done: bool = False
    _ways: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admits(self, token: str) -> bool:
        """Say whether a token opens it."""
        return not self.done and hmac.compare_digest(self.token.encode(), token.encode())

    def begin(self) -> str:
        """Return the state of a new way to GitHub and back."""
        with self._lock:
            self._ways = [*self._ways[-MOST_WAYS:], secrets.token_urlsafe(24)]
            return self._ways[-1]

    def comes_back(self, state: str) -> bool:
        """Say whether a state was begun here, and use it up."""
        with self._lock:
            known = [way for way in self._ways if hmac.compare_digest(way.encode(), state.encode())]
            self._ways = [way for way in self._ways if way not in known]
            return bool(known) and not self.done


def keep(file: Path, text: str) -> None:
    """Write a new file that its owner alone can read. OSError where it cannot be, or is there already."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(text)
