"""A worker that stands still past its lease and then goes on: another one did its work meanwhile."""

import random
import signal
from collections import Counter
from collections.abc import Iterator

import pytest
from sqlalchemy import func, select

from bot import jobs
from bot.db.models import Decision, Job, JobState
from tests.faults.machine import World
from tests.faults.mortal import Mortal, Strike
from tests.faults.repository import branch


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


# Where it is frozen: at its last look before the first write, between two writes, and while GitHub writes.
PLACES = [
    ("GET", "/issues/1/comments", True),
    ("POST", "/requested_reviewers", True),
    ("POST", "/issues/1/comments", False),
]


@pytest.mark.parametrize(("verb", "path", "after"), PLACES)
def test_a_worker_that_was_frozen_past_its_lease_writes_nothing_more(
    world: World, verb: str, path: str, after: bool
) -> None:
    world.hub.open_pull(1, branch(1), "author-1", title="[Feature] Part 1")
    world.hub.comment(1, "maintainer-01", "@prgate ask")
    world.receive(random.Random(0))
    freeze = Strike(verb, path, 502, after=after, victim=world.worker, number=signal.SIGSTOP)
    world.github.faults.planned.append(freeze)
    world.worker.start()
    assert freeze.struck.wait(60)

    world.age()
    assert jobs.expire(world.sessions, 50) == (1, 0)
    frozen, world.worker = world.worker, Mortal(world.worker.settings)
    world.settle()
    done = len(world.github.state.writes())
    made = Counter(world.github.state.made)
    world.github.state.requests.clear()

    frozen.signal(signal.SIGCONT)
    assert frozen.wait()
    assert done > 3
    assert world.github.state.writes() == []
    assert Counter(world.github.state.made) == made
    assert max(made.values()) == 1
    with world.sessions() as session:
        assert set(session.scalars(select(Job.state))) == {JobState.DONE}
        counts = session.execute(select(Decision.kind, func.count()).group_by(Decision.kind)).all()
        wish = session.scalars(select(Decision.value).where(Decision.kind == "ask")).one()
    assert dict(counts)["route"] <= 2
    assert wish["count"] == 1
