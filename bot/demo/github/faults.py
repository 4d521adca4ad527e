"""What the stand-in can be told to do wrong."""

import re
import threading
import time
from dataclasses import dataclass, field


@dataclass
class Fault:
    """One answer that goes wrong, `times` times: for requests whose verb and path match.

    `after` True: the request does its work first, and the answer is lost all the same.
    """

    verb: str
    path: str
    status: int
    times: int = 1
    after: bool = False
    retry_after_s: int | None = None


@dataclass
class Faults:
    """The faults that are set now. `slow_s` delays every API answer."""

    slow_s: float = 0.0
    duplicate_deliveries: bool = False
    shuffle_deliveries: bool = False
    drop_deliveries: bool = False
    down_until: float = 0.0
    planned: list[Fault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, verb: str, path: str, status: int = 502, *, times: int = 1, after: bool = False) -> None:
        """Let the next `times` requests of `verb` whose path matches `path` (a pattern) fail."""
        self.planned.append(Fault(verb, path, status, times, after))

    def limit(self, seconds: int, *, status: int = 429, verb: str = ".*", path: str = ".*") -> None:
        """Refuse the next matching request with Retry-After."""
        self.planned.append(Fault(verb, path, status, retry_after_s=seconds))

    def be_down(self, seconds: float) -> None:
        """Answer 503 to everything for a while."""
        self.down_until = time.monotonic() + seconds

    def take(self, verb: str, path: str) -> Fault | None:
        """Return the fault that this request meets, used up once."""
        with self._lock:
            if time.monotonic() < self.down_until:
                return Fault(verb, path, 503)
            for fault in self.planned:
                if fault.times > 0 and re.fullmatch(fault.verb, verb) and re.search(fault.path, path):
                    fault.times -= 1
                    return fault
        return None
