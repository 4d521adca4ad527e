"""Tests run on purpose on base and head: what that proves, and what it must never prove."""

from typing import Any

import pytest

from bot.ci.verdict import FailureVerdict
from tests.bot.ci.world import TEST, base, file, green, red, verdict, world

SAME = "KeyError: 'lru_tail'"
ASSERTION = ("AssertionError", "assert [1, 2] == [1, 3]")
BROKEN = {"base_failed": 4, "base_messages": [SAME], "head_failed": 4, "head_messages": [SAME]}
GUILTY = {"base_passed": 4, "head_failed": 4, "head_messages": [SAME]}


def judged(job: dict[str, Any], run: dict[str, Any], **more: Any) -> FailureVerdict:
    """Return the verdict on a red test after a run on purpose."""
    whole = {"base_passed": 0, "base_failed": 0, "head_passed": 0, "head_failed": 0, "test": TEST, **run}
    (found,) = verdict(world(job, settled=[whole], **more)).failures
    return found


def rules(found: FailureVerdict) -> list[str]:
    return [one.rule for one in found.evidence]


def test_twins_that_only_the_run_on_purpose_tells_apart() -> None:
    # One red head, one changed file in the traceback, no build of the base: innocent, guilty, or by chance.
    changed = [file("engine/cache.py")]
    assert judged(red(), {}, files=changed).verdict == "unknown"
    broken = judged(red(), BROKEN, files=changed)
    assert (broken.verdict, broken.kind) == ("unrelated", "broken_trunk")
    guilty = judged(red(), GUILTY, files=changed)
    assert (guilty.verdict, guilty.kind) == ("regression", "caused_by_pr")
    flaky = judged(red(), {**BROKEN, "base_failed": 2, "base_passed": 2})
    assert (flaky.verdict, flaky.kind) == ("unrelated", "flaky")


def test_a_bare_assertion_is_known_again_without_its_class() -> None:
    run = {**BROKEN, "base_messages": ["assert [1, 2] == [1, 3]"], "head_messages": []}
    assert judged(red(error=ASSERTION), run).verdict == "unrelated"


@pytest.mark.parametrize(
    ("run", "says"),
    [
        ({**BROKEN, "base_messages": ["ModuleNotFoundError: No module named 'toy'"]}, "otherwise than in CI"),
        ({**BROKEN, "base_messages": [SAME, "OSError: read-only"]}, "otherwise than in CI"),
        ({**GUILTY, "head_messages": ["OSError: read-only file system"]}, "otherwise than in CI"),
        ({"base_passed": 4, "head_passed": 4}, "does not come back"),
        ({**GUILTY, "head_passed": 2, "head_failed": 2}, "flickers on the head alone"),
        ({**GUILTY, "base_passed": 2, "head_failed": 2}, "too few runs"),
        ({"could_not": "head: the revision does not build"}, "told nothing: head: the revision does not"),
        ({}, "did not run on both"),
    ],
)
def test_what_proves_nothing_stays_unknown_and_says_what_was_seen(run: dict[str, Any], says: str) -> None:
    found = judged(red(through=()), run)
    assert found.verdict == "unknown"
    assert "settled_otherwise" in rules(found)
    assert says in str(found.would_settle_it)
    # What was in the lane's way may be put right; what it saw stays as it is.
    assert found.settle_action == ("settle" if "could_not" in run else "look")


def test_a_sandbox_unlike_ci_never_excuses() -> None:
    # CI saw the test pass on the merge base; that it fails in the sandbox speaks of the sandbox.
    found = judged(red(through=()), BROKEN, base_runs=[base(green())])
    assert found.verdict == "unknown"
    assert "the sandbox is not like CI" in str(found.would_settle_it)


@pytest.mark.parametrize(
    "error",
    [
        ("ModuleNotFoundError", "No module named 'flash_kernels'"),
        ("RuntimeError", "CUDA error: no CUDA-capable device is detected"),
        ("ConnectionError", "Max retries exceeded with url: /model"),
        ("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.00 GiB"),
    ],
)
def test_what_a_sandbox_may_lack_is_never_settled_in_one(error: tuple[str, str]) -> None:
    said = [f"{error[0]}: {error[1]}"]
    run = {**BROKEN, "base_messages": said, "head_messages": said}
    assert judged(red(error=error, through=()), run).verdict == "unknown"


def test_the_heads_own_words_never_excuse() -> None:
    # The head's code prints its own outcomes: whatever it claims, without the base it stays what it was.
    claims = {"head_passed": 20}
    for steady in ({"base_passed": 20}, {}):
        assert judged(red(through=()), {**claims, **steady}).verdict == "unknown"


def test_a_run_of_another_test_says_nothing_here() -> None:
    found = verdict(world(red(through=()), settled=[{"test": "tests/other.py::test_x", **BROKEN}]))
    assert found.failures[0].verdict == "unknown"
    assert found.failures[0].settle_action == "settle"
