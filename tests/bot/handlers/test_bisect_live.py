"""`bisect` on a real thread: what is queued, what is refused, and what is believed of the lane's answer."""

from typing import Any

import pytest

from bot.bisecting import Wanted, wanted
from bot.db.models import RunState
from tests.bot.handlers.test_settle_live import end, only

World = Any


def decision(low_pct: float, high_pct: float) -> dict[str, Any]:
    """Return a decision of the gate for a slowdown."""
    return {
        "decision": "regression",
        "why": "the interval lies above 0",
        "change_pct": (low_pct + high_pct) / 2,
        "low_pct": low_pct,
        "high_pct": high_pct,
        "margin_pct": 2.0,
        "alpha": 0.03,
        "blocks_used": 2,
        "blocks_vetoed": 0,
        "runs_used": 8,
        "improved": False,
    }


def record(good: str, bad: str, **more: Any) -> dict[str, Any]:
    """Return a lane's report of a search."""
    probe = {"sha": bad, "side": "bad", "change_pct": 11.0, "low_pct": 9.0, "high_pct": 13.0, "why": "slower"}
    found = {"good": good, "bad": bad, "case": "short", "hunted": decision(9.8, 12.0), "probes": [probe]}
    return {"bisect": {**found, "runs_used": 24, **more}}


@pytest.fixture
def three(world: World) -> tuple[World, list[str]]:
    """Return a world whose pull request has three commits, and the shas from the base on."""
    world.verbs = ("command", "perf", "bisect")
    base = world.hub.git.resolve("main")
    world.hub.git.move_branch("slow", base)
    shas = [base]
    for number in range(3):
        text = {"omni/layers/rope.py": f"SIZE = {number}\n"}
        shas.append(world.hub.git.commit_files("slow", text, f"Change {number} @owner-01", "author-01"))
    world.open("slow")
    return world, shas


def test_a_word_queues_the_search_between_base_and_head(three: tuple[World, list[str]]) -> None:
    world, shas = three
    world.say("@prgate bisect short")
    run = only(world, "bisect")
    assert [arm["sha"] for arm in run.spec["arms"]] == [shas[0], shas[-1]]
    assert [case["name"] for case in run.spec["cases"]] == ["short"]
    assert "### Bisect: queued" in world.note("bisect")
    assert world.answers() == []
    end(world, run, RunState.RUNNING, progress={"stage": "2 commits left; measuring abc", "runs_done": 3})
    assert "2 commits left; measuring abc, run 3 of this commit" in world.note("bisect")
    named = record(
        shas[0], shas[-1], culprit=shas[2], candidates=[shas[2]], culprit_change=decision(8.0, 12.0)
    )
    end(world, run, result=named)
    note = world.note("bisect")
    assert f"### Bisect: `{shas[2][:12]}` is the first bad commit" in note
    assert "+10.0 % (+8.0 % to +12.0 %) against its parent" in note
    assert "@owner-01" not in note
    assert world.decisions("bisect")[-1].value["culprit"] == shas[2]


def test_what_the_lane_says_is_believed_only_where_it_can_be(three: tuple[World, list[str]]) -> None:
    world, shas = three
    good, bad = shas[0], shas[-1]
    world.say("@prgate bisect short")
    run = only(world, "bisect")
    change = decision(8.0, 12.0)
    stranger = world.hub.git.resolve("docs")
    answers: list[tuple[dict[str, Any], str]] = [
        (
            record(good, bad, culprit=stranger, candidates=[stranger], culprit_change=change),
            "no commit is named",
        ),
        (record(good, bad, culprit="../../x", candidates=["x"], culprit_change=change), "no commit is named"),
        (record(good, good, culprit=shas[2]), "it could not be done"),
        ({"bisect": {"good": good}}, "it could not be done"),
        (
            record(good, bad, candidates=shas[1:3], skipped=[shas[1]], says="one of 2 commits"),
            "one of 2 commits",
        ),
        (record(good, bad, refused="block noise of 9.0 % forbids a bisect"), "refused, since noise"),
    ]
    for result, says in answers:
        end(world, run, result=result)
        assert says in world.note("bisect").splitlines()[1], result
        assert "is the first bad commit" not in world.note("bisect").splitlines()[1]


def test_a_failed_or_canceled_search_names_nobody(three: tuple[World, list[str]]) -> None:
    world, _ = three
    world.say("@prgate bisect short")
    end(world, only(world, "bisect"), RunState.FAILED, error="there is no regression to hunt")
    assert "### Bisect: it could not be done" in world.note("bisect")
    assert "there is no regression to hunt" in world.note("bisect")
    world.say("@prgate bisect long")
    world.say("@prgate cancel", user="author-01")
    assert "The bisect is stopped." in world.answers()[-1]
    assert "### Bisect: stopped" in world.note("bisect")


def test_a_push_voids_it(three: tuple[World, list[str]]) -> None:
    world, _ = three
    world.say("@prgate bisect short")
    world.hub.commit("slow", {"omni/layers/rope.py": "SIZE = 9\n"}, "More", "author-01")
    world.settle()
    assert only(world, "bisect").state is RunState.CANCELED
    assert "### Bisect: not done for this head" in world.note("bisect")


def test_what_makes_no_sense_gets_a_helpful_answer(three: tuple[World, list[str]]) -> None:
    world, shas = three
    asked: list[tuple[str, str]] = [
        ("bisect", "name the one to search with: `short`, `long`"),
        ("bisect shrot", "Did you mean `short`?"),
        ("bisect short HEAD;rm..main", "`HEAD;rm` is no commit of this repository"),
        ("bisect short deadbeefdead..", "`deadbeefdead` is no commit of this repository"),
        (f"bisect short {shas[1]}..{shas[1]}", "Good and bad are one commit"),
        ("bisect short long", "one case and one range are taken"),
        ("bench vs HEAD;rm", "`HEAD;rm` is no commit of this repository."),
        ("bench vs", "`vs` takes one revision"),
        ("bench short vs HEAD; rm", "`vs` takes one revision"),
    ]
    for said, answer in asked:
        world.say(f"@prgate {said}")
        assert answer in world.answers()[-1], said
    world.say("@prgate bisect", user="author-01")
    assert "is for someone with write permission" in world.answers()[-1]
    assert world.runs() == []
    world.say(f"@prgate bisect short {shas[0][:12]}..{shas[2]}")
    assert [arm["sha"] for arm in only(world, "bisect").spec["arms"]] == [shas[0], shas[2]]


def test_a_pull_request_of_one_commit_has_nothing_to_search(world: World) -> None:
    world.verbs = ("command",)
    world.open()
    world.say("@prgate bisect short")
    assert "has one commit" in world.answers()[-1]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", Wanted()),
        ("c", Wanted(case="c")),
        ("a..b", Wanted(good="a", bad="b")),
        ("v1.2..main c", Wanted(case="c", good="v1.2", bad="main")),
        ("a...b", Wanted(good="a", bad="b")),
        ("..b", Wanted(bad="b")),
        ("a..", Wanted(good="a")),
    ],
)
def test_case_and_range_are_told_apart(text: str, found: Wanted) -> None:
    assert wanted(text.split()) == found
