"""Tables of the nights: series, their values, baselines, alarms as they were raised, and episodes."""

from datetime import date, datetime
from typing import Any

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from bot.db.models import Base
from bot.db.types import BigId, SafeString


class NightlySeries(Base):
    """One metric of one case on one hardware; the `last_…` columns repeat its newest night, for lists.

    `way` is `lower` or `higher`: which is better. `nights` counts the nights that have a value.
    """

    __tablename__ = "nightly_series"
    __table_args__ = (
        Index(
            "uq_nightly_series_repo_id_test_config_hardware_metric",
            "repo_id",
            "test",
            "config",
            "hardware",
            "metric",
            unique=True,
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    repo_id: Mapped[int] = mapped_column(BigId)
    test: Mapped[str] = mapped_column(SafeString(200))
    config: Mapped[str] = mapped_column(SafeString(300), default="")
    hardware: Mapped[str] = mapped_column(SafeString(100), default="")
    metric: Mapped[str] = mapped_column(SafeString(100))
    model: Mapped[str] = mapped_column(SafeString(200), default="")
    unit: Mapped[str] = mapped_column(SafeString(16), default="")
    way: Mapped[str] = mapped_column(SafeString(8))
    nights: Mapped[int] = mapped_column(default=0)
    last_night: Mapped[date | None]
    last_value: Mapped[float | None]
    last_sha: Mapped[str] = mapped_column(SafeString(64), default="")


class Nightly(Base):
    """One night's value of a series: `n` runs or requests with `sd` (None: not known), and what it met.

    `source` is `run:<id>`, `result:<the record's own time>`, `issue:<number>` or `table`: what is read
    twice has one key and counts once. `machine` is the host class, `baseline` the value in force that night.
    """

    __tablename__ = "nightly"
    __table_args__ = (
        Index("ix_nightly_repo_id_night", "repo_id", "night"),
        Index("ix_nightly_repo_id_sha", "repo_id", "sha"),
    )

    series_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    night: Mapped[date] = mapped_column(primary_key=True)
    sha: Mapped[str] = mapped_column(SafeString(64), primary_key=True, default="")
    source: Mapped[str] = mapped_column(SafeString(80), primary_key=True)
    repo_id: Mapped[int] = mapped_column(BigId)
    value: Mapped[float]
    n: Mapped[int | None]
    sd: Mapped[float | None]
    baseline: Mapped[float | None]
    machine: Mapped[str] = mapped_column(SafeString(200), default="")
    run_id: Mapped[str | None] = mapped_column(SafeString(36))
    status: Mapped[str] = mapped_column(SafeString(100), default="")
    published_days: Mapped[int | None]


class Baseline(Base):
    """A reference value of a series since a night, and where it comes from (n, sd and nights of its data)."""

    __tablename__ = "baseline"
    __table_args__ = (Index("ix_baseline_repo_id", "repo_id"),)

    series_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    since: Mapped[date] = mapped_column(primary_key=True)
    repo_id: Mapped[int] = mapped_column(BigId)
    value: Mapped[float]
    n: Mapped[int | None]
    sd: Mapped[float | None]
    first_night: Mapped[date | None]
    last_night: Mapped[date | None]
    origin: Mapped[str] = mapped_column(default="")


class Alarm(Base):
    """An alarm as it was raised: hindsight forgets short episodes, this table does not.

    `z` is the night's distance from `level` in robust standard deviations; `worse` says in which direction.
    """

    __tablename__ = "alarm"
    __table_args__ = (Index("ix_alarm_repo_id_night", "repo_id", "night"),)

    series_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    night: Mapped[date] = mapped_column(primary_key=True)
    worse: Mapped[bool] = mapped_column(primary_key=True, autoincrement=False)
    raised_by: Mapped[str] = mapped_column(SafeString(16), primary_key=True)
    repo_id: Mapped[int] = mapped_column(BigId)
    z: Mapped[float]
    since: Mapped[date]
    level: Mapped[float]
    value: Mapped[float]
    raised_at: Mapped[datetime]


class Episode(Base):
    """Cases of one model on one hardware that fail together: one finding, and one GitHub issue.

    `test` and `config` name the case that failed first (of several the worst); `data` holds every case,
    the nights with their tips, the suspects and the supporting signs. `run_id` is the A/B of last good and
    flagged commit, `explained_…` its interval in per cent (above 0: slower). `state` is `open`, `partly` or
    `recovered`. `key` is what its issue is found by, and never changes.
    """

    __tablename__ = "episode"
    __table_args__ = (
        Index("uq_episode_repo_id_key", "repo_id", "key", unique=True),
        Index("ix_episode_repo_id_state_last_night", "repo_id", "state", "last_night"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    repo_id: Mapped[int] = mapped_column(BigId)
    key: Mapped[str] = mapped_column(SafeString(32))
    family: Mapped[str] = mapped_column(SafeString(300))
    hardware: Mapped[str] = mapped_column(SafeString(100), default="")
    test: Mapped[str] = mapped_column(SafeString(200))
    config: Mapped[str] = mapped_column(SafeString(300), default="")
    first_night: Mapped[date]
    last_night: Mapped[date]
    days_failing: Mapped[int] = mapped_column(default=0)
    state: Mapped[str] = mapped_column(SafeString(16), default="open")
    worst_pct: Mapped[float]
    issue_number: Mapped[int | None]
    run_id: Mapped[str | None] = mapped_column(SafeString(36))
    explained_pct: Mapped[float | None]
    explained_low_pct: Mapped[float | None]
    explained_high_pct: Mapped[float | None]
    data: Mapped[dict[str, Any]] = mapped_column(default=dict)
    updated_at: Mapped[datetime]
