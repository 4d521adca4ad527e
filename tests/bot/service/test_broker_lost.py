"""Redis is killed while every process of the worker has a job in hand: no message is acknowledged."""

from collections.abc import Callable
from pathlib import Path

from bot.demo.redis_child import RedisChild
from bot.stalled import Idleness
from tests.bot.service.world import World, wait_until


def command(number: int) -> dict[str, object]:
    return {"action": "created", "number": number, "subject": f"comment-{number}"}


def test_a_worker_goes_on_after_a_broker_that_forgot_what_it_had_in_hand(
    tmp_path: Path, make_world: Callable[..., World]
) -> None:
    own = RedisChild(tmp_path / "redis").start()
    try:
        world = make_world(DUMMY_SECONDS="1.5")
        world.redis = own
        world.start_web()
        world.start_worker(2)
        for number in (1, 2):
            world.post("issue_comment", command(number))
        wait_until(lambda: len(world.effects("start")) == 2)
        own.kill()
        wait_until(lambda: len(world.effects("end")) == 2)
        own.start()
        world.post("issue_comment", command(3))
        wait_until(lambda: len(world.effects("end")) == 3, what=world.log("worker")[-3000:])
        assert sorted(line["number"] for line in world.effects("end")) == [1, 2, 3]
    finally:
        own.stop()


def test_only_a_worker_that_is_idle_while_messages_wait_stands_still() -> None:
    def looks(*seen: tuple[int, int, int]) -> list[bool]:
        idleness = Idleness()
        return [idleness.look(taken, active, lambda n=messages: n) for taken, active, messages in seen]

    assert looks((5, 0, 1), (5, 0, 1), (5, 0, 1)) == [False, False, True]
    assert not any(looks((5, 0, 1), (5, 0, 1), (6, 0, 1), (6, 0, 1)))
    assert not any(looks((5, 2, 9), (5, 2, 9), (5, 2, 9), (5, 2, 9)))
    assert not any(looks((5, 0, 0), (5, 0, 0), (5, 0, 0), (5, 0, 0)))
