"""Notices a worker that takes no more messages, and lets it connect anew.

Messages that could not be acknowledged, since the broker was killed meanwhile, count as in hand for ever:
with as many of them as the worker has processes kombu reads no further one, and so never sees that the
connection is gone. A worker that does nothing for a while although messages wait is such a one.
"""

from collections.abc import Callable
from typing import Any

from celery import bootsteps
from celery.worker import state

from bot.celery_app import waiting
from bot.log import get_logger

LOOK_S = 3.0
IDLE_LOOKS = 2

log = get_logger(__name__)


class StalledError(ConnectionError):
    """The worker takes no messages; raised in Celery's loop, where it means: connect anew."""


class Idleness:
    """Counts looks at a worker in which it did nothing although messages waited."""

    def __init__(self) -> None:
        self._taken = -1
        self._looks = 0

    def look(self, taken: int, active: int, messages: Callable[[], int]) -> bool:
        """Say whether the worker stands still. `messages`, how many wait, is only asked where it is idle."""
        idle = taken == self._taken and not active
        self._taken = taken
        self._looks = self._looks + 1 if idle and messages() else 0
        return self._looks >= IDLE_LOOKS


class Watch(bootsteps.StartStopStep):
    """A step of Celery's consumer that looks every few seconds; a new connection starts it again."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **_: Any) -> None:
        self._timer: Any = None

    def start(self, consumer: Any) -> None:
        """Begin to look."""
        idleness = Idleness()
        self._timer = consumer.timer.call_repeatedly(LOOK_S, look, (consumer, idleness))

    def stop(self, consumer: Any) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def look(consumer: Any, idleness: Idleness) -> None:
    """Raise StalledError where the worker stands still. A broker that is away is noticed elsewhere."""
    taken = sum(state.total_count.values())

    def messages() -> int:
        try:
            return waiting(consumer.app)
        except Exception:
            return 0

    if idleness.look(taken, len(state.active_requests), messages):
        log.warning("messages wait and none is taken: connecting to the broker anew")
        raise StalledError("messages wait and none is taken")
