"""A world that is started again goes on where it stopped: all is looked at anew, nothing is written."""

from pathlib import Path

from bot.demo.recorded import Step
from bot.demo.replay import Replay
from bot.demo.world import EmbeddedWorld
from tests.e2e.conftest import free_ports


def without_measurement(step: Step) -> bool:
    return not step.body.startswith("@prgate bench")


def bodies(world: EmbeddedWorld) -> dict[int, str]:
    return {comment.id: comment.body for comment in world.github.state.comments.values()}


def test_a_second_start_writes_nothing(tmp_path: Path) -> None:
    port = free_ports()
    with EmbeddedWorld(tmp_path, port) as world:
        Replay(world, lambda _: None).play(without_measurement)
        before = bodies(world)
    with EmbeddedWorld(tmp_path, port) as world:
        writes = len(world.github.state.writes())
        Replay(world, lambda _: None).play()
        assert world.github.state.writes()[writes:] == []
        assert bodies(world) == before
