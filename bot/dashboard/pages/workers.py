"""The workers: what waits on which lane, when it will be done, and the machines that do it."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from sqlalchemy import and_, func, or_, select
from sqlalchemy.orm import Session, load_only

from bot.dashboard.rendering import as_json
from bot.dashboard.site import Scope, Site
from bot.dashboard.views import Badge, Page, View, span
from bot.db.models import Job, JobState, Repository, Run, RunState
from bot.db.standing import LaneWorker
from bot.run_results import case_name, progress_words

MOST_WORKERS, MOST_WAITING, TIMED_RUNS = 100, 100, 30
ALIVE = timedelta(minutes=2)
GONE = timedelta(days=2)
OPEN = (RunState.QUEUED, RunState.RUNNING)
NOISY_PCT = 50.0


class Fact(View):
    """One thing about a machine: its name and its value, as text."""

    name: str
    value: str


class WorkerRow(View):
    """One worker of the runner lane: when it was heard of, what it does, and on which machine."""

    name: str
    queues: tuple[str, ...]
    state: Badge
    seen_at: datetime
    run: str | None
    host_class: str
    machine: tuple[Fact, ...]
    noise_pct: float | None
    notes: tuple[str, ...]


class QueueLane(View):
    """One queue of the runner lane. `eta` is when its last waiting run will have ended, as far as known."""

    name: str
    workers: int
    running: int
    waiting: int
    oldest_at: datetime | None
    median_run_s: float | None
    eta: str


class OpenRun(View):
    """A run that waits or runs; of a repository that the viewer may not read only its place is shown."""

    id: str | None
    place: str
    queue: str
    state: str
    what: str
    requested_by: str
    requested_at: datetime
    progress: str


class OwnLane(View):
    """The bot's own jobs: how many wait, run and died, and since when the oldest waits."""

    queued: int
    running: int
    dead: int
    oldest_at: datetime | None


class WorkersPage(Page):
    """All lanes and workers; a page holds them whole."""

    items: tuple[WorkerRow, ...]
    lanes: tuple[QueueLane, ...]
    runs: tuple[OpenRun, ...]
    jobs: OwnLane
    next: None = None


def add(router: APIRouter, site: Site) -> None:
    """Add the page."""

    def found(request: Request) -> WorkersPage:
        with site.sessions() as session:
            return read(session, site.scope(request), datetime.now(UTC))

    @router.get("/workers.json")
    def workers_json(request: Request) -> Response:
        """Return the workers as JSON."""
        return as_json(found(request))

    @router.get("/workers")
    def workers_html(request: Request) -> HTMLResponse:
        """Show the workers."""
        return site.pages.render(request, "workers.html", "/workers.json", {"page": found(request)})


def read(session: Session, scope: Scope, now: datetime) -> WorkersPage:
    """Return the page."""
    newest = select(LaneWorker).order_by(LaneWorker.seen_at.desc(), LaneWorker.name).limit(MOST_WORKERS)
    workers = [row for row in session.scalars(newest) if now - row.seen_at < GONE]
    opened = session.scalars(
        select(Run)
        .where(Run.state.in_(OPEN))
        .order_by(Run.state.desc(), Run.requested_at, Run.id)
        .limit(MOST_WAITING)
        .options(load_only(Run.queue, Run.state, Run.kind, Run.spec, Run.progress, Run.requested_by,
                           Run.requested_at, Run.repo_id, Run.number))
    ).all()  # fmt: skip
    names = readable(session, scope, {run.repo_id for run in opened})
    return WorkersPage(
        items=tuple(worker_row(row, now) for row in workers),
        lanes=lanes(session, workers, now),
        runs=tuple(open_run(run, names) for run in opened),
        jobs=own_lane(session),
    )


def readable(session: Session, scope: Scope, ids: set[int]) -> Mapping[int, str]:
    """Return the names of those repositories that the viewer may read."""
    asked = select(Repository.id, Repository.full_name).where(scope.condition(), Repository.id.in_(ids))
    return dict(session.execute(asked).all())


def worker_row(row: LaneWorker, now: datetime) -> WorkerRow:
    """Return one worker; a worker shows itself every 30 seconds."""
    machine = row.machine
    alive = now - row.seen_at < ALIVE
    state = Badge(text="measures" if row.run_id else "waits", tone="good") if alive else None
    noise = machine.get("noise_probe_pct")
    return WorkerRow(
        name=row.name,
        queues=tuple(map(str, row.queues)),
        state=state or Badge(text=f"silent for {span(now - row.seen_at)}", tone="unsure"),
        seen_at=row.seen_at,
        run=row.run_id if alive else None,
        host_class=str(machine.get("host_class") or ""),
        machine=facts_of(machine),
        noise_pct=float(noise) if isinstance(noise, int | float) else None,
        notes=tuple(str(note) for note in (machine.get("notes") or ())[:10]),
    )


def facts_of(machine: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Return a machine's fingerprint as names and values."""
    versions = machine.get("versions") or {}
    told = {
        "GPU": f"{machine.get('gpu_count')} x {machine['gpu_name']}" if machine.get("gpu_name") else "none",
        "driver": machine.get("gpu_driver"),
        "CPU": f"{machine.get('cpu_cores')} cores {machine.get('cpu_model') or ''}".strip(),
        "memory": f"{machine['memory_gb']} GB" if machine.get("memory_gb") else None,
        "system": machine.get("operating_system"),
        "governor": machine.get("governor"),
        "load": machine.get("load_1m"),
        "software": ", ".join(f"{name} {number}" for name, number in sorted(versions.items())),
    }
    return tuple(Fact(name=name, value=str(value)[:200]) for name, value in told.items() if value)


def lanes(session: Session, workers: Sequence[LaneWorker], now: datetime) -> tuple[QueueLane, ...]:
    """Return every queue that has a worker or a run."""
    counts = session.execute(
        select(Run.queue, Run.state, func.count(), func.min(Run.requested_at))
        .where(Run.state.in_(OPEN))
        .group_by(Run.queue, Run.state)
    ).all()
    alive = [row for row in workers if now - row.seen_at < ALIVE]
    names = {str(name) for row in workers for name in row.queues} | {row[0] for row in counts}
    found = []
    for name in sorted(names):
        by_state = {state: (count, oldest) for queue, state, count, oldest in counts if queue == name}
        waiting, oldest = by_state.get(RunState.QUEUED, (0, None))
        running, _ = by_state.get(RunState.RUNNING, (0, None))
        hands = sum(name in row.queues for row in alive)
        usual_s = usual_seconds(session, name)
        found.append(
            QueueLane(
                name=name,
                workers=hands,
                running=running,
                waiting=waiting,
                oldest_at=oldest,
                median_run_s=usual_s,
                eta=eta(waiting, running, hands, usual_s),
            )
        )
    return tuple(found)


def usual_seconds(session: Session, queue: str) -> float | None:
    """Return the median duration of the queue's newest finished runs; None without any."""
    times = session.execute(
        select(Run.started_at, Run.finished_at)
        .where(Run.state == RunState.DONE, Run.queue == queue)
        .order_by(Run.requested_at.desc())
        .limit(TIMED_RUNS)
    )
    durations = [(end - start).total_seconds() for start, end in times if start and end]
    return median(durations) if durations else None


def eta(waiting: int, running: int, hands: int, usual_s: float | None) -> str:
    """Say when the last run that waits will have ended."""
    if not waiting and not running:
        return "nothing waits"
    if not hands:
        return "no worker is there"
    if usual_s is None:
        return "not known: no run has ended here yet"
    rounds = -(-(waiting + running) // hands)
    return f"about {span(timedelta(seconds=usual_s * rounds))}"


def open_run(run: Run, names: Mapping[int, str]) -> OpenRun:
    """Return one run that waits or runs."""
    repo = names.get(run.repo_id)
    cases = ", ".join(case_name(case)[:100] for case in run.spec.get("cases", ())[:5])
    return OpenRun(
        id=run.id if repo else None,
        place=f"{repo}#{run.number}" if repo else "a private repository",
        queue=run.queue,
        state=run.state.value,
        what=f"{run.kind} {cases}".strip() if repo else run.kind,
        requested_by=run.requested_by if repo else "",
        requested_at=run.requested_at,
        progress=(progress_words(run.progress) or "") if repo else "",
    )


def own_lane(session: Session) -> OwnLane:
    """Return how the bot's own jobs stand."""
    states = (JobState.QUEUED, JobState.RUNNING, JobState.DEAD)
    counted = select(Job.state, func.count()).where(Job.state.in_(states)).group_by(Job.state)
    counts = dict(session.execute(counted).all())
    due = or_(Job.not_before.is_(None), Job.not_before <= datetime.now(UTC))
    waits = and_(Job.state == JobState.QUEUED, due)
    return OwnLane(
        queued=counts.get(JobState.QUEUED, 0),
        running=counts.get(JobState.RUNNING, 0),
        dead=counts.get(JobState.DEAD, 0),
        oldest_at=session.scalar(select(func.min(Job.created_at)).where(waits)),
    )
