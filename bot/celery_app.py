"""The Celery application. A message is a doorbell: it carries a number, and may be lost or doubled."""

from collections.abc import Sequence
from typing import Any

from celery import Celery
from kombu.utils.url import maybe_sanitize_url

from bot.settings import Settings

PROCESS = "tasks.process"
QUEUE = "bot"


def make_celery(settings: Settings) -> Celery:
    """Return the application of the bot's own queue."""
    app = Celery("prgate", broker=settings.broker_url)
    app.conf.update(configuration(settings.visibility_s, settings.broker_prefix))
    app.conf.update(
        task_default_queue=QUEUE,
        task_soft_time_limit=settings.job_limit_s,
        task_time_limit=settings.job_limit_s + 30,
    )
    return app


def make_lane(settings: Settings) -> Celery:
    """Return the application that rings the runner lane; it may have a broker and a key prefix of its own."""
    app = Celery("prgate-lane", broker=settings.lane_broker_url or settings.broker_url)
    app.conf.update(configuration(settings.visibility_s, settings.lane_broker_prefix))
    return app


def configuration(visibility_s: int, prefix: str) -> dict[str, Any]:
    """Return the settings that keep a task when its worker, its child or the broker is killed."""
    options: dict[str, Any] = {
        "visibility_timeout": visibility_s,
        "socket_timeout": 10,
        "socket_connect_timeout": 5,
        "retry_on_timeout": True,
    }
    if prefix:
        options["global_keyprefix"] = prefix
    return {
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_acks_on_failure_or_timeout": True,
        "worker_prefetch_multiplier": 1,
        "broker_transport_options": options,
        "broker_connection_retry_on_startup": True,
        "broker_connection_timeout": 5,
        "task_ignore_result": True,
        "task_serializer": "json",
        "accept_content": ["json"],
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "worker_enable_remote_control": False,
        "worker_send_task_events": False,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
    }


def waiting(app: Celery) -> int:
    """Return how many messages of the bot's queue no worker took yet."""
    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        return int(channel.queue_declare(queue=QUEUE, durable=True).message_count)


class Bell:
    """Tells workers about jobs over kept connections; raises what kombu raises where the broker is away."""

    def __init__(self, app: Celery, lane: Celery) -> None:
        self._app = app
        self._lane = lane

    def ring(self, job_ids: Sequence[int]) -> None:
        """Send one message a job."""
        with self._app.producer_pool.acquire(block=True, timeout=10) as producer:
            for job_id in job_ids:
                self._app.send_task(PROCESS, (job_id,), queue=QUEUE, producer=producer, retry=False)

    def ring_run(self, task: str, queue: str, run_id: str, token: str) -> None:
        """Tell a queue of the runner lane about a run, with the token that is good for it."""
        with self._lane.producer_pool.acquire(block=True, timeout=10) as producer:
            self._lane.send_task(task, (run_id, token), queue=queue, producer=producer, retry=False)

    def waiting(self) -> int:
        """Return how many messages of the bot's queue no worker took yet."""
        return waiting(self._app)

    def close(self) -> None:
        """Close the connections."""
        self._app.close()
        self._lane.close()


def broker_name(url: str) -> str:
    """Return a broker's URL without its password, for messages."""
    return str(maybe_sanitize_url(url))
