"""Decisions and runs of one pull request -> its story, newest first. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from bot.dashboard.views import Badge, Entry, ci_badge, perf_badge, priority_badge
from bot.db.models import Decision, Run

TITLES = {
    "route": "Owners",
    "priority": "Priority",
    "ci": "Continuous integration",
    "perf": "Performance",
    "review": "Automated review",
    "self_review": "Self-review",
}
MOST_REASONS = 12


def tell(decisions: Iterable[Decision], runs: Iterable[Run]) -> tuple[Entry, ...]:
    """Return what happened, newest first."""
    entries = [*(of_decision(decision) for decision in decisions), *(of_run(run) for run in runs)]
    return tuple(sorted(entries, key=lambda entry: entry.at, reverse=True))


def of_decision(decision: Decision) -> Entry:
    """Return the entry of one decision."""
    badges = {"priority": priority_badge, "ci": ci_badge, "perf": perf_badge}
    badge = badges[decision.kind](decision.value) if decision.kind in badges else None
    return Entry(
        at=decision.decided_at,
        kind=decision.kind,
        title=TITLES.get(decision.kind, decision.kind.replace("_", " ").capitalize()),
        badge=badge,
        head_sha=decision.head_sha,
        reasons=reasons(decision.kind, decision.value)[:MOST_REASONS],
        detail={"value": decision.value, "evidence": decision.evidence},
    )


def of_run(run: Run) -> Entry:
    """Return the entry of one run of the runner lane."""
    machine = (run.machine or {}).get("host_class")
    told = [f"asked for by {run.requested_by}" if run.requested_by else "asked for by the configuration"]
    told += [f"on {machine}"] if machine else []
    told += [run.error] if run.error else []
    return Entry(
        at=run.finished_at or run.started_at or run.requested_at,
        kind="run",
        title=f"Measurement {run.id[:8]}",
        badge=Badge(text=run.state.value),
        head_sha=run.head_sha,
        reasons=tuple(told),
        detail={"spec": run.spec, "progress": run.progress, "result": run.result},
    )


def reasons(kind: str, value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the reasons of a decision's value as sentences."""
    return tuple(READERS[kind](value)) if kind in READERS else ()


def of_route(value: Mapping[str, Any]) -> Iterable[str]:
    """Yield whom was asked or why nobody, and each owner's reasons."""
    asked = value.get("ask") or ()
    if asked:
        yield f"asked: {', '.join(map(str, asked))}"
    elif value.get("not_asked_because"):
        yield f"nobody asked: {value['not_asked_because']}"
    for owner in value.get("owners") or ():
        yield f"{owner.get('login')}: {', '.join(map(str, owner.get('reasons') or ()))}"


def of_priority(value: Mapping[str, Any]) -> Iterable[str]:
    """Yield each signal with its points."""
    for reason in value.get("reasons") or ():
        yield f"{reason.get('signal')} ({reason.get('points', 0):+d})"


def of_ci(value: Mapping[str, Any]) -> Iterable[str]:
    """Yield each failure's verdict with its first evidence."""
    for failure in value.get("failures") or ():
        evidence = failure.get("evidence") or ()
        says = evidence[0].get("says") if evidence else failure.get("would_settle_it") or ""
        yield f"{failure.get('test') or failure.get('job')}: {failure.get('verdict')}. {says}".rstrip()


def of_perf(value: Mapping[str, Any]) -> Iterable[str]:
    """Yield why the gate decided as it did."""
    if value.get("why"):
        yield str(value["why"])


READERS = {"route": of_route, "priority": of_priority, "ci": of_ci, "perf": of_perf}
