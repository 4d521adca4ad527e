"""The processes of the embedded world: the service, its worker and the runner lane, each with its own log."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bot.demo.parent import end_with_parent

STOP_LIMIT_S = 20.0
# What a child may inherit; everything else of the caller's environment stays outside.
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "VIRTUAL_ENV")


class ChildDied(RuntimeError):  # noqa: N818 - it is what happened
    """A process of the world ended by itself; the text is its last line and where its log lies."""


class Child:
    """One `prgate` process."""

    def __init__(self, name: str, arguments: Sequence[str], variables: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        self._command = [sys.executable, "-m", "bot", *arguments]
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        self._environment = {**kept, **variables, "PYTHONUNBUFFERED": "1"}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return the process id; RuntimeError before the start."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Say whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process in a group of its own."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def check(self) -> None:
        """Raise ChildDied where the process has ended."""
        if self._process is not None and self._process.poll() is not None:
            raise ChildDied(f"the {self.name} ended ({self._ending()}): {self.last_words()}; log: {self.log}")

    def _ending(self) -> str:
        code = self._process.returncode if self._process else 0
        return signal.Signals(-code).name if code < 0 else f"exit {code}"

    def last_words(self) -> str:
        """Return the last line of the log."""
        lines = self.log.read_text("utf-8", "replace").strip().splitlines() if self.log.exists() else []
        return lines[-1][:300] if lines else "it said nothing"

    def kill(self) -> None:
        """Kill the process and all its children, as a crash would."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def stop(self) -> None:
        """Ask the process to end, and kill it where it does not."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()


def wait_until(holds: Callable[[], bool], children: Sequence[Child], limit_s: float, what: str) -> None:
    """Wait until `holds` is true; ChildDied or TimeoutError (`what`) where it never is."""
    end = time.monotonic() + limit_s
    while not holds():
        for child in children:
            child.check()
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen within {limit_s:.0f} s")
        time.sleep(0.1)
