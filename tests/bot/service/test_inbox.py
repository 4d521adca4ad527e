"""The writer: groups what waits, keeps a bad delivery from spoiling the others, writes all before it ends."""

import asyncio
import json
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import func, select

from bot.db.engine import Sessions
from bot.db.models import Delivery, DeliveryState, Job, Repository
from bot.dispatch import JobSpec
from bot.errors import PayloadRejected
from bot.events import RepoRef
from bot.inbox import Inbox, Incoming, Stored


def incoming(guid: str, number: int = 1, key: str | None = None, name: str = "acme/engine") -> Incoming:
    jobs = (JobSpec("route", 9, number, "", key),)
    body = json.dumps({"guid": guid}).encode()
    return Incoming(guid, "pull_request", "opened", jobs, body, RepoRef(id=9, full_name=name), 77, number)


def put_all(sessions: Sessions, batch: Sequence[Incoming], max_waiting: int = 1_000) -> list[Stored | int]:
    """Hand deliveries to a writer at once; return what became of each, or the status it was refused with."""
    commits: list[int] = []
    inbox = Inbox(sessions, max_waiting, lambda: commits.append(1))

    async def one(item: Incoming) -> Stored | int:
        try:
            return await inbox.put(item)
        except PayloadRejected as refused:
            return refused.status

    async def all_of_them() -> list[Stored | int]:
        waiting = [asyncio.ensure_future(one(item)) for item in batch]
        await asyncio.sleep(0)
        inbox.start()
        return await asyncio.gather(*waiting)

    outcomes = asyncio.run(all_of_them())
    inbox.stop()
    assert 1 <= len(commits) <= len(batch)
    return outcomes


def test_many_deliveries_are_few_transactions(sessions: Sessions) -> None:
    batch = [incoming(f"d-{n}", n) for n in range(150)]
    assert put_all(sessions, batch) == [Stored.NEW] * 150
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 150
        stored = session.get_one(Delivery, "d-7")
        assert (stored.state, stored.repo_id, stored.number) == (DeliveryState.RECEIVED, 9, 7)
        assert json.loads(zlib.decompress(stored.payload or b"")) == {"guid": "d-7"}


def test_a_delivery_that_cannot_be_stored_spoils_no_other(sessions: Sessions) -> None:
    batch = [incoming("good-1", 1), incoming("bad", 2**70), incoming("good-2", 2)]
    assert put_all(sessions, batch) == [Stored.NEW, 503, Stored.NEW]
    with sessions() as session:
        assert set(session.scalars(select(Delivery.guid))) == {"good-1", "good-2"}


def test_the_same_delivery_twice_in_one_group_is_one(sessions: Sessions) -> None:
    outcomes = put_all(sessions, [incoming("twin"), incoming("other"), incoming("twin")])
    assert outcomes == [Stored.NEW, Stored.NEW, Stored.REPEATED]
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 2


def test_a_failed_delivery_that_comes_back_twice_in_one_group_is_revived_once(sessions: Sessions) -> None:
    put_all(sessions, [incoming("again")])
    with sessions.begin() as session:
        session.get_one(Delivery, "again").state = DeliveryState.FAILED
    assert put_all(sessions, [incoming("again"), incoming("again")]) == [Stored.REVIVED, Stored.REPEATED]


def test_a_delivery_whose_look_waits_already_is_done_with(sessions: Sessions) -> None:
    put_all(sessions, [incoming("first", key="route:9:1"), incoming("second", key="route:9:1")])
    with sessions() as session:
        states = {row.guid: row.state for row in session.scalars(select(Delivery))}
    assert sorted(states.values()) == [DeliveryState.DONE, DeliveryState.RECEIVED]


def test_beyond_the_limit_senders_are_told_to_come_again(sessions: Sessions) -> None:
    outcomes = put_all(sessions, [incoming(f"d-{n}") for n in range(5)], max_waiting=3)
    assert outcomes == [Stored.NEW] * 3 + [503] * 2


def test_a_repository_keeps_its_row_when_it_is_renamed(sessions: Sessions) -> None:
    put_all(sessions, [incoming("before")])
    put_all(sessions, [incoming("after", name="acme/motor")])
    with sessions() as session:
        (repository,) = session.scalars(select(Repository))
    assert (repository.full_name, repository.installation_id, repository.removed_at) == (
        "acme/motor",
        77,
        None,
    )


def test_a_late_delivery_does_not_bring_a_repository_back_that_was_left(sessions: Sessions) -> None:
    put_all(sessions, [incoming("before")])
    for left, stays_away in ((timedelta(minutes=5), True), (timedelta(hours=2), False)):
        with sessions.begin() as session:
            session.get_one(Repository, 9).removed_at = datetime.now(UTC) - left
        put_all(sessions, [incoming(f"after {left}")])
        with sessions() as session:
            assert (session.get_one(Repository, 9).removed_at is not None) == stays_away
