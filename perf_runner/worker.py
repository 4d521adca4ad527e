"""The runner lane: takes runs by doorbell (Celery) or by asking, one at a time; SIGTERM hands a run back.

It holds no database password and no GitHub token: a lane key to ask with, and per run a token for that run.
"""

import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from perf_runner.client import RefusedError, RunLostError, ServiceClient, ServiceError
from perf_runner.errands import Errand
from perf_runner.machine import fingerprint
from perf_runner.models import Machine
from perf_runner.protocol import RUN_TASK, Offer
from perf_runner.sandbox import SandboxUnavailableError, find_sandbox
from perf_runner.settings import LaneSettings

if TYPE_CHECKING:
    from celery import Celery

log = logging.getLogger("prgate.runner")
# A doorbell is held while its run goes on; longer than any run may take, or Redis would ring it twice.
VISIBILITY_TIMEOUT_S = 24 * 3600
INFRASTRUCTURE = 3


class Lane:
    """One worker: does one run at a time, whoever brings it."""

    def __init__(self, settings: LaneSettings) -> None:
        self.settings = settings
        self.stopping = threading.Event()
        self._one_at_a_time = threading.Lock()
        self._errand: Errand | None = None

    def take(self, offer: Offer) -> bool:
        """Claim a run and do it; False when it is not to be had. Waits while another run goes on."""
        with self._one_at_a_time:
            if self.stopping.is_set():
                return False
            return self._do(offer)

    def poll_once(self) -> bool:
        """Ask for a run and do it; False when there is none, the service is away, or a run goes on."""
        if not self._one_at_a_time.acquire(blocking=False):
            return False
        try:
            with self._client() as client:
                offer = client.poll(self.settings.queues, fingerprint(probe=False))
            return offer is not None and self._do(offer)
        except ServiceError as error:
            log.warning("polling failed: %s", error)
            return False
        finally:
            self._one_at_a_time.release()

    def poll_until_stopped(self) -> None:
        """Ask again and again: at once after a run, else every `poll_s` seconds."""
        while not self.stopping.is_set():
            if not self.poll_once():
                self.stopping.wait(self.settings.poll_s)

    def stop(self) -> None:
        """Take no further run and hand the present one back; what it measured is stored and resumed."""
        self.stopping.set()
        if self._errand is not None:
            self._errand.stop()

    def _do(self, offer: Offer) -> bool:
        machine = fingerprint()
        with self._client() as client:
            try:
                spec = client.claim(offer, machine)
            except RunLostError:
                return False
            except (RefusedError, ServiceError) as error:
                log.warning("run %s could not be claimed: %s", offer.run_id, error)
                return False
            with self._busy(Errand(client, offer, spec, self.settings)) as errand:
                self._run(errand, machine)
        return True

    def _run(self, errand: Errand, machine: Machine) -> None:
        log.info("run %s, attempt %d: begun", errand.spec.run_id, errand.spec.attempt)
        try:
            errand.run(machine)
        except ServiceError as error:
            log.warning("run %s: its end could not be reported: %s", errand.spec.run_id, error)
            return
        log.info("run %s: %s", errand.spec.run_id, errand.why_ended or "over")

    @contextlib.contextmanager
    def _busy(self, errand: Errand) -> Iterator[Errand]:
        self._errand = errand
        if self.stopping.is_set():
            errand.stop()
        try:
            yield errand
        finally:
            self._errand = None

    def _client(self) -> ServiceClient:
        return ServiceClient(self.settings.service_url, self.settings.lane_key, self.settings.worker)


def run(settings: LaneSettings) -> None:
    """Work until SIGTERM or SIGINT: by the broker's doorbell and by asking; by asking alone without one."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    require_sandbox(settings)
    lane = Lane(settings)
    if settings.broker_url is None:
        stop_on_signals(lane)
        lane.poll_until_stopped()
        return
    asking = threading.Thread(target=lane.poll_until_stopped, daemon=True)
    asking.start()
    ring_with_celery(lane)
    lane.stop()
    asking.join()


def require_sandbox(settings: LaneSettings) -> None:
    """Return where untrusted code can be confined, or need not be; else say why not and exit with code 3."""
    try:
        find_sandbox()
    except SandboxUnavailableError as error:
        if not settings.allow_unsandboxed:
            print(f"prgate: this host cannot confine untrusted code: {error}", file=sys.stderr)
            raise SystemExit(INFRASTRUCTURE) from None
        log.warning("WITHOUT A SANDBOX, as PRGATE_ALLOW_UNSANDBOXED asks: %s", error)


def stop_on_signals(lane: Lane) -> None:
    """Let SIGTERM and SIGINT stop the lane."""

    def stop(number: int, frame: FrameType | None) -> None:
        lane.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def ring_with_celery(lane: Lane) -> None:
    """Be a Celery worker on the lane's queues until a signal ends it."""
    from celery.signals import worker_shutting_down

    assert lane.settings.broker_url is not None
    app = celery_app(lane.settings.broker_url, lane.settings.broker_prefix)

    @app.task(name=RUN_TASK)
    def ring(run_id: str, token: str) -> bool:
        """A doorbell: the run is claimed over HTTP, and done while this message is held."""
        return lane.take(Offer(run_id=run_id, token=token))

    def shutting_down(**_: Any) -> None:
        lane.stop()

    worker_shutting_down.connect(shutting_down, weak=False)
    # Threads: the main thread stays free for signals and the broker while the one run goes on.
    worker = app.Worker(
        queues=",".join(lane.settings.queues),
        pool="threads",
        concurrency=1,
        hostname=f"runner@{lane.settings.worker}",
        loglevel="WARNING",
        without_gossip=True,
        without_mingle=True,
    )
    worker.start()


def celery_app(broker_url: str, broker_prefix: str = "") -> "Celery":
    """Return the lane's Celery application; the service publishes with the same settings.

    Late acknowledgement and prefetch 1: a waiting doorbell stays free for another worker.
    """
    from celery import Celery

    app = Celery("prgate.runner", broker=broker_url, set_as_current=False)
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        task_ignore_result=True,
        task_create_missing_queues=True,
        broker_connection_retry_on_startup=True,
        worker_hijack_root_logger=False,
        worker_send_task_events=False,
        worker_enable_remote_control=False,
        broker_transport_options={
            "visibility_timeout": VISIBILITY_TIMEOUT_S,
            "global_keyprefix": broker_prefix,
        },
    )
    return app


def ring_doorbell(app: "Celery", queue: str, run_id: str, token: str) -> None:
    """Tell one worker of `queue` that a run waits; losing it costs at most a poll interval."""
    app.send_task(RUN_TASK, args=(run_id, token), queue=queue, retry=False)
