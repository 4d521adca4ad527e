"""What people say to the bot on a real thread, and what comes of it."""

import time
from typing import Any

import pytest

from bot.db.models import RunState

World = Any
SLOWER = {"decision": "regression", "change_pct": 10.9, "low_pct": 9.8, "high_pct": 12.0}


@pytest.fixture
def quiet(world: World) -> World:
    """A world in which only commands and measurements are done."""
    world.verbs = ("command", "perf")
    return world


def result(**decision: Any) -> dict[str, Any]:
    """Return a report of the lane with one case."""
    base = {
        "decision": "no_regression",
        "why": "the interval lies within the margin",
        "change_pct": 0.1,
        "low_pct": -0.5,
        "high_pct": 0.7,
        "margin_pct": 2.0,
        "alpha": 0.03,
        "blocks_used": 2,
        "blocks_vetoed": 0,
        "runs_used": 8,
        "improved": False,
    }
    case = {"name": "short", "command": ["python", "bench.py"]}
    arms = [{"name": "base", "sha": "a" * 40}, {"name": "head", "sha": "b" * 40}]
    return {"results": [{"case": case, "arms": arms, "decision": {**base, **decision}}]}


def test_help_lists_the_commands_and_the_comment_is_marked_as_seen(quiet: World) -> None:
    quiet.open()
    comment = quiet.say("@prgate help", user="stranger-01")
    (answer,) = quiet.answers()
    assert answer.startswith(f"<!-- prgate:answer:{comment.id} -->")
    assert "- `@prgate bench [case…] [vs REV]`" in answer
    assert ("prgate[bot]", "eyes") in comment.reactions


def test_a_redelivered_or_retried_command_is_answered_once(quiet: World) -> None:
    quiet.open()
    quiet.say("@prgate help")
    before = quiet.writes()
    quiet.hub.hooks.redeliver(quiet.github.state.deliveries[-1])
    quiet.seen -= 1
    quiet.github.state.deliveries[-1].guid = "again"
    quiet.settle()
    assert quiet.writes() == before


def test_an_edit_only_adds_commands(world: World) -> None:
    world.open()
    comment = world.say("@prgate help", user="author-01")
    world.hub.edit_comment(comment.id, "author-01", "@prgate help\n@prgate why")
    world.settle()
    first, second = world.answers()
    assert "lists what I understand" in first
    assert "**Owners**" in second
    assert "lists what I understand (" not in second


def test_the_bots_own_comment_pasted_whole_is_no_command(quiet: World) -> None:
    quiet.open()
    quiet.say("@prgate help")
    before = len(quiet.answers())
    quiet.say(quiet.answers()[0], user="author-01")
    assert len(quiet.answers()) == before


def test_a_near_miss_is_answered_with_what_was_meant(quiet: World) -> None:
    quiet.open()
    quiet.say("@prgate bnech")
    assert "Did you mean `@prgate bench [case…] [vs REV]`?" in quiet.answers()[0]


def test_why_tells_all_that_was_decided(world: World) -> None:
    world.open()
    world.say("@prgate why", user="stranger-01")
    (answer,) = world.answers()
    assert "CODEOWNERS line 2" in answer
    assert "**Priority: medium**" in answer
    world.say("@prgate why Simple Diffusion Test", user="stranger-01")
    assert "No red job of this head is known." in world.answers()[1]


def test_who_may_not_is_told_what_it_needs(quiet: World) -> None:
    quiet.open()
    for user in ("author-01", "stranger-01"):
        for command in ("bench", "priority high", "unrelated Lint", "more"):
            quiet.say(f"@prgate {command}", user=user)
            said = quiet.answers()[-1]
            assert f"`{command.split()[0]}` is for someone with write permission; GitHub says" in said
    assert len(quiet.answers()) == 8
    assert quiet.runs() == []
    assert quiet.decisions("override") == []


def test_an_error_of_the_permission_api_is_a_no(quiet: World) -> None:
    quiet.open()
    quiet.github.faults.fail("GET", "collaborators/maintainer-01", 500, times=10)
    quiet.say("@prgate bench")
    assert "GitHub says that you have `none`" in quiet.answers()[0]
    quiet.github.faults.planned.clear()
    quiet.say("@prgate bench")
    assert "Queued" in quiet.answers()[1]  # and it is not remembered


def test_a_maintainers_priority_stands_until_auto(world: World) -> None:
    world.open()
    world.say("@prgate priority critical")
    assert "**Priority: critical**, set by `maintainer-01`" in world.note("triage")
    world.say("@prgate priority urgent")
    assert "is no priority" in world.answers()[1]
    world.say("@prgate priority auto")
    assert "**Priority: medium**" in world.note("triage")


def test_ask_requests_the_next_owner_and_skip_passes_one_over(world: World) -> None:
    world.open()
    (first,) = world.hub.require_pull(1).requested
    world.say("@prgate ask", user="author-01")
    assert len(world.hub.require_pull(1).requested) == 2
    world.say("@prgate skip", user="author-01")
    assert "is for someone who was asked for a review here" in world.answers()[1]
    world.say("@prgate skip", user=first)
    now = world.hub.require_pull(1).requested
    assert first not in now
    assert f"`{first}`" in world.note("route")
    assert f"@{first}" not in world.note("route")


def test_pause_silences_and_resume_brings_everything_up_to_date(world: World) -> None:
    world.open()
    world.say("@prgate pause", user="author-01")
    old = world.note("route")
    sha = world.hub.commit("gate", {"omni/layers/rope.py": "x = 1\n"}, "More", "author-01")
    world.settle()
    assert world.note("route") == old
    world.say("@prgate bench")
    assert "I am paused here" in world.answers()[1]
    world.say("@prgate resume", user="author-01")
    assert sha[:12] in world.note("route")


def test_a_review_is_submitted_once_a_head(quiet: World) -> None:
    quiet.open(body="It is 40 % faster. No regression was seen.")
    quiet.say("@prgate please review", user="author-01")
    quiet.say("@prgate review", user="author-01")
    reviews = [one for one in quiet.github.state.reviews.values() if one.user == "prgate[bot]"]
    nothing = any("find nothing to remark" in answer for answer in quiet.answers())
    assert len(reviews) == (0 if nothing else 1)
    assert quiet.errors == []


class TestBench:
    def test_a_maintainers_word_queues_the_case_of_the_changed_paths(self, quiet: World) -> None:
        quiet.open()
        quiet.say("@prgate bench")
        (run,) = quiet.runs()
        assert run.state is RunState.QUEUED
        assert [case["name"] for case in run.spec["cases"]] == ["short"]
        assert [arm["name"] for arm in run.spec["arms"]] == ["base", "head"]
        assert run.head_sha == quiet.hub.require_pull(1).head_sha
        assert "Queued: `short`" in quiet.answers()[0]
        assert "### Performance: queued" in quiet.note("perf")
        assert "asked for by `maintainer-01`" in quiet.note("perf")
        (check,) = quiet.github.state.check_runs.values()
        assert (check.name, check.status) == ("prgate/perf", "queued")

    def test_asked_twice_it_is_queued_once(self, quiet: World) -> None:
        quiet.open()
        quiet.say("@prgate bench")
        quiet.say("@prgate bench")
        assert len(quiet.runs()) == 1

    def test_named_cases_and_a_third_arm(self, quiet: World) -> None:
        quiet.open()
        parent = quiet.hub.git.resolve("main")
        quiet.say(f"@prgate bench long short vs {parent[:12]}")
        (run,) = quiet.runs()
        assert {case["name"] for case in run.spec["cases"]} == {"long", "short"}
        assert [arm["name"] for arm in run.spec["arms"]] == ["base", "parent", "head"]
        assert run.spec["arms"][1]["sha"] == parent

    def test_an_unknown_case_or_revision_is_said(self, quiet: World) -> None:
        quiet.open()
        quiet.say("@prgate bench shrot")
        quiet.say("@prgate bench vs deadbeefdead")
        assert "Did you mean `short`?" in quiet.answers()[0]
        assert "`deadbeefdead` is no commit of this repository." in quiet.answers()[1]
        assert quiet.runs() == []

    def test_the_note_follows_the_run_to_its_decision(self, quiet: World) -> None:
        quiet.open()
        quiet.say("@prgate bench")
        (run,) = quiet.runs()
        progress = {"case": "short", "blocks_done": 1, "blocks_max": 10}
        quiet.finish(run.id, RunState.RUNNING, progress=progress)
        assert "### Performance: being measured" in quiet.note("perf")
        assert "1 of at most 10 blocks done" in quiet.note("perf")
        quiet.finish(run.id, RunState.DONE, result=result(**SLOWER), dedupe_key=None)
        assert "### Performance: slower, +10.9 % (+9.8 % to +12.0 %)" in quiet.note("perf")
        (check,) = quiet.github.state.check_runs.values()
        assert (check.status, check.conclusion) == ("completed", "neutral")  # only gate may fail
        (decision,) = quiet.decisions("perf")
        assert decision.value["decision"] == "regression"

    def test_only_mode_gate_fails_the_check(self, quiet: World) -> None:
        config = quiet.hub.git.run("show", "main:.github/prgate.toml").replace('"comment"', '"gate"')
        quiet.hub.commit("main", {".github/prgate.toml": config}, "Gate", "maintainer-01")
        quiet.open()
        quiet.say("@prgate bench")
        (run,) = quiet.runs()
        quiet.finish(run.id, RunState.DONE, result=result(**SLOWER), dedupe_key=None)
        checks = {check.status: check.conclusion for check in quiet.github.state.check_runs.values()}
        assert checks == {"completed": "failure"}

    def test_a_push_voids_the_queued_run_and_the_note_says_so(self, quiet: World) -> None:
        quiet.open()
        quiet.say("@prgate bench")
        quiet.hub.commit("gate", {"omni/layers/rope.py": "x = 1\n"}, "More", "author-01")
        quiet.settle()
        (run,) = quiet.runs()
        assert run.state is RunState.CANCELED
        assert "### Performance: this head is not measured" in quiet.note("perf")

    def test_a_word_about_an_older_head_measures_nothing(self, quiet: World) -> None:
        """The author pushes between the maintainer's comment and its handling."""
        quiet.open()
        quiet.hub.comment(1, "maintainer-01", "@prgate bench")
        time.sleep(1.1)
        quiet.hub.commit("gate", {"omni/layers/rope.py": "import os\n"}, "Evil", "author-01")
        quiet.settle()
        assert quiet.runs() == []
        assert "came after your comment" in quiet.answers()[0]

    def test_a_head_whose_push_was_never_told_is_not_measured(self, quiet: World) -> None:
        quiet.open()
        quiet.hub.commit("gate", {"omni/layers/rope.py": "import os\n"}, "Evil", "author-01")
        quiet.seen = len(quiet.github.state.deliveries)  # the push's delivery is lost, its commit backdated
        quiet.say("@prgate bench")
        assert quiet.runs() == []
        assert "came after your comment" in quiet.answers()[0]

    def test_cancel_stops_what_waits(self, quiet: World) -> None:
        quiet.open()
        quiet.say("@prgate bench")
        quiet.say("@prgate cancel", user="author-01")
        (run,) = quiet.runs()
        assert run.state is RunState.CANCELED
        assert "the measurement was stopped" in quiet.note("perf")
        assert "Stopped by author\\-01" in quiet.note("perf") or "Stopped by author-01" in quiet.note("perf")

    def test_more_goes_on_from_an_inconclusive_run(self, quiet: World) -> None:
        quiet.open()
        quiet.say("@prgate more")
        assert "was not measured yet" in quiet.answers()[0]
        quiet.say("@prgate bench")
        (run,) = quiet.runs()
        unsure = {"decision": "inconclusive", "change_pct": 1.0, "low_pct": -2.0, "high_pct": 4.0}
        quiet.finish(run.id, RunState.DONE, result=result(**unsure), dedupe_key=None)
        assert "`@prgate more` adds blocks" in quiet.note("perf")
        quiet.say("@prgate more")
        first, second = quiet.runs()
        assert second.spec["max_blocks"] == 2 * first.spec["max_blocks"]
        assert "### Performance: queued" in quiet.note("perf")

    def test_paths_start_it_by_themselves_for_a_trusted_author_only(self, quiet: World) -> None:
        config = quiet.hub.git.run("show", "main:.github/prgate.toml").replace(
            "[perf]", '[perf]\nwhen = "paths"'
        )
        quiet.hub.commit("main", {".github/prgate.toml": config}, "Paths", "maintainer-01")
        quiet.open()
        assert quiet.runs() == []
        quiet.open("gate", 2, author="owner-03")
        (run,) = quiet.runs()
        assert run.requested_by == "paths"
        assert "asked for by the changed paths" in quiet.note("perf", 2)

    def test_what_the_lane_reports_is_shown_harmless(self, quiet: World) -> None:
        quiet.open()
        quiet.say("@prgate bench")
        (run,) = quiet.runs()
        hostile = result(why="@maintainer-01 <b>x</b>\n<!-- prgate:ci -->", **SLOWER)
        hostile["results"].append({"case": "nonsense"})
        quiet.finish(run.id, RunState.DONE, result=hostile, dedupe_key=None)
        note = quiet.note("perf")
        assert "@maintainer-01" not in note
        assert "<b>" not in note
        assert note.count("<!--") == 1
