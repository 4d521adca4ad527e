"""What is ordered on the dashboard, done on a real thread: the comments' own verbs, permissions, effects."""

from typing import Any

import pytest

from bot.handlers.page import Order, job_of
from bot.jobs import enqueue

World = Any


def order(world: World, words: str, login: str = "maintainer-01", form: str = "abcdefgh") -> dict[str, Any]:
    """Order something and let it be done; what the story keeps of it (empty: nothing)."""
    with world.sessions.begin() as session:
        enqueue(session, [job_of(Order(login, words, form), world.repo_id, 1)])
    world.settle()
    found = world.decisions(f"page:{form}")
    return found[-1].value if found else {}


@pytest.fixture
def opened(world: World) -> World:
    world.open()
    return world


def test_a_priority_that_is_set_on_the_page_stands_like_one_of_a_comment(opened: World) -> None:
    kept = order(opened, "priority critical")
    assert kept["by"] == "maintainer-01"
    assert kept["says"] == ["The priority is critical by your word."]
    assert opened.decisions("priority")[-1].value["override_by"] == "maintainer-01"
    assert opened.answers() == []  # nothing is said in the thread about it


def test_pause_and_resume_from_the_page(opened: World) -> None:
    order(opened, "pause")
    opened.say("@prgate priority high")
    assert "paused here" in opened.answers()[-1]
    assert order(opened, "resume", form="ijklmnop")["says"] == ["I am back."]
    assert opened.decisions("pause")[-1].value["paused"] is False


def test_cancel_stops_what_waits(opened: World) -> None:
    opened.say("@prgate bench short")
    kept = order(opened, "cancel")
    assert kept["says"] == ["The measurement is stopped."]
    assert [run.state.value for run in opened.runs()] == ["canceled"]


def test_who_lost_the_permission_meanwhile_is_refused(opened: World) -> None:
    kept = order(opened, "priority critical", login="stranger-01")
    assert "write" in kept["says"][0]
    assert all(row.value.get("override_by") is None for row in opened.decisions("priority"))


def test_a_red_job_that_is_not_there_is_said(opened: World) -> None:
    assert "No red job" in order(opened, "unrelated nightly because of main")["says"][0]


@pytest.mark.parametrize("words", ["bench short", "review", "skip", "nonsense", "priority"])
def test_what_a_page_may_not_order_is_not_done(opened: World, words: str) -> None:
    assert order(opened, words) == {}
