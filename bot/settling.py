"""From a red that nobody can explain to a run of its tests on merge base and head, and back to evidence.

What a lane reports is untrusted: only the tests that were asked for count, on the two arms that were asked
for, and the head's outcomes accuse at most (`bot/ci/rules/settled.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError
from sqlalchemy.orm import Session

from bot import runs_queue
from bot.actions import EnqueueRun, Target
from bot.ci.snapshot import SettleRun
from bot.ci.verdict import Verdict
from bot.config import SettleConfig
from bot.db.models import Run, RunState
from bot.experiments import Arms
from bot.store import digest
from perf_runner.protocol import TestOutcome, is_test_id

KIND: Literal["tests"] = "tests"
BY_BUDGET = "budget"
MOST_OPEN = 500
MESSAGE_LIMIT = 500
MESSAGES = 5


@dataclass(frozen=True, slots=True)
class OpenTest:
    """A failing test whose verdict a run on purpose would settle, and the job that it failed in."""

    test: str
    job: str


def open_tests(verdict: Verdict | None) -> tuple[OpenTest, ...]:
    """Return the failures that are unknown and that running their tests on purpose would settle."""
    failures = verdict.failures if verdict is not None else ()
    found = [
        OpenTest(one.test, one.job)
        for one in failures
        if one.verdict == "unknown" and one.settle_action == "settle" and one.test and is_test_id(one.test)
    ]
    return tuple(dict.fromkeys(found))[:MOST_OPEN]


def to_values(tests: Iterable[OpenTest]) -> list[dict[str, str]]:
    """Return open tests as a decision's row holds them."""
    return [{"test": one.test, "job": one.job} for one in tests]


def from_values(values: Any) -> tuple[OpenTest, ...]:
    """Return the open tests of a decision's row."""
    found = values if isinstance(values, list) else []
    return tuple(OpenTest(str(one["test"]), str(one["job"])) for one in found)


def tests_run(
    config: SettleConfig, tests: Sequence[str], arms: Arms, target: Target, asked: tuple[str, float]
) -> EnqueueRun:
    """Return the run of `tests` on base and head; `asked`: who wants it, and the seconds it may take."""
    by, budget_s = asked
    chosen = list(dict.fromkeys(tests))
    spec = {
        "kind": KIND,
        "arms": arms.listed(),
        "time_budget_s": budget_s,
        "tests": {
            "command": list(config.command),
            "test_ids": chosen,
            "repeats": config.repeats,
            "timeout_s": config.timeout_s,
            "lock": config.lock,
            "build": list(config.build),
            "build_timeout_s": config.build_timeout_s,
            "environment": dict(config.environment),
        },
    }
    what = digest([sorted(chosen), arms.listed()])[:16]
    key = f"{KIND}:{target.repo_id}:{target.number}:{target.head_sha}:{what}"
    return EnqueueRun(KIND, config.queue, arms.base_sha, spec, by, key)


def settled(session: Session, target: Target, base_sha: str | None) -> tuple[SettleRun, ...]:
    """Return what was run on purpose on this head and this merge base so far."""
    rows = runs_queue.runs_of(session, target.repo_id, target.number, KIND)
    ended = [row for row in rows if (row.head_sha, row.base_sha) == (target.head_sha, base_sha)]
    return settle_runs(facts_of(row) for row in ended)


@dataclass(frozen=True, slots=True)
class Ended:
    """A run of tests that is over, as it came from the lane."""

    tests: tuple[str, ...]
    repeats: int
    state: RunState
    result: Mapping[str, Any]
    error: str | None


def facts_of(row: Run) -> Ended:
    """Return what counts of a row."""
    wanted = row.spec.get("tests") or {}
    tests = tuple(str(one) for one in wanted.get("test_ids", ()))
    return Ended(tests, int(wanted.get("repeats", 0)), row.state, row.result or {}, row.error)


def settle_runs(runs: Iterable[Ended]) -> tuple[SettleRun, ...]:
    """Return one value a test over all its runs; a canceled run says nothing, a failed one why."""
    found: dict[str, SettleRun] = {}
    for run in runs:
        if run.state is RunState.DONE:
            told = told_by(run)
            for test in run.tests:
                found[test] = joined(found.get(test), one_test(test, told, run.repeats))
        elif run.state is RunState.FAILED:
            why = " ".join((run.error or "the lane could not run it").split())[:MESSAGE_LIMIT]
            for test in run.tests:
                found.setdefault(test, SettleRun(test=test, could_not=why))
    return tuple(found.values())


def told_by(run: Ended) -> dict[tuple[str, str], TestOutcome]:
    """Return a report's outcomes by test and arm; what is none is left out: the lane is not trusted."""
    told: dict[tuple[str, str], TestOutcome] = {}
    for item in run.result.get("tests") or ():
        try:
            outcome = TestOutcome.model_validate(item)
        except ValidationError:
            continue
        told.setdefault((outcome.test_id, outcome.arm), outcome)
    return told


def one_test(test: str, told: Mapping[tuple[str, str], TestOutcome], repeats: int) -> SettleRun:
    """Return what a report says of one test."""
    base, head = (counted(told.get((test, arm)), repeats) for arm in ("base", "head"))
    return SettleRun(
        test=test,
        base_passed=base.passed,
        base_failed=base.failed,
        head_passed=head.passed,
        head_failed=head.failed,
        base_messages=base.messages,
        head_messages=head.messages,
        could_not=could_not(base, head),
    )


@dataclass(frozen=True, slots=True)
class Counted:
    """How often a test passed and failed on one arm, its distinct messages, and why it did not run."""

    passed: int = 0
    failed: int = 0
    messages: tuple[str, ...] = ()
    missing: str | None = None


def counted(outcome: TestOutcome | None, repeats: int) -> Counted:
    """Return a test's figures; a failure that says nothing cannot be known again, and counts for nothing."""
    if outcome is None:
        return Counted(missing="no outcome was reported")
    passed, failed, said = 0, 0, list(outcome.messages)
    messages, missing = [], []
    for how in outcome.outcomes[:repeats]:
        if how == "passed":
            passed += 1
            continue
        message = said.pop(0) if said else ""
        if how in ("failed", "error") and message:
            failed += 1
            messages.append(message[:MESSAGE_LIMIT])
        else:
            missing.append(message or "its failure said nothing")
    why = missing[0] if missing and not passed and not failed else None
    return Counted(passed, failed, tuple(dict.fromkeys(messages))[:MESSAGES], why)


def could_not(base: Counted, head: Counted) -> str | None:
    """Return why a test did not run on both arms."""
    for name, arm in (("the merge base", base), ("the head", head)):
        if arm.missing is not None:
            return f"it did not run on {name} ({arm.missing[:300]})"
    return None


def joined(known: SettleRun | None, more: SettleRun) -> SettleRun:
    """Return the figures of two runs of one test together; one that ran outweighs one that did not."""
    if known is None or known.could_not:
        return more
    if more.could_not:
        return known
    counts = ("base_passed", "base_failed", "head_passed", "head_failed")
    total = {name: (getattr(known, name) or 0) + (getattr(more, name) or 0) for name in counts}
    says = ("base_messages", "head_messages")
    words = {name: tuple(dict.fromkeys((*getattr(known, name), *getattr(more, name)))) for name in says}
    return known.model_copy(update={**total, **words})
