"""Prometheus metrics: what happens in this process is counted, the state of all processes is read from SQL.

| name | kind | says |
|---|---|---|
| `prgate_deliveries_total{event,outcome}` | counter | deliveries: new, repeated, revived, ignored, rejected |
| `prgate_delivery_seconds` | histogram | from the first byte to the answer of an accepted delivery |
| `prgate_inbox_batch_deliveries` | histogram | deliveries committed together |
| `prgate_inbox_commit_seconds` | histogram | the time of such a commit |
| `prgate_relay_sent_total{what}` | counter | messages sent to workers: job, run |
| `prgate_relay_failures_total` | counter | times that the broker could not be reached |
| `prgate_runner_requests_total{request,status}` | counter | requests of the runner lane |
| `prgate_live_streams` | gauge | live pages that are open in this process |
| `prgate_jobs{verb,state}` | gauge | jobs that are queued, running or dead |
| `prgate_job_oldest_queued_seconds` | gauge | how long the oldest due job has waited |
| `prgate_runs{queue,state}` | gauge | runs that are queued or running |
| `prgate_deliveries_failed` | gauge | deliveries of which a job died |
| `prgate_sweep_age_seconds{sweep}` | gauge | time since a regular chore was done |
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from bot import jobs
from bot.db.engine import Sessions
from bot.db.models import Delivery, DeliveryState, Job, Run, RunState, SweepLease

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SIZES = (1, 2, 4, 8, 16, 32, 64)

DELIVERIES = Counter("prgate_deliveries", "Webhook deliveries by event and outcome", ["event", "outcome"])
DELIVERY_S = Histogram("prgate_delivery_seconds", "Time to acknowledge a delivery", buckets=SECONDS)
INBOX_BATCH = Histogram("prgate_inbox_batch_deliveries", "Deliveries committed together", buckets=SIZES)
INBOX_COMMIT_S = Histogram("prgate_inbox_commit_seconds", "Time of an inbox commit", buckets=SECONDS)
RELAY_SENT = Counter("prgate_relay_sent", "Messages sent to workers", ["what"])
RELAY_FAILURES = Counter("prgate_relay_failures", "Times that the broker could not be reached")
RUNNER_REQUESTS = Counter("prgate_runner_requests", "Requests of the runner lane", ["request", "status"])
LIVE_STREAMS = Gauge("prgate_live_streams", "Live pages that are open in this process")


class StoreCollector(Collector):
    """Reads gauges from SQL when they are asked for, so that they are right whatever process serves them."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def describe(self) -> Iterable[Metric]:
        """Name nothing beforehand: the registry must not query the database when we register."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Yield the gauges."""
        with self._sessions() as session:
            yield job_gauge(session)
            yield simple("prgate_job_oldest_queued_seconds", "Age of the oldest due job", oldest_s(session))
            yield run_gauge(session)
            yield simple("prgate_deliveries_failed", "Deliveries of which a job died", failed(session))
            yield sweep_gauge(session)


def simple(name: str, says: str, value: float) -> GaugeMetricFamily:
    """Return a gauge without labels."""
    gauge = GaugeMetricFamily(name, says)
    gauge.add_metric([], value)
    return gauge


def job_gauge(session: Session) -> GaugeMetricFamily:
    """Return the open jobs by verb and state."""
    gauge = GaugeMetricFamily(
        "prgate_jobs", "Jobs that are queued, running or dead", labels=["verb", "state"]
    )
    for (verb, state), number in jobs.counts(session).items():
        gauge.add_metric([verb, state.value], number)
    return gauge


def oldest_s(session: Session) -> float:
    """Return how many seconds the oldest due job has waited; 0 where none waits."""
    oldest = session.scalar(select(func.min(Job.created_at)).where(jobs.due()))
    return max(0.0, (datetime.now(UTC) - oldest).total_seconds()) if oldest else 0.0


def failed(session: Session) -> int:
    """Return how many deliveries failed."""
    count = select(func.count()).where(Delivery.state == DeliveryState.FAILED)
    return session.scalar(count) or 0


def run_gauge(session: Session) -> GaugeMetricFamily:
    """Return the open runs by queue and state."""
    gauge = GaugeMetricFamily("prgate_runs", "Runs that are queued or running", labels=["queue", "state"])
    states = Run.state.in_((RunState.QUEUED, RunState.RUNNING))
    rows = session.execute(
        select(Run.queue, Run.state, func.count()).where(states).group_by(Run.queue, Run.state)
    )
    for queue, state, number in rows:
        gauge.add_metric([queue, state.value], number)
    return gauge


def sweep_gauge(session: Session) -> GaugeMetricFamily:
    """Return the time since each chore was done."""
    gauge = GaugeMetricFamily("prgate_sweep_age_seconds", "Time since a chore was done", labels=["sweep"])
    now = datetime.now(UTC)
    for name, done_at in session.execute(select(SweepLease.name, SweepLease.done_at)):
        if done_at is not None:
            gauge.add_metric([name], max(0.0, (now - done_at).total_seconds()))
    return gauge


def registry_with(sessions: Sessions) -> CollectorRegistry:
    """Return a registry of the store's gauges alone; the process's own counters are in the default one."""
    registry = CollectorRegistry()
    registry.register(StoreCollector(sessions))
    return registry
