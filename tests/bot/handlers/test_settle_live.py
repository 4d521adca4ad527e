"""`settle` and `retry` on a real thread: what is queued or refused, and how notes follow what comes back."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from bot import runs
from bot.db.models import Run, RunState
from bot.demo.github.state import WorkflowJob, WorkflowRun
from bot.dispatch import JobSpec
from bot.jobs import enqueue
from tests.bot.handlers.test_ci_live import GREEN, JOB, MINE, THEIRS, red_world, run_ci

World = Any
TEST = "tests/test_rope.py::test_short_sequences"
SAME = "KeyError: 'WanRMS_norm'"
SETTLE = '\n[ci.settle]\nenvironment = {OMNI_DEVICE = "cpu"}\n'


def configure(world: World, more: str = SETTLE) -> None:
    """Let the base branch say how tests run; CI has not run on that commit."""
    text = world.hub.git.run("show", "main:.github/prgate.toml")
    if more.startswith("\n[ci.settle]") or not more:
        text += more
    else:
        text = text.replace("[ci]", f"[ci]\n{more}") + SETTLE
    world.hub.commit("main", {".github/prgate.toml": text}, "Say how tests run", "maintainer-01")


def undecided(world: World, more: str = SETTLE, author: str = "author-01") -> str:
    """Return the CI note of a red that nobody can explain: its test never ran on the merge base."""
    configure(world, more)
    base = world.hub.git.resolve("main")
    world.hub.git.move_branch("late", base)
    head = world.hub.git.commit_files("late", {"omni/layers/mask.py": "SIZE = 2\n"}, "Change", author)
    world.github.state.required = (JOB,)
    world.open("late", author=author)
    run_ci(world, head, "late", THEIRS, "failure")
    world.settle()
    note: str = world.note("ci")
    return note


def only(world: World, kind: str) -> Run:
    """Return the one run of a kind."""
    (found,) = [run for run in world.runs() if run.kind == kind]
    return found


def end(world: World, run: Run, state: RunState = RunState.DONE, **values: Any) -> None:
    """Let a run end as the lane's report makes it, and do what the service does then."""
    with world.sessions() as session:
        row = session.get_one(Run, run.id)
        row.state, row.dedupe_key, row.finished_at = state, None, datetime.now(UTC)
        for name, value in values.items():
            setattr(row, name, value)
        enqueue(session, [JobSpec(one.verb, one.repo_id, one.number) for one in runs.looks(row)])
        session.commit()
    world.settle()


def told(base: Sequence[str], head: Sequence[str], message: str = SAME, test: str = TEST) -> dict[str, Any]:
    """Return a report of one test: `p` passed, `f` failed, run by run."""
    words = {"p": "passed", "f": "failed", "m": "missing"}
    arms = {"base": base, "head": head}
    return {
        "tests": [
            {
                "test_id": test,
                "arm": arm,
                "outcomes": [words[how] for how in hows],
                "messages": [message for how in hows if how != "p"],
            }
            for arm, hows in arms.items()
        ]
    }


def test_a_maintainers_word_queues_exactly_the_open_tests_on_base_and_head(world: World) -> None:
    before = undecided(world)
    assert "1 unknown" in before
    assert "`@prgate settle` does." in before
    world.say("@prgate settle")
    run = only(world, "tests")
    assert run.spec["tests"]["test_ids"] == [TEST]
    assert run.spec["tests"]["environment"] == {"OMNI_DEVICE": "cpu"}
    assert [arm["sha"] for arm in run.spec["arms"]] == [run.base_sha, run.head_sha]
    assert run.base_sha == world.hub.git.resolve("main")
    assert run.queue == "runner.cpu"
    assert "### Settling: queued" in world.note("settle")
    assert "asked for by `maintainer-01`" in world.note("settle")
    assert world.answers() == []  # the comment that moves is the answer
    world.say("@prgate settle")
    assert only(world, "tests").id == run.id
    end(world, run, RunState.RUNNING, progress={"stage": "1 of 4 rounds done"})
    assert "1 of 4 rounds done" in world.note("settle")


@pytest.mark.parametrize(
    ("base", "head", "headline", "ci"),
    [
        ("ffff", "ffff", "1 failing on the merge base too", "0 yours, 1 unrelated, 0 unknown"),
        ("pppp", "ffff", "1 failing on the head alone", "1 yours, 0 unrelated, 0 unknown"),
    ],
)
def test_what_comes_back_becomes_evidence_and_both_comments_move(
    world: World, base: str, head: str, headline: str, ci: str
) -> None:
    undecided(world)
    world.say("@prgate settle")
    end(world, only(world, "tests"), result=told(base, head))
    assert f"### Settled: {headline}" in world.note("settle")
    assert ci in world.note("ci")
    assert world.errors == []


def test_a_lane_that_cannot_run_them_is_said_and_settles_nothing(world: World) -> None:
    undecided(world)
    world.say("@prgate settle")
    why = "head: the revision does not build: it ended with code 1: @maintainer-01 <b>"
    end(world, only(world, "tests"), RunState.FAILED, error=why)
    note = world.note("settle")
    assert "### Settling: the tests could not be run" in note
    assert "the revision does not build" in note
    assert "@maintainer-01" not in note
    assert "<b>" not in note
    assert "0 yours, 0 unrelated, 1 unknown" in world.note("ci")
    assert "does not build" in world.note("ci")
    world.say("@prgate settle")  # it may be tried again
    assert len([run for run in world.runs() if run.kind == "tests"]) == 2


def test_a_report_about_other_tests_or_arms_or_of_too_many_runs_counts_for_nothing(world: World) -> None:
    undecided(world)
    world.say("@prgate settle")
    forged = told("ffff", "pppp", test="tests/other.py::test_x")["tests"]
    forged += [{"test_id": TEST, "arm": "third", "outcomes": ["failed"] * 4, "messages": [SAME] * 4}]
    forged += [{"nonsense": True}]
    end(world, only(world, "tests"), result={"tests": forged})
    assert "1 not run on both" in world.note("settle")
    assert "0 yours, 0 unrelated, 1 unknown" in world.note("ci")


def test_a_push_voids_it_and_a_word_about_an_older_head_runs_nothing(world: World) -> None:
    undecided(world)
    world.say("@prgate settle")
    world.hub.commit("late", {"omni/layers/mask.py": "SIZE = 3\n"}, "More", "author-01")
    world.settle()
    assert only(world, "tests").state is RunState.CANCELED
    assert "### Settling: not done for this head" in world.note("settle")
    world.hub.comment(1, "maintainer-01", "@prgate settle")
    time.sleep(1.1)
    world.hub.commit("late", {"omni/layers/mask.py": "import os\n"}, "Evil", "author-01")
    world.settle()
    assert "came after your comment" in world.answers()[-1]
    assert len([run for run in world.runs() if run.kind == "tests"]) == 1


def test_cancel_stops_it_and_its_comment_says_so(world: World) -> None:
    undecided(world)
    world.say("@prgate settle")
    world.say("@prgate cancel", user="author-01")
    assert "The settling is stopped." in world.answers()[-1]
    assert only(world, "tests").state is RunState.CANCELED
    assert "### Settling: stopped" in world.note("settle")


def test_what_cannot_be_settled_is_answered_with_what_is_needed(world: World) -> None:
    red_world(world, MINE, (GREEN, "success"))
    world.say("@prgate settle")
    assert "`[ci.settle]`" in world.answers()[-1]
    world.say("@prgate settle", user="author-01")
    assert "is for someone with write permission" in world.answers()[-1]
    assert world.runs() == []


def test_a_name_must_be_an_open_failures(world: World) -> None:
    undecided(world)
    world.say("@prgate settle tests/secret.py::test_x")
    assert "no open failure has that name" in world.answers()[-1]
    world.say(f"@prgate settle {TEST}, lint")
    assert "`lint`: no open failure has that name" in world.answers()[-1]
    assert world.runs() == []
    world.say("@prgate settle ci / unit")
    assert only(world, "tests").spec["tests"]["test_ids"] == [TEST]


@pytest.mark.parametrize(("author", "started"), [("owner-03", True), ("author-01", False)])
def test_a_budget_starts_it_by_itself_for_authors_who_may_write_alone(
    world: World, author: str, started: bool
) -> None:
    undecided(world, "settle_budget_minutes = 5", author)
    found = [run for run in world.runs() if run.kind == "tests"]
    assert bool(found) is started
    if not started:
        return
    assert found[0].requested_by == "budget"
    assert found[0].spec["time_budget_s"] == 300
    assert world.note("settle") is None  # nobody asked, so nobody is told but by the CI note
    end(world, found[0], result=told("pppp", "ffff"))
    assert "1 yours" in world.note("ci")
    assert world.note("settle") is None
    assert len([run for run in world.runs() if run.kind == "tests"]) == 1


class TestRetry:
    def flaky(self, world: World) -> WorkflowRun:
        """Return the workflow run of a head whose red was settled as a flicker of the base."""
        undecided(world)
        world.say("@prgate settle")
        end(world, only(world, "tests"), result=told("fpfp", "ffff"))
        assert "flaky" in world.note("ci")
        (found,) = [run for run in world.github.state.workflow_runs.values() if run.head_branch == "late"]
        return found

    def test_a_flaky_job_runs_again_once_and_a_pass_turns_the_note(self, world: World) -> None:
        run = self.flaky(world)
        world.say("@prgate retry")
        assert "Asked to run again: `ci / unit`." in world.answers()[-1]
        assert [job.run_attempt for job in run.jobs] == [1, 2]
        self.finish(world, run, run.jobs[-1], "failure")
        world.say("@prgate retry")
        assert "each job is once" in world.answers()[-1]
        assert len(run.jobs) == 2

    def finish(self, world: World, run: WorkflowRun, job: WorkflowJob, conclusion: str) -> None:
        """Let an attempt end."""
        job.status = run.status = "completed"
        job.conclusion = run.conclusion = conclusion
        job.completed_at, job.log = job.started_at, THEIRS if conclusion == "failure" else GREEN
        world.hub.run_workflow(run, "github-actions[bot]")
        world.settle()

    def test_what_is_not_flaky_is_refused_with_the_reason(self, world: World) -> None:
        red_world(world, MINE, (GREEN, "success"))
        world.say("@prgate retry")
        assert (
            "Not run again:\n- `ci / unit`: a failure in it is caused by this pull request"
            in (world.answers()[-1])
        )
        world.say("@prgate retry lint")
        assert "No red job of this head is called `lint`" in world.answers()[-1]
        world.say("@prgate retry", user="author-01")
        assert "is for someone with write permission" in world.answers()[-1]
        (run,) = [one for one in world.github.state.workflow_runs.values() if one.head_branch == "gate"]
        assert len(run.jobs) == 1

    def test_what_the_provider_refuses_is_said(self, world: World) -> None:
        run = self.flaky(world)
        world.github.faults.fail("POST", f"actions/jobs/{run.jobs[0].id}/rerun", 403, times=1)
        world.say("@prgate retry")
        assert "Not run again:" in world.answers()[-1]
        assert "GitHub answered 403" in world.answers()[-1]
        assert "actions: write" in world.answers()[-1]
        assert len(run.jobs) == 1
