"""From what happened elsewhere to the pull requests it concerns."""

from typing import Any

from bot.demo.github.state import Attempt, CheckRun, now
from bot.dispatch import JobSpec

World = Any


def test_a_red_required_status_brings_the_note_and_green_turns_it(world: World) -> None:
    world.open()
    head = world.hub.require_pull(1).head_sha
    world.hub.set_status(head, "buildkite/other", "failure", "other[bot]")
    world.settle()
    assert world.note("ci") is None  # it is not required
    world.hub.set_status(head, "buildkite/omni", "failure", "buildkite[bot]")
    world.settle()
    assert "### CI is red on this head" in world.note("ci")
    assert "`buildkite/omni`" in world.note("ci")
    world.hub.set_status(head, "buildkite/omni", "success", "buildkite[bot]")
    world.settle()
    assert "### CI is green on this head" in world.note("ci")
    assert "Nothing for you to fix." in world.note("ci")


def test_without_a_red_there_is_never_a_note(world: World) -> None:
    world.open()
    world.hub.set_status(world.hub.require_pull(1).head_sha, "buildkite/omni", "success", "buildkite[bot]")
    world.settle()
    assert world.note("ci") is None
    assert world.decisions("ci")[-1].value["overall"] == "green"


def test_the_note_moves_with_the_head(world: World) -> None:
    world.open()
    world.hub.set_status(world.hub.require_pull(1).head_sha, "buildkite/omni", "failure", "buildkite[bot]")
    world.settle()
    sha = world.hub.commit("gate", {"omni/layers/rope.py": "x = 1\n"}, "More", "author-01")
    world.settle()
    note = world.note("ci")
    assert "### CI is running on this head" in note
    assert sha[:12] in note
    assert "buildkite/omni" not in note


def test_a_lost_delivery_is_made_up_for_by_the_look_at_all_open_pull_requests(world: World) -> None:
    world.open()
    sha = world.hub.commit("gate", {"omni/layers/rope.py": "x = 1\n"}, "More", "author-01")
    world.hub.open_pull(2, "docs", "author-01", title="Words")
    world.seen = len(world.github.state.deliveries)  # all lost
    world.do(JobSpec("expand", world.repo_id, None, "open"))
    world.settle()
    assert sha[:12] in world.note("route")
    assert world.note("route", 2) is not None
    world.hub.close(2, "author-01")
    world.seen = len(world.github.state.deliveries)
    world.do(JobSpec("expand", world.repo_id, None, "open"))
    world.settle()
    assert world.decisions("closed", 2)[0].value == {"how": "closed"}


def test_looking_at_all_open_pull_requests_again_asks_for_nothing(world: World) -> None:
    world.open()
    world.do(JobSpec("expand", world.repo_id, None, "open"))
    world.settle()
    before = world.writes()
    world.do(JobSpec("expand", world.repo_id, None, "open"))
    world.settle()
    assert world.writes() == before


def asked_again(world: World) -> int:
    """Look for what did not arrive, and return for how many deliveries GitHub was asked."""
    seen = len(world.github.state.requests)
    world.do(JobSpec("expand", 0, None, "redeliver"))
    return sum(one.path.endswith("/attempts") for one in world.github.state.requests[seen:])


def test_deliveries_that_never_arrived_are_asked_for_again(world: World) -> None:
    world.open()
    for delivery in world.github.state.deliveries:
        delivery.status_code = 202
    assert asked_again(world) == 0
    for n, code in enumerate((502, 0, 503)):
        world.github.state.deliveries[n].status_code = code
    assert asked_again(world) == 3


def test_an_outage_of_ours_however_long_loses_no_delivery_but_what_we_refuse_is_given_up(
    world: World,
) -> None:
    world.open()
    for delivery in world.github.state.deliveries:
        delivery.status_code = 202
    down, refused = world.github.state.deliveries[:2]
    for delivery, code in ((down, 502), (refused, 400)):
        delivery.status_code = delivery.first_code = code
        delivery.again = [Attempt(world.github.state.new_id(), now(), code) for _ in range(5)]
    assert asked_again(world) == 1


def test_the_whole_list_of_deliveries_is_read(world: World) -> None:
    world.open()
    lost = world.github.state.deliveries[0]
    lost.status_code = 502
    for _ in range(250):
        world.hub.set_status(world.hub.require_pull(1).head_sha, "other", "pending", "other[bot]")
    for delivery in world.github.state.deliveries[1:]:
        delivery.status_code = 202
    assert asked_again(world) == 1


def test_a_push_to_main_is_news_for_red_pull_requests_only(world: World) -> None:
    world.open()
    before = len(world.github.state.requests)
    world.hub.commit("main", {"README.md": "# omni!\n"}, "Main", "maintainer-01")
    world.settle()
    assert len(world.github.state.requests) == before


def test_a_check_run_counts_as_a_required_check_too(world: World) -> None:
    world.github.state.required = ("unit",)
    world.open()
    head = world.hub.require_pull(1).head_sha
    run = CheckRun(5, "unit", head, "completed", "failure", "", None, "", "", "actions", now(), now())
    world.github.state.check_runs[5] = run
    world.hub.emit("check_run", "completed", "actions[bot]", check_run=world.hub.shapes.check_run(run))
    world.settle()
    assert "`unit`" in world.note("ci")


def test_a_merge_group_gets_its_check_in_mode_gate(world: World) -> None:
    config = world.hub.git.run("show", "main:.github/prgate.toml").replace('"comment"', '"gate"')
    sha = world.hub.commit("main", {".github/prgate.toml": config}, "Gate", "maintainer-01")
    group = {"head_sha": sha, "head_ref": f"refs/heads/gh-readonly-queue/main/pr-1-{sha}"}
    world.hub.emit("merge_group", "checks_requested", "github-merge-queue[bot]", merge_group=group)
    world.settle()
    (check,) = world.github.state.check_runs.values()
    assert (check.name, check.head_sha, check.conclusion) == ("prgate/perf", sha, "success")
