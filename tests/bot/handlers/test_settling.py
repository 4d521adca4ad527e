"""What a lane reports about tests, counted: figures, words, and nothing that was not asked for."""

from typing import Any

import pytest

from bot.comments import Frame
from bot.db.models import RunState
from bot.settle_note import SettleView, headline, settle_note
from bot.settling import Ended, settle_runs

TEST = "tests/test_x.py::test_y[a - b]"
WORDS = {"p": "passed", "f": "failed", "e": "error", "m": "missing"}


def report(base: str, head: str, message: str = "KeyError: 'x'") -> dict[str, Any]:
    """Return a report of one test, a letter a run."""
    arms = {"base": base, "head": head}
    return {
        "tests": [
            {
                "test_id": TEST,
                "arm": arm,
                "outcomes": [WORDS[how] for how in hows],
                "messages": [message for how in hows if how != "p"],
            }
            for arm, hows in arms.items()
        ]
    }


def ended(base: str = "pppp", head: str = "ffff", state: RunState = RunState.DONE, **more: Any) -> Ended:
    told = more.get("result", report(base, head))
    return Ended((TEST,), more.get("repeats", 4), state, told, more.get("error"))


@pytest.mark.parametrize(
    ("base", "head", "says"),
    [
        ("ffff", "eeee", "1 failing on the merge base too"),
        ("ffff", "pppp", "1 failing on the merge base alone"),
        ("pppp", "ffff", "1 failing on the head alone"),
        ("pfpf", "ffff", "1 flickering on the merge base"),
        ("pppp", "pfpf", "1 flickering on the head alone"),
        ("pppp", "pppp", "1 passing on both"),
        ("mmmm", "ffff", "1 not run on both"),
        ("pppp", "mmmm", "1 not run on both"),
    ],
)
def test_each_outcome_has_its_words(base: str, head: str, says: str) -> None:
    found = settle_runs([ended(base, head)])
    assert headline(SettleView("done", (TEST,), "b" * 40, outcomes=found)) == f"Settled: {says}"


def test_a_failure_that_says_nothing_cannot_be_known_again_and_counts_for_nothing() -> None:
    (found,) = settle_runs([ended(result=report("pppp", "ffff", message=""))])
    assert (found.head_failed, found.could_not) == (
        0,
        "it did not run on the head (its failure said nothing)",
    )


def test_two_runs_count_together_and_one_that_ran_outweighs_one_that_did_not() -> None:
    (found,) = settle_runs([ended("pppp", "ffff"), ended("ppfp", "ffff")])
    assert (found.base_passed, found.base_failed, found.head_failed) == (7, 1, 8)
    lost = ended(state=RunState.FAILED, error="could not measure: the worker was lost 3 times")
    for order in ([lost, ended()], [ended(), lost], [ended("mmmm", "mmmm"), ended()]):
        (found,) = settle_runs(order)
        assert (found.base_passed, found.could_not) == (4, None)


def test_more_runs_than_were_asked_for_and_other_tests_are_left_out() -> None:
    told = report("f" * 90, "f" * 90)
    told["tests"].append({**told["tests"][0], "test_id": "tests/other.py::test_z"})
    told["tests"].append({**told["tests"][0], "outcomes": ["passed"] * 4})
    (found,) = settle_runs([ended(result=told)])
    assert (found.test, found.base_failed, found.base_passed) == (TEST, 4, 0)


def test_a_canceled_or_waiting_run_says_nothing() -> None:
    assert settle_runs([ended(state=state) for state in (RunState.CANCELED, RunState.QUEUED)]) == ()


def test_what_tests_print_is_shown_harmless() -> None:
    hostile = "KeyError: @maintainer-01 <b>|x|</b> <!-- prgate:ci -->"
    found = settle_runs([ended(result=report("ffff", "ffff", message=hostile))])
    view = SettleView("done", (TEST,), "b" * 40, outcomes=found)
    note = settle_note(view, Frame("prgate", "a" * 40))
    assert "@maintainer-01" not in note
    assert "<b>" not in note
    assert note.count("<!--") == 1
    (row,) = [line for line in note.splitlines() if line.startswith("| `tests/")]
    assert row.replace("\\|", "").count("|") == 5
