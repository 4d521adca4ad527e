"""kill -9 in the middle of the replay: after the restart every comment is there, once."""

import threading

import pytest

from bot.demo.children import wait_until
from bot.demo.github.state import Delivery
from bot.demo.replay import Replay
from bot.demo.world import EmbeddedWorld
from tests.e2e.reading import markers


def redeliver_failed(world: EmbeddedWorld) -> None:
    """Do what GitHub's list of failed deliveries is for, until none is failed."""
    hooks = world.github.hub.hooks

    def failed() -> list[Delivery]:
        return [one for one in world.github.state.deliveries if not 200 <= one.status_code < 300]

    def all_arrive() -> bool:
        hooks.drain()
        for delivery in failed():
            hooks.redeliver(delivery)
        hooks.drain()
        return not failed()

    wait_until(all_arrive, world.children, 60, "the arrival of every delivery")


@pytest.fixture(scope="module")
def variables() -> dict[str, str]:
    """Let the lease of a killed worker end soon."""
    return {"PRGATE_LEASE_S": "6", "PRGATE_HEARTBEAT_S": "2"}


def test_killed_web_and_worker_lose_and_double_nothing(world: EmbeddedWorld) -> None:
    replay = Replay(world, lambda _: None)
    replay.open_issue()
    recording = world.recording
    for pull in (recording.culprit, recording.fix):
        world.github.hub.open_pull(
            pull.number, pull.branch, pull.author, title=pull.title, body=pull.body, labels=pull.labels
        )
        killer = threading.Thread(target=world.worker.kill)
        killer.start()
        for build in recording.builds_of(pull.head_sha):
            replay.finish(build)
        killer.join()
        world.worker.start()
        world.web.kill()
        world.web.start()
        redeliver_failed(world)
    world.settle(limit_s=150)
    for number, wanted in (
        (recording.culprit.number, {"route", "triage"}),
        (recording.fix.number, {"route", "triage", "ci"}),
    ):
        found = markers(world, number)
        assert wanted <= set(found)
        assert all(count == 1 for count in found.values()), found
