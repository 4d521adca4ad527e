"""`bisect`: keeps the comment about a search for the first bad commit in step with its run."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from bot import bisecting
from bot.actions import Action, Record, UpsertComment
from bot.bisect_note import BisectView, NamedCommit, State, bisect_note, headline
from bot.clients import Clients
from bot.db.models import RunState
from bot.dispatch import Handler, JobSpec
from bot.gathering import Look, look_at
from bot.github import FULL_SHA, GitHubFault, RepoClient
from bot.handlers.perf import RunFacts, current_run, read_runs
from bot.run_results import case_name
from perf_runner.bisect_run import BisectRecord

STATES: dict[RunState, State] = {
    RunState.QUEUED: "queued",
    RunState.RUNNING: "running",
    RunState.DONE: "done",
    RunState.FAILED: "failed",
    RunState.CANCELED: "canceled",
}
AHEAD = frozenset({"ahead", "identical"})


@dataclass(frozen=True, slots=True)
class BisectFacts:
    """The pull request, its bisects, newest first, and the commit that the newest names, where it is true."""

    look: Look
    runs: tuple[RunFacts, ...]
    commit: NamedCommit | None = None


def gather(spec: JobSpec, clients: Clients) -> BisectFacts | None:
    """Read the pull request and its bisects, and look the named commit up."""
    look = look_at(spec, clients)
    if look is None:
        return None
    runs = read_runs(spec, clients, bisecting.KIND)
    run = current_run(look, runs, bisecting.KIND)
    record = record_of(run) if run is not None else None
    return BisectFacts(look, runs, named_commit(record, clients.github) if record else None)


def record_of(run: RunFacts) -> BisectRecord | None:
    """Return a run's record; None where it is none of this search's (the lane's word is not trusted)."""
    try:
        record = BisectRecord.model_validate(run.result.get("bisect"))
    except ValidationError:
        return None
    return record if (record.good, record.bad) == ends(run) else None


def ends(run: RunFacts) -> tuple[str, str]:
    """Return the good and the bad commit that a run was given."""
    first, *_, last = (str(arm["sha"]) for arm in run.spec["arms"])
    return first, last


def named_commit(record: BisectRecord, client: RepoClient) -> NamedCommit | None:
    """Return the commit that a record names, where GitHub knows it between good and bad."""
    sha = record.culprit
    if sha is None or not FULL_SHA.fullmatch(sha):
        return None
    try:
        found = client.get(f"/commits/{sha}")
        between = is_ahead(client, record.good, sha) and is_ahead(client, sha, record.bad)
    except GitHubFault as fault:
        if not 400 <= fault.status < 500:
            raise
        return None
    if not found or not between:
        return None
    commit: Mapping[str, Any] = found.get("commit") or {}
    author = (found.get("author") or {}).get("login") or (commit.get("author") or {}).get("name") or "unknown"
    title = str(commit.get("message") or "").split("\n", 1)[0]
    return NamedCommit(sha, title, str(author), found.get("html_url"))


def is_ahead(client: RepoClient, earlier: str, later: str) -> bool:
    """Say whether one commit is another's ancestor, or the same."""
    found = client.get(f"/compare/{earlier}...{later}") or {}
    return found.get("status") in AHEAD


def decide(facts: BisectFacts, now: datetime) -> list[Action]:
    """Return the comment and the record: pure."""
    look = facts.look
    if not look.usable or not facts.runs:
        return []
    run = current_run(look, facts.runs, bisecting.KIND)
    if run is None:
        good, bad = ends(facts.runs[0])
        void = BisectView("void", "", good, bad)
        return [UpsertComment("bisect", bisect_note(void, look.frame), only_edit=True)]
    view = view_of(run, facts.commit)
    value = {
        "run": run.run_id,
        "state": view.state,
        "headline": headline(view),
        "case": view.case,
        "culprit": view.commit.sha if view.commit else None,
        "says": view.record.says if view.record else None,
        "error": view.error,
    }
    return [UpsertComment("bisect", bisect_note(view, look.frame)), Record("bisect", value)]


def view_of(run: RunFacts, commit: NamedCommit | None) -> BisectView:
    """Return a run as the comment shows it."""
    good, bad = ends(run)
    record = record_of(run) if run.state is RunState.DONE else None
    broken = run.state is RunState.DONE and record is None
    return BisectView(
        state="failed" if broken else STATES[run.state],
        case=", ".join(case_name(case) for case in run.spec.get("cases", ())),
        good=good,
        bad=bad,
        queue=run.queue,
        asked_by=run.requested_by,
        ahead=run.ahead,
        progress=progress_words(run.progress) if run.open else None,
        record=record,
        commit=commit if record is not None else None,
        error="The lane's answer is no record of this search." if broken else run.error,
    )


def progress_words(progress: Mapping[str, Any]) -> str | None:
    """Return how far the search is, in the lane's words; None before its first sign of life."""
    stage, runs = str(progress.get("stage") or "")[:300], progress.get("runs_done")
    if not stage:
        return None
    return f"{stage}, run {runs} of this commit" if isinstance(runs, int) else stage


HANDLER = Handler("bisect", gather, decide, lambda facts: facts.look.target)
