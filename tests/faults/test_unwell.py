"""GitHub has a fault in one place for a while: nobody is told a falsehood, and later all is well."""

import random
from collections.abc import Iterator

import pytest

from tests.faults.machine import World
from tests.faults.repository import branch


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def said(world: World) -> str:
    return "\n".join(one.body for one in world.github.bot_comments(1))


def test_a_permission_that_github_cannot_tell_now_is_no_refusal(world: World) -> None:
    world.github.faults.fail("GET", "/permission$", 503, times=1_000)
    world.hub.open_pull(1, branch(1), "author-1", title="[Feature] Part 1")
    world.hub.comment(1, "maintainer-01", "@prgate priority high")
    world.receive(random.Random(0))
    world.work()
    assert "you have `none`" not in said(world)
    assert "no owner can review" not in said(world)
    world.settle()
    assert "The priority is high by your word." in said(world)
    assert set(world.hub.require_pull(1).requested) & {"owner-1", "second-1"}


def test_required_checks_that_github_cannot_tell_now_change_no_verdict(world: World) -> None:
    world.github.faults.fail("GET", "/rules/branches/", 503, times=1_000)
    world.hub.open_pull(1, branch(1), "author-1", title="[Feature] Part 1")
    head = world.hub.require_pull(1).head_sha
    world.hub.set_status(head, "buildkite/engine", "success", "buildkite[bot]")
    world.hub.set_status(head, "buildkite/optional", "failure", "buildkite[bot]")
    world.receive(random.Random(0))
    world.work()
    assert "CI is red" not in said(world)
    world.settle()
    assert "CI is red" not in said(world)
