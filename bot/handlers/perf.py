"""`perf`: keeps the performance note and its check in step with the runs of this head."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from bot import permissions, runs_queue
from bot.actions import Action, CancelRuns, Mode, Record, Schedule, SetCheck, UpsertComment
from bot.clients import Clients
from bot.db.models import Run, RunState
from bot.dispatch import Handler, JobSpec
from bot.experiments import BY_PATHS, Arms, experiment, wanted_by_paths
from bot.gathering import Look, look_at
from bot.perf_note import PerfView, check_state, headline, overall, perf_note
from bot.perf_note import RunState as NoteState
from bot.pulls import merge_base
from bot.run_results import case_name, progress_words, results_of
from perf_runner.models import CaseResult

CHECK = "prgate/perf"
KIND = "experiment"
NEWER = "A newer commit was pushed."
# Which other looks keep the notes of the other kinds of runs.
NOTES = {"tests": "settle", "bisect": "bisect"}


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as the lane left it; `ahead` is how many wait before it."""

    run_id: str
    kind: str
    head_sha: str
    base_sha: str
    state: RunState
    queue: str
    spec: Mapping[str, Any]
    requested_by: str
    ahead: int = 0
    progress: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    url: str | None = None

    @property
    def open(self) -> bool:
        """Say whether it waits or runs."""
        return self.state in runs_queue.OPEN


@dataclass(frozen=True, slots=True)
class PerfFacts:
    """What the note is made of: the pull request's runs of every kind, newest first, and whether its author
    is trusted."""

    look: Look
    runs: tuple[RunFacts, ...] = ()
    merge_base_sha: str | None = None
    author_may_write: bool = False


def gather(spec: JobSpec, clients: Clients) -> PerfFacts | None:
    """Read the pull request and its runs; its author matters only where paths start runs."""
    look = look_at(spec, clients, ("perf",))
    if look is None:
        return None
    runs = read_runs(spec, clients)
    if not look.usable or not starts_by_itself(look) or current_run(look, runs) is not None:
        return PerfFacts(look, runs)
    base = merge_base(clients.github, look.facts.base_sha, look.facts.target.head_sha)
    level = permissions.level(clients, look.facts.author)
    return PerfFacts(look, runs, base, permissions.at_least(level, "write"))


def starts_by_itself(look: Look) -> bool:
    """Say whether this pull request's paths call for a measurement without anybody asking."""
    config = look.config.perf
    wanted = config.when == "paths" and bool(wanted_by_paths(config, look.facts))
    return wanted and not look.routing_only


def read_runs(spec: JobSpec, clients: Clients, kind: str = "") -> tuple[RunFacts, ...]:
    """Return the pull request's runs, of one kind where it is named, the newest first."""
    assert spec.number is not None
    with clients.sessions() as session:
        rows = runs_queue.runs_of(session, spec.repo_id, spec.number, kind)
        found = [
            run_facts(row, runs_queue.ahead_of(session, row) if row.state is RunState.QUEUED else 0)
            for row in rows
        ]
    return tuple(replace(run, url=clients.run_url(run.run_id)) for run in found)


def run_facts(row: Run, ahead: int) -> RunFacts:
    """Return a row as facts."""
    return RunFacts(
        row.id,
        row.kind,
        row.head_sha,
        row.base_sha,
        row.state,
        row.queue,
        row.spec,
        row.requested_by,
        ahead,
        row.progress or {},
        row.result or {},
        row.error,
    )


def current_run(look: Look, runs: tuple[RunFacts, ...], kind: str = KIND) -> RunFacts | None:
    """Return the newest run of a kind and of this head."""
    head = look.facts.target.head_sha
    return next((run for run in runs if run.head_sha == head and run.kind == kind), None)


def void_runs(head: str, runs: tuple[RunFacts, ...]) -> list[Action]:
    """Return what ends the runs of older heads, of whatever kind, and lets their notes say so."""
    kinds = {run.kind for run in runs if run.open and run.head_sha != head}
    if not kinds:
        return []
    return [
        CancelRuns(NEWER, keep_head=head),
        *(Schedule(NOTES[kind]) for kind in sorted(kinds & NOTES.keys())),
    ]


def decide(facts: PerfFacts, now: datetime) -> list[Action]:
    """Return the note, the check and the record, and what must be queued or stopped: pure."""
    look = facts.look
    if not look.usable:
        return []
    head = look.facts.target.head_sha
    actions: list[Action] = []
    actions += void_runs(head, facts.runs)
    current = current_run(look, facts.runs)
    if current is not None:
        return [*actions, *about(current, look)]
    if starts_by_itself(look):
        return [*actions, *start(facts)]
    measured = next((run for run in facts.runs if run.kind == KIND), None)
    if measured is not None:
        void = PerfView("void", (), measured.base_sha)
        actions.append(UpsertComment("perf", perf_note(void, look.frame), only_edit=True))
    return [*actions, *not_called_for(look)]


def about(run: RunFacts, look: Look) -> list[Action]:
    """Return note, check and record of a run of this head."""
    view = view_of(run)
    actions: list[Action] = [UpsertComment("perf", perf_note(view, look.frame)), check(view, look)]
    if not run.open:
        row = record(run, view)
        actions.append(row)
        if row.value["decision"] != look.memory["perf"].get("decision"):
            actions.append(Schedule("triage"))  # a slowdown that was measured counts for the priority
    return actions


def view_of(run: RunFacts) -> PerfView:
    """Return a run as the note shows it."""
    states: dict[RunState, NoteState] = {
        RunState.QUEUED: "queued",
        RunState.RUNNING: "running",
        RunState.DONE: "done",
        RunState.FAILED: "failed",
        RunState.CANCELED: "canceled",
    }
    return PerfView(
        state=states[run.state],
        cases=tuple(case_name(case) for case in run.spec.get("cases", ())),
        base_sha=run.base_sha,
        queue=run.queue,
        asked_by=None if run.requested_by == BY_PATHS else run.requested_by,
        ahead=run.ahead,
        progress=progress_words(run.progress) if run.open else None,
        results=results_of(run.result),
        error=run.error,
        run_url=run.url,
    )


def check(view: PerfView, look: Look) -> SetCheck:
    """Return the check run of a measurement."""
    status, conclusion = check_state(view)
    head = look.facts.target.head_sha
    summary = perf_note(view, look.frame)
    return SetCheck(CHECK, f"perf:{head}", status, conclusion, headline(view), summary, look.frame.story_url)


def record(run: RunFacts, view: PerfView) -> Record:
    """Return the decision's row: the worst case's figures above those of each case."""
    outcome = overall(view.results) if view.state == "done" else None
    cases = [case_value(one) for one in view.results]
    worst = next((one for one in cases if outcome and one["decision"] == outcome.value), {})
    value = {
        "run": run.run_id,
        "state": view.state,
        "headline": headline(view),
        **{key: worst.get(key) for key in ("why", "change_pct", "low_pct", "high_pct", "improved")},
        "decision": outcome.value if outcome else None,
        "cases": cases,
        "error": view.error,
    }
    return Record("perf", value)


def case_value(result: CaseResult) -> dict[str, Any]:
    """Return one case's decision as JSON."""
    decided = result.decision.model_dump(mode="json") if result.decision else {"decision": None}
    return {"case": result.case.name, **decided}


def start(facts: PerfFacts) -> list[Action]:
    """Queue the measurement that the paths call for, where the author may have code run at all."""
    look = facts.look
    if not facts.author_may_write or facts.merge_base_sha is None:
        return waits_for_a_maintainer(look)
    target = look.target
    arms = Arms(facts.merge_base_sha, target.head_sha)
    cases = wanted_by_paths(look.config.perf, look.facts)
    view = PerfView("queued", cases, arms.base_sha, look.config.perf.queue)
    note = UpsertComment("perf", perf_note(view, look.frame))
    return [experiment(look.config.perf, cases, arms, target, BY_PATHS), note, check(view, look)]


def waits_for_a_maintainer(look: Look) -> list[Action]:
    """In mode `gate` say on the check what a merge still needs; elsewhere stay silent."""
    if look.target.mode is not Mode.GATE:
        return []
    title = f"Waits for a maintainer's @{look.frame.handle} bench"
    says = (
        "The changed paths call for a measurement; code of this author runs only after a maintainer's word."
    )
    return [
        SetCheck(CHECK, f"perf:{look.target.head_sha}", "queued", None, title, says, look.frame.story_url)
    ]


def not_called_for(look: Look) -> list[Action]:
    """In mode `gate` let a required check pass where no path calls for a measurement."""
    if look.target.mode is not Mode.GATE or look.facts.draft:
        return []
    title = "No changed path calls for a measurement"
    external = f"perf:{look.target.head_sha}"
    return [SetCheck(CHECK, external, "completed", "success", title, title, look.frame.story_url)]


HANDLER = Handler("perf", gather, decide, lambda facts: facts.look.target)
