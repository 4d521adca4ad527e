"""Tables that only pages read: who is asked on what, and which workers of the runner lane are there."""

from datetime import datetime
from typing import Any

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from bot.db.models import Base
from bot.db.types import BigId, SafeString


class Asked(Base):
    """Someone who is asked on an open pull request; `login` is in lower case, `name` as written."""

    __tablename__ = "asked"
    __table_args__ = (Index("ix_asked_login_repo_id", "login", "repo_id"),)

    repo_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    login: Mapped[str] = mapped_column(SafeString(200), primary_key=True)
    name: Mapped[str] = mapped_column(SafeString(200))


class LaneWorker(Base):
    """A worker of the runner lane as it showed itself last: its queues, its machine, its newest run."""

    __tablename__ = "lane_worker"

    name: Mapped[str] = mapped_column(SafeString(200), primary_key=True)
    queues: Mapped[list[Any]] = mapped_column(default=list)
    machine: Mapped[dict[str, Any]] = mapped_column(default=dict)
    run_id: Mapped[str | None] = mapped_column(SafeString(36))
    seen_at: Mapped[datetime]
