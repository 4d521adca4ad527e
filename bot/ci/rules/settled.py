"""Tests run on purpose on the merge base and on the head of one machine: the best proof there is.

A sandbox is not the machine that CI ran on: it may lack a package, a device, a network. So only a plain
failure counts, only with the very words that CI printed, and what CI itself saw pass on the base is not
called broken there. The head's outcomes may accuse; they never excuse, since its own code prints them.
"""

from dataclasses import replace

from bot.ci.evidence import Evidence
from bot.ci.failures import Failure
from bot.ci.nature import nature_of
from bot.ci.parsers.pytest_log import from_summary
from bot.ci.rules.base import OnBase
from bot.ci.rules.match import compare
from bot.ci.scene import Case, Scene
from bot.ci.snapshot import SettleRun

STEADY_RUNS = 3


def settled_run(case: Case, scene: Scene) -> SettleRun | None:
    """Return what running this test on purpose on base and head gave, where that was done and can count."""
    test = case.failure.test
    if case.failure.key is None or nature_of(case.failure, case.job.name) != "plain":
        return None
    return next((run for run in scene.snapshot.settled if run.test == test), None)


def says_the_same(case: Case, messages: tuple[str, ...]) -> bool:
    """Say whether every message of a run on purpose is that of the failure in CI."""
    name = case.failure.test or ""
    found = [with_class(from_summary("FAILED", name, message, None)) for message in messages]
    return all(compare(with_class(case.failure), other) == "same" for other in found)


def with_class(failure: Failure) -> Failure:
    """Return a failure with the class that a bare assertion leaves out in pytest's summary."""
    bare = failure.exception is None and failure.message.startswith("assert ")
    return replace(failure, exception="AssertionError") if bare else failure


def settled_fails_on_base(case: Case, scene: Scene, on_base: OnBase) -> Evidence | None:
    """Run on purpose, the test fails on the merge base too, every time, as it does in CI."""
    run = settled_run(case, scene)
    if run is None or run.base_passed or (run.base_failed or 0) < STEADY_RUNS:
        return None
    if on_base.state == "passed" or not says_the_same(case, run.base_messages):
        return None
    says = (
        f"Run on purpose, `{run.test}` fails on the merge base {run.base_failed} times of {run.base_failed}."
    )
    return Evidence("settled_fails_on_base", "strong", says, run.url, scene.snapshot.pr.merge_base_sha)


def settled_flickers(case: Case, scene: Scene) -> Evidence | None:
    """Run on purpose, the test both passes and fails on the merge base, and fails as it does in CI."""
    run = settled_run(case, scene)
    if run is None or not run.base_failed or not run.base_passed:
        return None
    if not says_the_same(case, run.base_messages):
        return None
    total = run.base_failed + run.base_passed
    says = f"Run on purpose, `{run.test}` fails {run.base_failed} times of {total} on the merge base."
    return Evidence("settled_flickers", "strong", says, run.url, scene.snapshot.pr.merge_base_sha)


def settled_fails_on_head_only(case: Case, scene: Scene) -> Evidence | None:
    """Run on purpose, the test passes on the merge base every time and fails on the head every time."""
    run = settled_run(case, scene)
    if run is None or run.base_failed or run.head_passed:
        return None
    if (run.base_passed or 0) < STEADY_RUNS or (run.head_failed or 0) < STEADY_RUNS:
        return None
    if not says_the_same(case, run.head_messages):
        return None
    says = (
        f"Run on purpose, `{run.test}` passes on the merge base {run.base_passed} times of {run.base_passed} "
        f"and fails on the head {run.head_failed} times of {run.head_failed}."
    )
    return Evidence("settled_fails_on_head_only", "strong", says, run.url, scene.snapshot.pr.head_sha)


def settled_otherwise(case: Case, scene: Scene, on_base: OnBase) -> Evidence | None:
    """Run on purpose, and no wiser: say what was seen, so that nobody runs it again in vain."""
    run = settled_run(case, scene)
    if run is None:
        return None
    return Evidence("settled_otherwise", "weak", what_was_seen(case, run, on_base), run.url)


def what_was_seen(case: Case, run: SettleRun, on_base: OnBase) -> str:
    """Return what a run on purpose showed, where that decides nothing."""
    base_failed, head_failed = run.base_failed or 0, run.head_failed or 0
    base, head = base_failed + (run.base_passed or 0), head_failed + (run.head_passed or 0)
    if run.could_not or not base or not head:
        return f"Run on purpose, `{run.test}` told nothing: {run.could_not or 'it did not run on both'}."
    figures = (
        f"Run on purpose, `{run.test}` failed {base_failed} times of {base} on the merge base and "
        f"{head_failed} times of {head} on the head"
    )
    if not base_failed and not head_failed:
        return f"{figures}: what CI saw does not come back there."
    if not base_failed and run.head_passed:
        return f"{figures}: it flickers on the head alone, which the change may have brought."
    if base_failed and not run.base_passed and on_base.state == "passed":
        return f"{figures}, but passed on the merge base in CI: the sandbox is not like CI."
    if not says_the_same(case, (*run.base_messages, *run.head_messages)):
        return f"{figures}, but otherwise than in CI: {(*run.base_messages, *run.head_messages)[0][:200]}."
    return f"{figures}: too few runs to tell."
