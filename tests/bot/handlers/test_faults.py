"""What GitHub does to us, and what must not come of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.actions import LineComment, Mode, SetCheck, SubmitReview, Target, UpsertComment
from bot.apply import HeadMoved, apply
from bot.clients import Clients
from bot.comments import marker_line
from bot.dispatch import JobSpec, RetryLater
from bot.github import GitHubFault

World = Any


@pytest.fixture
def still(world: World) -> World:
    """A world in which nothing is done by itself."""
    world.verbs = ()
    return world


def clients(world: World, verb: str = "route") -> Clients:
    return Clients(world.sessions, world.settings, datetime.now(UTC), JobSpec(verb, world.repo_id, 1))


def target(world: World, head: str | None = None, mode: Mode = Mode.COMMENT) -> Target:
    sha = head or world.hub.require_pull(1).head_sha
    return Target(world.repo_id, world.github.state.full_name, 1, sha, mode=mode)


def write(world: World, *actions: Any, head: str | None = None, mode: Mode = Mode.COMMENT) -> None:
    made = clients(world)
    apply(actions, target(world, head, mode), made.spec, made)


def body(text: str, marker: str = "ci") -> str:
    return f"{marker_line(marker)}\n{text}\n"


def ours(world: World) -> list[str]:
    return [comment.body for comment in world.github.bot_comments(1) if "prgate:ci" in comment.body]


def test_a_comment_that_was_created_although_the_answer_was_lost_stays_the_only_one(still: World) -> None:
    still.open()
    still.github.faults.fail("POST", "/issues/1/comments", 502, after=True)
    with pytest.raises(GitHubFault):
        write(still, UpsertComment("ci", body("red")))
    write(still, UpsertComment("ci", body("red")))
    write(still, UpsertComment("ci", body("green")))
    assert ours(still) == [body("green")]


def test_an_edit_survives_a_bad_gateway(still: World) -> None:
    still.open()
    write(still, UpsertComment("ci", body("red")))
    still.github.faults.fail("PATCH", "/issues/comments/", 502, times=2)
    write(still, UpsertComment("ci", body("green")))
    assert ours(still) == [body("green")]


def test_an_edit_whose_answer_was_lost_is_not_made_twice(still: World) -> None:
    still.open()
    write(still, UpsertComment("ci", body("red")))
    still.github.faults.fail("PATCH", "/issues/comments/", 502, after=True)
    write(still, UpsertComment("ci", body("green")))
    assert ours(still) == [body("green")]
    assert [one for one in still.github.state.made if "without a change" in one] == []


def test_an_equal_text_is_not_written_even_where_our_memory_is_gone(still: World) -> None:
    still.open()
    write(still, UpsertComment("ci", body("red")))
    before = still.writes()
    write(still, UpsertComment("ci", body("red")))
    with still.sessions() as session:
        from bot.store import forget_comment

        forget_comment(session, target(still), "ci")
        session.commit()
    write(still, UpsertComment("ci", body("red")))
    assert still.writes() == before


def test_somebody_elses_comment_with_our_marker_is_never_touched(still: World) -> None:
    still.open()
    theirs = still.hub.comment(1, "author-01", body("pasted"))
    write(still, UpsertComment("ci", body("red")))
    assert theirs.body == body("pasted")
    assert ours(still) == [body("red")]


def test_of_two_of_ours_the_oldest_is_kept(still: World) -> None:
    still.open()
    for text in ("one", "two", "three"):
        still.hub.comment(1, "prgate[bot]", body(text))
    write(still, UpsertComment("ci", body("red")))
    assert ours(still) == [body("red")]


def test_a_comment_that_somebody_deleted_is_made_again_and_only_edit_leaves_it(still: World) -> None:
    still.open()
    write(still, UpsertComment("ci", body("red")))
    (comment,) = [c for c in still.github.bot_comments(1) if "prgate:ci" in c.body]
    still.hub.delete_comment(comment.id, "maintainer-01")
    write(still, UpsertComment("ci", body("green"), only_edit=True))
    assert ours(still) == []
    write(still, UpsertComment("ci", body("red again")))
    assert ours(still) == [body("red again")]


def test_nothing_is_written_for_a_head_that_moved(still: World) -> None:
    still.open()
    before = still.writes()
    check = SetCheck("prgate/perf", "x", "completed", "success", "fine", "fine")
    for action in (UpsertComment("ci", body("red")), check, SubmitReview("review", body("x", "review"))):
        with pytest.raises(HeadMoved):
            write(still, action, head="0" * 40)
    assert still.writes() == before


def test_a_limit_becomes_a_later_try_and_no_request_goes_out_meanwhile(still: World) -> None:
    still.open()
    still.github.faults.limit(30, verb="POST", path="/issues/1/comments")
    before = len(still.github.state.requests)
    with pytest.raises(RetryLater) as wait:
        write(still, UpsertComment("ci", body("red")))
    sent = [
        one for one in still.github.state.requests[before:] if one.verb == "POST" and "tokens" not in one.path
    ]
    assert len(sent) == 1
    assert wait.value.at >= datetime.now(UTC) + timedelta(seconds=28)


def test_a_limit_that_one_worker_met_keeps_all_others_from_writing(still: World) -> None:
    still.open()
    still.github.faults.limit(30, verb="POST", path="/issues/1/comments")
    before = len(still.github.state.writes())
    for marker in ("ci", "perf"):
        with pytest.raises(RetryLater):
            write(still, UpsertComment(marker, body("red", marker)))
    assert len(still.github.state.writes()) == before + 1


def test_the_pace_makes_a_worker_come_back_later(still: World) -> None:
    still.open()
    slow = still.settings.model_copy(update={"github_write_gap_s": 30.0})
    made = Clients(still.sessions, slow, datetime.now(UTC), JobSpec("route", still.repo_id, 1))
    first, second = UpsertComment("ci", body("red")), UpsertComment("ci", body("green"))
    apply([first], target(still), made.spec, made)
    with pytest.raises(RetryLater):
        apply([second], target(still), made.spec, made)
    assert ours(still) == [body("red")]


def test_a_check_run_is_updated_in_place_and_left_alone_when_equal(still: World) -> None:
    still.open()
    queued = SetCheck("prgate/perf", "x", "queued", None, "Queued", "It waits.")
    done = SetCheck("prgate/perf", "x", "completed", "failure", "Slower", "By 10 %.")
    write(still, queued)
    write(still, done, mode=Mode.GATE)
    before = still.writes()
    write(still, done, mode=Mode.GATE)
    (check,) = still.github.state.check_runs.values()
    assert (check.status, check.conclusion, check.title) == ("completed", "failure", "Slower")
    assert still.writes() == before
    write(still, done)
    assert check.conclusion == "neutral"


def test_one_reviewer_whom_github_refuses_does_not_spoil_it_for_the_others(still: World) -> None:
    from bot.actions import RequestReview

    still.open(draft=True)
    write(still, RequestReview(("stranger-01", "owner-03", "author-01")))
    assert still.hub.require_pull(1).requested == ["owner-03"]
    before = still.writes()
    write(still, RequestReview(("owner-03",)))
    assert still.writes() == before


def test_a_review_falls_back_to_its_text_where_a_line_is_refused(still: World) -> None:
    still.open()
    still.github.faults.fail("POST", "/pulls/1/reviews", 422)
    review = SubmitReview(
        "review", body("Found:", "review"), (LineComment("omni/layers/rope.py", 99, "Too slow."),)
    )
    write(still, review)
    write(still, review)
    (made,) = still.github.state.reviews.values()
    assert made.comments == []
    assert "`omni/layers/rope.py:99`: Too slow." in made.body


def test_a_plain_account_writes_statuses_instead_of_check_runs(world: World) -> None:
    world.github.state.accounts["plain-token"] = "review-bot"
    world.hub.state.user("review-bot").permission = "write"
    world.settings = world.settings.model_copy(
        update={
            "github_app_id": "",
            "github_private_key": type(world.settings.github_token)(""),
            "github_token": type(world.settings.github_token)("plain-token"),
        }
    )
    world.open()
    assert world.note("route") is not None
    world.say("@review-bot bench")
    (status,) = [one for one in world.github.state.statuses if one.context == "prgate/perf"]
    assert (status.state, status.creator) == ("pending", "review-bot")
    assert "Queued" in world.answers()[0]
    before = world.writes()
    world.hub.about_pull("edited", "author-01", world.hub.require_pull(1))
    world.settle()
    assert world.writes() == before


def tell_of_installation(world: World, action: str) -> None:
    """Let GitHub tell that the App came to the repository or left it."""
    repos = {"added": [], "removed": []}
    repos[action] = [world.hub.shapes.repository()]
    payload = {f"repositories_{name}": listed for name, listed in repos.items()}
    world.hub.hooks.emit(
        "installation_repositories", action, payload, {"login": "maintainer-01", "type": "User"}
    )
    world.settle()


def test_a_repository_that_left_is_left_alone(world: World) -> None:
    world.open()
    world.hub.state.installed = False
    tell_of_installation(world, "removed")
    before = len(world.github.state.requests)
    world.say("@prgate help")
    assert world.answers() == []
    assert len(world.github.state.requests) == before
    assert any("is not known (any more)" in error for error in world.errors)


def test_a_removal_that_is_told_late_does_not_silence_an_app_that_is_back(world: World) -> None:
    world.open()
    tell_of_installation(world, "removed")
    world.say("@prgate help")
    assert len(world.answers()) == 1


def test_an_installation_looks_at_the_open_pull_requests(world: World) -> None:
    world.hub.open_pull(1, "gate", "author-01", title="Earlier")
    world.seen = len(world.github.state.deliveries)
    tell_of_installation(world, "added")
    assert world.note("route") is not None
