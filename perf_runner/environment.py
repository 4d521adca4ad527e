"""What a revision runs with: the wheels of a lock file, installed once and kept by the lock's hash.

Installing a wheel executes nothing of it, so this happens outside the sandbox, with network; a source
distribution would be built by code of its own and is refused. Only lines of the form `name==version` (with
hashes and markers, if any) are read: a lock can name neither an address nor a file nor an option.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LOCK_LINE = re.compile(
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,200}(\[[A-Za-z0-9._,-]{1,200}\])?==[A-Za-z0-9.+!_-]{1,100}"
    r"( *; *[A-Za-z0-9_ '\"<>=!.()-]{1,300})?( *--hash=sha(256|384|512):[0-9a-f]{64,128}){0,50}$"
)
MAX_LINES, MAX_LINE = 2000, 20_000
INSTALL_TIMEOUT_S = 1800
FORBIDDEN_PREFIX = "PRGATE_"


class EnvironmentFailedError(ValueError):
    """A lock that cannot be read or installed; the message says which line, or what pip said."""


@dataclass(frozen=True)
class Lock:
    """The requirements of one revision, normalised, and the name under which they are kept."""

    requirements: tuple[str, ...]

    @property
    def key(self) -> str:
        """Return the hash of the requirements and of the Python they are installed for."""
        text = "\n".join([sys.version, sys.platform, *self.requirements])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def parse_lock(text: str, where: str) -> Lock:
    """Return a lock's requirements; EnvironmentFailedError names the line that is none."""
    found = []
    for number, line in logical_lines(text.removeprefix("\ufeff")):
        if len(line) > MAX_LINE or not LOCK_LINE.match(line):
            raise EnvironmentFailedError(
                f"{where}, line {number}: {line[:80]!r} is not of the form name==version "
                "(addresses, files and options are not taken from a repository)"
            )
        found.append(" ".join(line.split()))
    if len(found) > MAX_LINES:
        raise EnvironmentFailedError(f"{where} holds {len(found)} requirements; {MAX_LINES} are the most")
    return Lock(tuple(found))


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a requirements file with their numbers: continued ones joined, comments removed."""
    begun, pending = 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.split(r"(?:^|\s)#", raw, maxsplit=1)[0].strip()
        begun = begun if pending else number
        if line.endswith("\\"):
            pending += line[:-1] + " "
        elif pending or line:
            yield begun, (pending + line).strip()
            pending = ""
    if pending.strip():
        yield begun, pending.strip()


def default_cache() -> Path:
    """Return where environments are kept: below the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "prgate" / "environments"


def install(lock: Lock, cache: Path) -> Path:
    """Return the folder with the lock's packages, installing them where that was not done before."""
    folder = cache / lock.key
    cache.mkdir(parents=True, exist_ok=True)
    with exclusive(cache / f"{lock.key}.lock"):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=cache, prefix="new-") as new:
                run_pip(lock, Path(new))
                shutil.move(Path(new) / "site", folder)
    return folder


def run_pip(lock: Lock, folder: Path) -> None:
    """Install the lock's wheels into `folder/site`; EnvironmentFailedError with pip's last line."""
    requirements = folder / "requirements.txt"
    requirements.write_text("\n".join(lock.requirements) + "\n")
    (folder / "site").mkdir(mode=0o755)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    options = ["--only-binary", ":all:", "--no-deps", "--no-compile", "--target", str(folder / "site")]
    # The operator's own index and proxies hold; the service's settings are nobody else's business.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(FORBIDDEN_PREFIX)}
    try:
        finished = subprocess.run(
            [*command, *options, "-r", str(requirements)],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
            timeout=INSTALL_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFailedError(f"installing the lock took longer than {INSTALL_TIMEOUT_S} s") from None
    if finished.returncode != 0:
        said = finished.stderr.strip().splitlines()[-1:] or ["no message"]
        raise EnvironmentFailedError(f"the lock cannot be installed from wheels: {said[0][:300]}")


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file, so that two workers of one host do not install the same environment at once."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def base_interpreter() -> Path:
    """Return the Python behind the runner's virtual environment: it brings no packages of the runner's."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = Path(sys.base_prefix) / "bin" / version
    return found if found.exists() else Path(sys.executable)
