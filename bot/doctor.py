"""What of the environment is ready, in words that say what to do. Nothing secret is shown."""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bot.errors import one_line
from bot.settings import Settings, missing, secret_list

State = Literal["ready", "missing", "optional"]
MARKS = {"ready": "✓", "missing": "✗", "optional": "–"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `optional`: not there, and not needed by everybody."""

    name: str
    state: State
    says: str

    def as_json(self) -> dict[str, str]:
        """Return it for `--json`."""
        return {"name": self.name, "state": self.state, "says": self.says}

    def as_line(self) -> str:
        """Return it as one line."""
        return f"{MARKS[self.state]} {self.name:<12} {self.says}"


def examine(settings: Settings) -> list[Finding]:
    """Look at everything; a check that fails is a finding, never an error."""
    found = [python(), git(), redis_server(), sandbox(), torch()]
    return [*found, *configured(settings), database(settings), broker(settings), github(settings)]


def python() -> Finding:
    """Look at the interpreter."""
    says = ".".join(str(part) for part in sys.version_info[:3])
    return Finding("python", "ready" if sys.version_info >= (3, 11) else "missing", says)


def git() -> Finding:
    """Look for git."""
    path = shutil.which("git")
    if path is None:
        return Finding("git", "missing", "not on PATH; install git")
    answered = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return Finding("git", "ready", answered.stdout.strip())


def redis_server() -> Finding:
    """Look for a redis-server, which the embedded world starts; a service may use one elsewhere."""
    from bot.demo.redis_child import NoRedisError, find_redis_server

    try:
        return Finding("redis", "ready", str(find_redis_server()))
    except NoRedisError as error:
        return Finding("redis", "optional", f"{error} (only needed for the demo)")


def sandbox() -> Finding:
    """Look for the sandbox, which the runner lane needs."""
    from perf_runner.sandbox import SandboxUnavailableError, find_sandbox

    try:
        find_sandbox()
    except SandboxUnavailableError as error:
        return Finding("sandbox", "optional", f"{error} (needed on hosts of the runner lane)")
    return Finding("sandbox", "ready", "untrusted code can be confined here")


def torch() -> Finding:
    """Look for torch without importing it."""
    if importlib.util.find_spec("torch") is None:
        return Finding("torch", "optional", "not installed (needed where kernels are measured)")
    from importlib.metadata import version

    return Finding("torch", "ready", version("torch"))


def configured(settings: Settings) -> list[Finding]:
    """Look at the settings that the roles cannot start without."""
    found = []
    for role in ("serve", "worker"):
        lacking = missing(settings, role)
        says = f"set {', '.join(lacking)}" if lacking else "its settings are there"
        found.append(Finding(role, "missing" if lacking else "ready", says))
    keys = len(secret_list(settings.lane_keys))
    says = f"{keys} lane key(s)" if keys else "no PRGATE_LANE_KEYS: no runner can ask for work"
    return [*found, Finding("runner lane", "ready" if keys else "optional", says)]


def guarded(name: str, look: Callable[[], str]) -> Finding:
    """Return what `look` says, or its fault as a finding."""
    try:
        return Finding(name, "ready", look())
    except Exception as error:
        return Finding(name, "missing", one_line(error, 200))


def database(settings: Settings) -> Finding:
    """Look whether the database answers, and at its schema."""
    from bot.db.engine import open_engine
    from bot.db.migrate import current_revision, newest_revision

    def look() -> str:
        if settings.database.startswith("sqlite"):
            settings.data_dir.mkdir(parents=True, exist_ok=True)
        engine = open_engine(settings.database)
        here, wanted = current_revision(engine), newest_revision()
        engine.dispose()
        state = "up to date" if here == wanted else "`prgate serve` will bring it up to date"
        return f"{engine.dialect.name}, schema {here or 'empty'} ({state})"

    return guarded("database", look)


def broker(settings: Settings) -> Finding:
    """Look whether the broker answers."""
    from bot.celery_app import Bell, make_celery, make_lane

    if not settings.broker_url:
        return Finding("broker", "missing", "set PRGATE_BROKER_URL")

    def look() -> str:
        bell = Bell(make_celery(settings), make_lane(settings))
        waiting = bell.waiting()
        bell.close()
        return f"answers, {waiting} message(s) wait"

    return guarded("broker", look)


def github(settings: Settings) -> Finding:
    """Look whether GitHub lets us in, and as whom."""
    from bot.clients import credentials
    from bot.github import identity

    login = credentials(settings)
    if not login.is_app and not login.token:
        return Finding("github", "missing", "no credentials; see PRGATE_GITHUB_APP_ID, PRGATE_GITHUB_TOKEN")
    return guarded("github", lambda: f"we are {identity(login).login} at {settings.github_api_url}")
