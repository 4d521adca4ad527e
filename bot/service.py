"""The parts of the web process: store, inbox writer, relay, sweeps. They start and drain together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from celery import Celery

from bot import runs
from bot.celery_app import Bell, make_celery, make_lane
from bot.dashboard.auth.access import Access
from bot.dashboard.live import Live
from bot.db.engine import Sessions, open_engine, open_reading_sessions, open_sessions
from bot.db.migrate import upgrade
from bot.inbox import Inbox
from bot.log import get_logger
from bot.relay import Relay
from bot.settings import Settings
from bot.setup.state import Setup
from bot.sweeps import Sweeper, standard_sweeps

log = get_logger(__name__)


@dataclass(frozen=True)
class Parts:
    """Which parts a process runs besides its main work."""

    migrate: bool = True
    sweeps: bool = True


class Service:
    """Everything that the web process holds; `start` and `stop` are called by the application's lifespan."""

    def __init__(self, settings: Settings, parts: Parts) -> None:
        self.settings = settings
        self.parts = parts
        self.engine = open_engine(settings.database)
        self.sessions: Sessions = open_sessions(self.engine)
        self.reading: Sessions = open_reading_sessions(self.engine)
        self.celery: Celery = make_celery(settings)
        self.bell = Bell(self.celery, make_lane(settings))
        ring_runs = partial(runs.ring, self.sessions, self.bell, settings)
        self.relay = Relay(self.sessions, self.bell, ring_runs, settings.resend_s)
        self.inbox = Inbox(self.sessions, settings.max_waiting, self.relay.wake)
        self.access = Access(settings, self.sessions, self.reading)
        self.live = Live(self.reading)
        self.setup = None if settings.knows_github else Setup()

    @cached_property
    def sweeper(self) -> Sweeper:
        """What does the regular chores."""
        return Sweeper(self.sessions, standard_sweeps(self.sessions, self.settings), self.settings.sweep_s)

    @property
    def threads(self) -> Sequence[tuple[Callable[[], None], Callable[[], None]]]:
        """How each part starts and stops, in the order of the start."""
        pairs = [(self.relay.start, self.relay.stop), (self.inbox.start, self.inbox.stop)]
        return [*pairs, (self.sweeper.start, self.sweeper.stop)] if self.parts.sweeps else pairs

    def start(self) -> None:
        """Bring the database up to date and start the parts."""
        if self.parts.migrate:
            upgrade(self.engine)
        for start, _ in self.threads:
            start()
        log.info("service started", database=self.engine.dialect.name)

    def stop(self) -> None:
        """Write what waits, end the parts in reverse order, close the connections."""
        for _, stop in reversed(self.threads):
            stop()
        self.bell.close()
        self.engine.dispose()
        log.info("service stopped")
