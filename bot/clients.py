"""What a handler may reach for: the database, the settings, and lazily the repository's GitHub client."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, sessionmaker

    from bot.settings import Settings


@dataclass(frozen=True)
class Clients:
    """The shell around one job. `now` is the job's time, so that decisions are pure and repeatable."""

    sessions: "sessionmaker[Session]"
    settings: "Settings"
    now: datetime
