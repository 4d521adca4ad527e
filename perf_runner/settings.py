"""The settings of a runner lane, from the environment (`PRGATE_…`), read once at start."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perf_runner.protocol import DEFAULT_QUEUES

DEFAULT_POLL_S = 30.0
TRUE_WORDS = ("1", "true", "yes", "on")


class SettingsError(ValueError):
    """A setting that is missing or cannot be used; the message names it."""


@dataclass(frozen=True)
class LaneSettings:
    """What one worker of the runner lane is told.

    `broker_url` may be None: the worker then only polls. `allow_unsandboxed` is for the embedded demo alone,
    and counts only where the service allows it for the run as well.
    """

    service_url: str
    lane_key: str = field(repr=False)
    queues: tuple[str, ...] = DEFAULT_QUEUES
    broker_url: str | None = field(default=None, repr=False)
    worker: str = field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}")
    poll_s: float = DEFAULT_POLL_S
    work_folder: Path | None = None
    allow_unsandboxed: bool = False
    broker_prefix: str = ""


def settings_from(environment: Mapping[str, str]) -> LaneSettings:
    """Return the lane's settings; SettingsError names every one that is missing."""
    missing = [name for name in ("PRGATE_SERVICE_URL", "PRGATE_LANE_KEY") if not environment.get(name)]
    if missing:
        raise SettingsError(f"{' and '.join(missing)} must be set for the runner lane")
    queues = environment.get("PRGATE_LANE_QUEUES", ",".join(DEFAULT_QUEUES))
    folder = environment.get("PRGATE_WORK_FOLDER")
    settings = LaneSettings(
        service_url=environment["PRGATE_SERVICE_URL"].rstrip("/"),
        lane_key=environment["PRGATE_LANE_KEY"],
        queues=tuple(queue.strip() for queue in queues.split(",") if queue.strip()),
        broker_url=environment.get("PRGATE_LANE_BROKER_URL") or environment.get("PRGATE_BROKER_URL") or None,
        poll_s=seconds(environment, "PRGATE_LANE_POLL_S", DEFAULT_POLL_S),
        work_folder=Path(folder) if folder else None,
        allow_unsandboxed=environment.get("PRGATE_ALLOW_UNSANDBOXED", "").lower() in TRUE_WORDS,
        broker_prefix=environment.get("PRGATE_LANE_BROKER_PREFIX", ""),
    )
    if not settings.service_url.startswith(("http://", "https://")):
        raise SettingsError("PRGATE_SERVICE_URL must begin with http:// or https://")
    if not settings.queues:
        raise SettingsError("PRGATE_LANE_QUEUES names no queue")
    name = environment.get("PRGATE_WORKER_NAME")
    return settings if not name else named(settings, name)


def named(settings: LaneSettings, worker: str) -> LaneSettings:
    """Return the settings with a worker's name of the operator's choice."""
    from dataclasses import replace

    return replace(settings, worker=worker)


def seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    """Return a setting in seconds above 0; SettingsError for anything else."""
    text = environment.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        raise SettingsError(f"{name} must be a number of seconds, not {text[:40]!r}") from None
    if not value > 0:
        raise SettingsError(f"{name} must be above 0")
    return value
