"""Runs of the runner lane as pages show them. A run's result is a stranger's word: what is no result is
left out, and all of it is bounded."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bot.dashboard.views import NOTHING, Badge, Tone, View, perf_word_badge
from bot.db.models import Run
from bot.perf_note import block_rows
from bot.run_results import case_name, progress_words, results_of
from perf_runner.models import CaseResult, Decision

MOST_CASES = 20
MOST_RUNS = 400
STATE_TONES: dict[str, Tone] = {"done": "good", "failed": "unsure", "running": "soft"}


class TimedRun(View):
    """One measured run, in the order in which they ran; `remark` says why it does not count."""

    block: int
    arm: str
    seconds: float
    remark: str = ""


class ArmView(View):
    """One revision that was measured."""

    name: str
    sha: str
    label: str = ""


class CaseView(View):
    """One case of an experiment: its decision with interval and margin in per cent, and every run."""

    name: str
    badge: Badge
    decision: str | None
    why: str
    change_pct: float | None = None
    low_pct: float | None = None
    high_pct: float | None = None
    margin_pct: float | None = None
    blocks_used: int = 0
    blocks_vetoed: int = 0
    arms: tuple[ArmView, ...] = ()
    runs: tuple[TimedRun, ...] = ()
    recovered: str = ""
    notes: tuple[str, ...] = ()
    error: str | None = None


class RunView(View):
    """One run: who asked for it, where it is, what came of it."""

    id: str
    kind: str
    state: Badge
    requested_by: str
    requested_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    head_sha: str
    base_sha: str
    queue: str
    worker: str
    host_class: str
    wanted: tuple[str, ...]
    progress: str
    error: str
    cases: tuple[CaseView, ...]


def run_view(run: Run, *, whole: bool = True) -> RunView:
    """Return a run; with `whole` off its cases are left out."""
    machine = run.machine or {}
    return RunView(
        id=run.id,
        kind=run.kind,
        state=Badge(text=run.state.value, tone=STATE_TONES.get(run.state.value, "soft")),
        requested_by=run.requested_by,
        requested_at=run.requested_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        head_sha=run.head_sha,
        base_sha=run.base_sha,
        queue=run.queue,
        worker=run.lease_owner or "",
        host_class=str(machine.get("host_class") or "")[:200],
        wanted=tuple(case_name(case)[:200] for case in run.spec.get("cases", ())[:MOST_CASES]),
        progress=(progress_words(run.progress) or "") if run.finished_at is None else "",
        error=(run.error or "")[:2_000],
        cases=case_views(run.result or {}) if whole else (),
    )


def case_views(result: Mapping[str, Any]) -> tuple[CaseView, ...]:
    """Return the cases of a run's result."""
    return tuple(case_view(one) for one in results_of(result)[:MOST_CASES])


def case_view(result: CaseResult) -> CaseView:
    """Return one case."""
    decision = result.decision
    figures = (
        decision.model_dump(include={"why", "change_pct", "low_pct", "high_pct", "margin_pct"})
        if decision
        else {"why": ""}
    )
    return CaseView(
        name=result.case.name,
        badge=case_badge(decision),
        decision=decision.decision.value if decision else None,
        blocks_used=decision.blocks_used if decision else 0,
        blocks_vetoed=decision.blocks_vetoed if decision else 0,
        arms=tuple(ArmView(name=arm.name, sha=arm.sha, label=arm.label) for arm in result.arms),
        runs=timed_runs(result),
        recovered=recovered_words(result),
        notes=result.notes[:20],
        error=result.error,
        **figures,
    )


def case_badge(decision: Decision | None) -> Badge:
    """Return the badge of the gate's answer."""
    if decision is None:
        return NOTHING
    return perf_word_badge("improved" if decision.improved else decision.decision.value, decision.change_pct)


def timed_runs(result: CaseResult) -> tuple[TimedRun, ...]:
    """Return the first runs in their order."""
    rows = [row for block in result.blocks for row in block_rows(block)]
    return tuple(
        TimedRun(block=row.block, arm=row.arm, seconds=row.seconds, remark=row.remark)
        for row in rows[:MOST_RUNS]
    )


def recovered_words(result: CaseResult) -> str:
    """Return how much of a regression a fix took back, in words; empty where no third arm was measured."""
    found = result.recovery
    if found is None:
        return ""
    return (
        f"{found.recovered_pct:.0f} % recovered "
        f"({found.recovered_low_pct:.0f} to {found.recovered_high_pct:.0f} %), "
        f"{found.residual_pct:+.1f} % left against the parent "
        f"({found.residual_low_pct:+.1f} to {found.residual_high_pct:+.1f} %)"
    )
