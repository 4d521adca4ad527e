"""`settle`: keeps the comment about tests that are run on purpose in step with their run."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot import settling
from bot.actions import Action, Record, UpsertComment
from bot.clients import Clients
from bot.db.models import RunState
from bot.dispatch import Handler, JobSpec
from bot.gathering import Look, look_at
from bot.handlers.perf import RunFacts, current_run, read_runs
from bot.settle_note import SettleView, State, headline, settle_note

STATES: dict[RunState, State] = {
    RunState.QUEUED: "queued",
    RunState.RUNNING: "running",
    RunState.DONE: "done",
    RunState.FAILED: "failed",
    RunState.CANCELED: "canceled",
}


@dataclass(frozen=True, slots=True)
class SettleFacts:
    """The pull request and its runs of tests, newest first."""

    look: Look
    runs: tuple[RunFacts, ...]


def gather(spec: JobSpec, clients: Clients) -> SettleFacts | None:
    """Read the pull request and its runs of tests."""
    look = look_at(spec, clients)
    return SettleFacts(look, read_runs(spec, clients, settling.KIND)) if look is not None else None


def decide(facts: SettleFacts, now: datetime) -> list[Action]:
    """Return the comment and the record: pure. Nobody asked for what the budget pays, so nobody is told."""
    look = facts.look
    if not look.usable or not facts.runs:
        return []
    run = current_run(look, facts.runs, settling.KIND)
    if run is None:
        void = SettleView("void", (), facts.runs[0].base_sha)
        return [UpsertComment("settle", settle_note(void, look.frame), only_edit=True)]
    view = view_of(run)
    body = settle_note(view, look.frame)
    return [UpsertComment("settle", body, only_edit=view.asked_by is None), record(run, view)]


def view_of(run: RunFacts) -> SettleView:
    """Return a run as the comment shows it."""
    tests = run.spec.get("tests") or {}
    chosen = tuple(str(one) for one in tests.get("test_ids", ()))
    ended = settling.Ended(chosen, int(tests.get("repeats", 0)), run.state, run.result, run.error)
    return SettleView(
        state=STATES[run.state],
        tests=chosen,
        base_sha=run.base_sha,
        queue=run.queue,
        asked_by=None if run.requested_by == settling.BY_BUDGET else run.requested_by,
        ahead=run.ahead,
        progress=str(run.progress.get("stage") or "")[:200] or None if run.open else None,
        outcomes=settling.settle_runs([ended]) if run.state is RunState.DONE else (),
        error=run.error,
    )


def record(run: RunFacts, view: SettleView) -> Record:
    """Return the decision's row: how each test came out on either arm."""
    outcomes = [one.model_dump(mode="json", exclude={"url"}) for one in view.outcomes]
    value: dict[str, Any] = {
        "run": run.run_id,
        "state": view.state,
        "headline": headline(view),
        "by": run.requested_by,
        "tests": outcomes,
        "error": view.error,
    }
    return Record("settle", value)


HANDLER = Handler("settle", gather, decide, lambda facts: facts.look.target)
