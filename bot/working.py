"""Runs the worker of the bot's own queue, and the sweeps, until a signal."""

import signal
import threading
from functools import partial
from types import FrameType

from celery import signals
from celery.utils.log import get_multiprocessing_logger

from bot import runs
from bot.celery_app import Bell, broker_name, make_celery, make_lane
from bot.db.engine import open_engine, open_sessions
from bot.db.migrate import upgrade
from bot.log import get_logger
from bot.relay import Relay
from bot.settings import Settings
from bot.stalled import Watch
from bot.sweeps import Sweeper, standard_sweeps
from bot.tasks import Run, add_tasks, default_run

log = get_logger(__name__)


def work(settings: Settings, concurrency: int, run: Run | None = None) -> int:
    """Work on jobs until SIGTERM, which lets those in hand finish; return the exit code.

    `run` does a job; in service it is the handlers' table.
    """
    # With a receiver there, Celery leaves the process's logs as we set them up.
    signals.setup_logging.connect(keep_logs)
    app = make_celery(settings)
    add_tasks(app, settings, run or default_run())
    app.steps["consumer"].add(Watch)
    log.info("worker starts", broker=broker_name(settings.broker_url), concurrency=concurrency)
    worker = app.Worker(
        concurrency=concurrency,
        pool="prefork",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
    )
    worker.start()
    return int(worker.exitcode or 0)


def keep_logs(**_: object) -> None:
    """Leave the logs alone; only the pool's own logger must be told to pass its lines on."""
    pool_logger = get_multiprocessing_logger()
    if pool_logger is not None:
        pool_logger.propagate = True


def sweep_forever(settings: Settings) -> None:
    """Do the chores, and send what waits, until SIGINT or SIGTERM."""
    engine = open_engine(settings.database)
    upgrade(engine)
    sessions = open_sessions(engine)
    bell = Bell(make_celery(settings), make_lane(settings))
    relay = Relay(sessions, bell, partial(runs.ring, sessions, bell, settings), settings.resend_s)
    sweeper = Sweeper(sessions, standard_sweeps(sessions, settings), settings.sweep_s)
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    relay.start()
    sweeper.start()
    log.info("sweeps start")
    stopped.wait()
    sweeper.stop()
    relay.stop()
    bell.close()
    engine.dispose()
