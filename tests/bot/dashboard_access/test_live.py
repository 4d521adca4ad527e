"""The stream of changes: what is seen by whom, coming back without loss, limits, and a prompt end."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete

from bot.dashboard.live import GAP_S, Told, settled
from bot.db.engine import open_engine, open_sessions
from bot.db.models import Base, Event, Permission
from tests.bot.dashboard_access.conftest import NAME, Site
from tests.bot.dashboard_access.streams import Follower, happen, served
from tests.bot.service.world import wait_until
from tests.postgres import Postgres, running


@pytest.fixture
def url(site: Site) -> Iterator[str]:
    with served(site.app) as (address, _):
        yield address


def cookie(site: Site, login: str) -> dict[str, str]:
    client = site.browser(login)
    return {"Cookie": f"prgate={client.cookies['prgate']}"}


def test_everybody_follows_what_they_may_read(site: Site, url: str) -> None:
    sessions = site.service.sessions
    stranger = Follower(url)
    reader = Follower(url, cookie(site, "reader-1"))
    one = Follower(url, cookie(site, "reader-1"), repo=NAME.upper(), number=2)
    happen(sessions, site.repo_id, 1)
    happen(sessions, site.repo_id, 2)
    happen(sessions, 5, 7)
    assert [(item["repo_id"], item["number"]) for item in reader.items(3)] == [
        (site.repo_id, 1),
        (site.repo_id, 2),
        (5, 7),
    ]
    assert [item["number"] for item in one.items(1)] == [2]
    assert [item["repo_id"] for item in stranger.items(1)] == [5]
    for stream in (stranger, reader, one):
        stream.close()


def test_a_message_says_what_changed_and_nothing_of_what_it_is(site: Site, url: str) -> None:
    follower = Follower(url)
    with site.service.sessions.begin() as session:
        session.add(Event(at=datetime.now(UTC), kind="ci", repo_id=5, number=7, data={"log": "canary"}))
    fields = follower.messages.get(timeout=30)
    assert fields["event"] == "changed"
    assert "canary" not in fields["data"]
    follower.close()


def test_a_stranger_cannot_follow_a_private_repository(site: Site, url: str) -> None:
    assert Follower(url, repo=NAME).status == 404
    assert Follower(url, repo="no/such").status == 404
    assert httpx.get(f"{url}/events?number=-1").status_code == 422


def test_who_comes_back_misses_nothing_and_sees_nothing_twice(site: Site, url: str) -> None:
    sessions = site.service.sessions
    seen: list[int] = []
    told: list[int] = []
    last = ""
    for _ in range(4):
        follower = Follower(url, {"Last-Event-ID": last} if last else {})
        told += [happen(sessions, 5, number) for number in (1, 2, 3)]
        seen += [item["id"] for item in follower.items(3)]
        last = follower.last_id
        follower.close()
        told += [happen(sessions, 5, number) for number in (4, 5)]  # nobody listens
        back = Follower(url, {"Last-Event-ID": last})
        seen += [item["id"] for item in back.items(2)]
        last = back.last_id
        back.close()
    assert seen == told


def test_a_page_follows_from_the_moment_it_was_made(site: Site, url: str) -> None:
    made_s = int(time.time())
    between = happen(site.service.sessions, 5)
    follower = Follower(url, since=made_s)
    assert between in [item["id"] for item in follower.items(1)]
    follower.close()


def test_a_long_absence_is_caught_up_from_the_table(site: Site, url: str) -> None:
    first = happen(site.service.sessions, 5)
    with site.service.sessions.begin() as session:
        more = [Event(at=datetime.now(UTC), kind="ci", repo_id=5, number=1, data={}) for _ in range(1_200)]
        session.add_all(more)
    follower = Follower(url, {"Last-Event-ID": str(first)})
    assert len({item["id"] for item in follower.items(1_200)}) == 1_200
    follower.close()


def test_an_id_that_is_none_begins_now(site: Site, url: str) -> None:
    for wrong in ("-1", "x", "9" * 30, "99999999"):
        follower = Follower(url, {"Last-Event-ID": wrong})
        assert follower.status == 200
        number = happen(site.service.sessions, 5)
        assert number in [item["id"] for item in follower.items(1)]
        follower.close()


def test_only_so_many_streams_are_open_and_a_closed_one_makes_room(site: Site, url: str) -> None:
    live = site.service.live
    live.most_streams = 2
    first, second = Follower(url), Follower(url)
    wait_until(lambda: live.streams == 2)
    assert httpx.get(f"{url}/events").status_code == 503
    assert "prgate_live_streams 2.0" in httpx.get(f"{url}/metrics").text
    first.close()
    wait_until(lambda: live.streams == 1)
    second.close()


def test_a_quiet_stream_beats(site: Site, url: str) -> None:
    with httpx.stream("GET", f"{url}/events", timeout=30) as answer:
        lines = answer.iter_lines()
        assert any(line.startswith(": ") for line, _ in zip(lines, range(200), strict=False))


def test_a_stream_ends_promptly_with_the_server(site: Site) -> None:
    with served(site.app) as (address, server):
        follower = Follower(address)
        began_s = time.monotonic()
        server.should_exit = True
        assert follower.ended.wait(20)
    assert time.monotonic() - began_s < 20  # the drain's own limit is longer


def test_a_permission_that_is_taken_away_ends_what_is_seen(site: Site, url: str) -> None:
    follower = Follower(url, cookie(site, "reader-1"), repo=NAME)
    happen(site.service.sessions, site.repo_id)
    follower.items(1)
    user = site.github.state.user("reader-1")
    user.permission = "none"
    try:
        with site.service.sessions.begin() as session:
            session.execute(delete(Permission))
        again = Follower(url, cookie(site, "reader-1"), repo=NAME)
        assert again.status == 404
    finally:
        user.permission = "read"
    follower.close()


def told(number: int) -> Told:
    return Told(number, "ci", 1, 1, datetime.now(UTC))


@given(st.sets(st.integers(11, 40), min_size=1), st.booleans())
def test_nothing_behind_a_gap_is_told_before_its_time(ids: set[int], gap_over: bool) -> None:
    found = [told(number) for number in sorted(ids)]
    good = [one.id for one in settled(found, 10, gap_over)]
    assert good == sorted(ids)[: len(good)]
    assert good == list(range(good[0], good[0] + len(good))) if good else True
    assert good or not gap_over
    if not gap_over and good:
        assert good[0] == 11


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running() as server:
        yield server


def test_a_change_that_commits_late_is_not_missed(postgres: Postgres, site: Site) -> None:
    """On PostgreSQL a lower id may become visible after a higher one."""
    engine = open_engine(postgres.new_database())
    Base.metadata.create_all(engine)
    sessions = open_sessions(engine)
    site.service.live.sessions = sessions
    happen(sessions, 5, 1)
    with served(site.app) as (url, _):
        follower = Follower(url)
        with sessions() as slow:
            late = Event(at=datetime.now(UTC), kind="ci", repo_id=5, number=2, data={})
            slow.add(late)
            slow.flush()
            early = happen(sessions, 5, 3)
            assert late.id < early
            time.sleep(0.3)  # the reader looks at the gap some times; it must keep waiting
            slow.commit()
        ids = [item["id"] for item in follower.items(3)][-2:]
        assert ids == [late.id, early]
        with sessions() as lost:
            lost.add(Event(at=datetime.now(UTC), kind="ci", repo_id=5, number=4, data={}))
            lost.flush()
            lost.rollback()
        behind = happen(sessions, 5, 5)
        assert [item["id"] for item in follower.items(1, GAP_S + 30)] == [behind]
        follower.close()
    engine.dispose()
