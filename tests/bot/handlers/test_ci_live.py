"""A red required check, read from GitHub Actions over HTTP: whose it is, and what a person's word does."""

from datetime import timedelta
from typing import Any

from bot.demo.github.state import CheckRun, WorkflowJob, WorkflowRun, now

World = Any
JOB = "unit"

LOG = """\
============================= test session starts ==============================
platform linux -- Python 3.11.7, pytest-8.4.2, pluggy-1.6.0
rootdir: /home/runner/work/omni-lite
collected 41 items

tests/test_rope.py F                                                     [  2%]
tests/test_image.py ........................................            [100%]

=================================== FAILURES ===================================
____________________________ test_short_sequences ______________________________

    def test_short_sequences():
>       assert rope([1.0, 2.0]) == [1.0, 2.0]
E       {error}

{path}:{line}: {name}
=========================== short test summary info ============================
FAILED tests/test_rope.py::test_short_sequences - {error}
========================= 1 failed, 40 passed in 2.31s =========================
##[error]Process completed with exit code 1.
"""
MINE = LOG.format(
    error="TypeError: object of type 'float' has no len()",
    path="omni/layers/rope.py",
    line=2,
    name="TypeError",
)
THEIRS = LOG.format(error="KeyError: 'WanRMS_norm'", path="omni/models/image.py", line=1, name="KeyError")
GREEN = f"tests/test_rope.py::test_short_sequences PASSED\n{'=' * 25} 41 passed in 2.31s {'=' * 25}\n"


def run_ci(world: World, sha: str, branch: str, log: str, conclusion: str) -> None:
    """Let Actions run the unit tests of a commit."""
    state = world.github.state
    moment = now() - timedelta(seconds=30)
    job = WorkflowJob(state.new_id(), 0, JOB, "completed", conclusion, moment, moment, log)
    run = WorkflowRun(state.new_id(), "ci", sha, branch, "push", "completed", conclusion, moment, 1, [job])
    job.run_id = run.id
    check = CheckRun(
        state.new_id(), JOB, sha, "completed", conclusion, "", None, "", "", "actions", moment, moment
    )
    world.hub.save_check(check, "github-actions[bot]", "completed")
    world.hub.run_workflow(run, "github-actions[bot]")


def red_world(world: World, head_log: str, main: tuple[str, str]) -> str:
    world.github.state.required = (JOB,)
    base = world.hub.git.resolve("main")
    run_ci(world, base, "main", main[0], main[1])
    world.open()
    run_ci(world, world.hub.require_pull(1).head_sha, "gate", head_log, "failure")
    world.settle()
    assert world.errors == []
    note: str = world.note("ci")
    return note


def test_a_failure_through_the_changed_file_is_the_pull_requests(world: World) -> None:
    note = red_world(world, MINE, (GREEN, "success"))
    assert "### CI is red on this head: 1 yours, 0 unrelated, 0 unknown" in note
    assert "Nothing for you to fix" not in note
    assert "`tests/test_rope.py::test_short_sequences`" in note
    assert "Next: Fix it here." in note
    assert world.decisions("ci")[-1].value["overall"] == "regression"


def test_a_failure_that_main_has_too_is_nothing_to_fix(world: World) -> None:
    note = red_world(world, THEIRS, (THEIRS, "failure"))
    assert "### CI is red on this head: 0 yours, 1 unrelated, 0 unknown" in note
    assert note.split("\n\n")[1] == "Nothing for you to fix."
    assert "main is broken" in note
    assert "KeyError: 'WanRMS_norm'" in note


def test_the_same_failure_with_a_green_main_is_not_waved_through(world: World) -> None:
    note = red_world(world, THEIRS, (GREEN, "success"))
    assert "Nothing for you to fix" not in note
    assert "1 unrelated" not in note


def test_an_expired_log_is_never_innocence(world: World) -> None:
    note = red_world(world, None, (GREEN, "success"))  # type: ignore[arg-type]
    assert "Nothing for you to fix" not in note
    assert "1 unknown" in note


def test_a_maintainers_word_replaces_the_verdict_and_is_shown_as_theirs(world: World) -> None:
    red_world(world, MINE, (GREEN, "success"))
    world.say("@prgate unrelated unit because the runner has an old library")
    note = world.note("ci")
    assert "0 yours, 1 unrelated" in note
    assert "Declared by maintainer" in note
    assert "the runner has an old library" in note
    assert "counts as not this pull request's by your word" in world.answers()[0]
    world.say("@prgate why unit", user="stranger-01")
    assert "Declared by maintainer" in world.answers()[1]
    world.say("@prgate mine unit", user="author-01")
    assert "1 yours" in world.note("ci")


def test_a_word_about_a_job_that_is_not_red_is_answered_with_those_that_are(world: World) -> None:
    red_world(world, MINE, (GREEN, "success"))
    world.say("@prgate unrelated lint")
    assert "No red job of this head is called `lint`. Red: `ci / unit`." in world.answers()[0]


def test_priority_follows_ci(world: World) -> None:
    red_world(world, MINE, (GREEN, "success"))
    assert "CI is red" in world.note("triage")
