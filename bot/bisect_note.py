"""The comment about a bisect: the first bad commit with its interval, or why there is none."""

from dataclasses import dataclass
from typing import Literal

from bot.comments import Frame, render, short, signed
from perf_runner.bisect_run import BisectRecord, Probe
from perf_runner.models import Decision

State = Literal["queued", "running", "done", "failed", "canceled", "void"]
SHOWN = 20
HEADLINES = {
    "queued": "Bisect: queued",
    "running": "Bisect: searching",
    "failed": "Bisect: it could not be done",
    "canceled": "Bisect: stopped",
    "void": "Bisect: not done for this head",
}


@dataclass(frozen=True, slots=True)
class NamedCommit:
    """The commit that a bisect names, as GitHub knows it."""

    sha: str
    title: str
    author: str
    url: str | None


@dataclass(frozen=True, slots=True)
class BisectView:
    """A bisect as it stands. `commit` None: none is named, or GitHub does not know it in the range."""

    state: State
    case: str
    good: str
    bad: str
    queue: str = ""
    asked_by: str = ""
    ahead: int = 0
    progress: str | None = None
    record: BisectRecord | None = None
    commit: NamedCommit | None = None
    error: str | None = None


def bisect_note(view: BisectView, frame: Frame) -> str:
    """Return the comment."""
    record = view.record
    return render(
        "bisect",
        "bisect",
        frame,
        view=view,
        record=record,
        headline=headline(view),
        advice=advice(view, f"@{frame.handle}"),
        hunted=interval(record.hunted) if record else None,
        culprit_change=interval(record.culprit_change) if record else None,
        probes=[(probe, probe_interval(probe)) for probe in record.probes[:SHOWN]] if record else [],
        shown=SHOWN,
    )


def headline(view: BisectView) -> str:
    """Return the first line: the answer before anything else."""
    if view.state != "done" or view.record is None:
        return HEADLINES.get(view.state, HEADLINES["failed"])
    if view.commit is not None:
        return f"Bisect: {short(view.commit.sha)} is the first bad commit"
    if view.record.refused:
        return "Bisect: refused, since noise would name the wrong commit"
    count = len(view.record.candidates)
    return f"Bisect: one of {count} commits" if count > 1 else "Bisect: no commit is named"


def advice(view: BisectView, at: str) -> str:
    """Return what happens next, in one or two sentences of Markdown."""
    if view.state in ("queued", "running"):
        return f"This comment is edited in place; what was measured is kept. `{at} cancel` stops it."
    if view.state == "canceled":
        return f"It was stopped before it was done. `{at} bisect` starts it again."
    if view.state == "void":
        return f"A new commit came. `{at} bisect` searches again."
    if view.state == "failed":
        return f"No commit is named. `{at} bisect` tries again."
    if view.commit is not None:
        return "It is slower than its own parent; every commit before it that could be measured is not."
    return "Nobody is named on a guess."


def interval(decision: Decision | None) -> str | None:
    """Return `+10.9 % (+9.8 % to +12.0 %)`; None where nothing was decided."""
    return None if decision is None else figures(decision.change_pct, decision.low_pct, decision.high_pct)


def probe_interval(probe: Probe) -> str | None:
    """Return a probe's change with its interval; None where it was not measured."""
    return figures(probe.change_pct, probe.low_pct, probe.high_pct)


def figures(change: float | None, low: float | None, high: float | None) -> str | None:
    """Return a change in per cent with its bounds."""
    if change is None:
        return None
    bounds = f" ({signed(low)} to {signed(high)})" if low is not None and high is not None else ""
    return f"{signed(change)}{bounds}"
