"""The comment about tests that are run on purpose on merge base and head: waiting, running, what came out."""

from dataclasses import dataclass
from typing import Literal

from bot.ci.snapshot import SettleRun
from bot.comments import Frame, render

State = Literal["queued", "running", "done", "failed", "canceled", "void"]
SHOWN_TESTS = 20
HEADLINES = {
    "queued": "Settling: queued",
    "running": "Settling: the tests run on merge base and head",
    "failed": "Settling: the tests could not be run",
    "canceled": "Settling: stopped",
    "void": "Settling: not done for this head",
}


@dataclass(frozen=True, slots=True)
class SettleView:
    """A run of tests as it stands; `asked_by` None means that the repository's budget pays for it.

    `tests` are those that were chosen, `left_out` counts further ones; `progress` is the lane's own word.
    """

    state: State
    tests: tuple[str, ...]
    base_sha: str
    queue: str = ""
    asked_by: str | None = None
    ahead: int = 0
    progress: str | None = None
    outcomes: tuple[SettleRun, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class OutcomeLine:
    """One test: its figures on both arms, and what they mean."""

    test: str
    base: str
    head: str
    says: str


def settle_note(view: SettleView, frame: Frame) -> str:
    """Return the comment."""
    lines = [outcome_line(one) for one in view.outcomes]
    return render(
        "settle",
        "settle",
        frame,
        view=view,
        headline=headline(view),
        advice=advice(view, f"@{frame.handle}"),
        lines=lines[:SHOWN_TESTS],
        hidden=max(0, len(lines) - SHOWN_TESTS),
        shown_tests=SHOWN_TESTS,
    )


def headline(view: SettleView) -> str:
    """Return the first line: the answer before anything else."""
    if view.state != "done":
        return HEADLINES[view.state]
    found = [meaning(one) for one in view.outcomes]
    counts = [f"{found.count(word)} {word}" for word in dict.fromkeys(found)]
    return f"Settled: {', '.join(counts)}" if counts else HEADLINES["failed"]


def meaning(one: SettleRun) -> str:
    """Return in a few words what a test's runs show; the verdict itself is the CI note's."""
    base, head = (one.base_passed or 0, one.base_failed or 0), (one.head_passed or 0, one.head_failed or 0)
    if one.could_not or not any(base) or not any(head):
        return "not run on both"
    if all(base):
        return "flickering on the merge base"
    if base[1]:
        return "failing on the merge base too" if head[1] else "failing on the merge base alone"
    if all(head):
        return "flickering on the head alone"
    return "failing on the head alone" if head[1] else "passing on both"


def outcome_line(one: SettleRun) -> OutcomeLine:
    """Return the row of one test."""
    says = one.could_not if one.could_not else next(iter((*one.head_messages, *one.base_messages)), "")
    return OutcomeLine(
        one.test,
        figures(one.base_passed, one.base_failed),
        figures(one.head_passed, one.head_failed),
        f"{meaning(one)}: {says}" if says else meaning(one),
    )


def figures(passed: int | None, failed: int | None) -> str:
    """Return `3 of 4 passed`, or that nothing ran."""
    total = (passed or 0) + (failed or 0)
    return f"{passed or 0} of {total} passed" if total else "–"


def advice(view: SettleView, at: str) -> str:
    """Return what happens next, in one or two sentences of Markdown."""
    if view.state in ("queued", "running"):
        return f"This comment is edited in place. `{at} cancel` stops it."
    if view.state == "done":
        return "The CI note takes this into its verdict."
    again = f"`{at} settle` starts it {'for this one' if view.state == 'void' else 'again'}."
    return {
        "canceled": f"It was stopped before it was done. {again}",
        "void": f"A new commit came; what was run before does not count for it. {again}",
    }.get(view.state, f"That says nothing about whose the failures are. {again}")
