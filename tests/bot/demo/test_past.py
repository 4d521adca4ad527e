"""The past that the demo remembers: it makes no page empty that could be alive, and comes once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select
from starlette.testclient import TestClient

from bot.db.engine import open_engine, open_sessions
from bot.db.migrate import upgrade
from bot.db.models import Decision, Job, Override, Repository
from bot.db.nightly import Alarm, Episode, Nightly
from bot.demo.past import remember_past
from bot.demo.world import EmbeddedWorld
from tests.bot.dashboard.conftest import pages_over
from tests.e2e.conftest import free_ports


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedWorld:
    """A world that is not started: its history and its store are there."""
    made = EmbeddedWorld(tmp_path_factory.mktemp("world"), free_ports())
    engine = open_engine(store_of(made.folder))
    upgrade(engine)
    with open_sessions(engine).begin() as session:
        session.add(Repository(id=1, full_name=made.recording.repository))
    engine.dispose()
    remember_past(made)
    return made


def store_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'data' / 'prgate.db'}"


@pytest.fixture
def client(world: EmbeddedWorld) -> Iterator[TestClient]:
    engine = open_engine(store_of(world.folder))
    with TestClient(pages_over(engine)) as client:
        yield client
    engine.dispose()


def counts(world: EmbeddedWorld) -> list[int]:
    engine = open_engine(store_of(world.folder))
    tables = (Nightly, Alarm, Episode, Decision, Override, Job)
    with open_sessions(engine)() as session:
        found = [session.scalars(select(func.count()).select_from(table)).one() for table in tables]
    engine.dispose()
    return found


def test_the_nights_show_the_culprits_merge(world: EmbeddedWorld, client: TestClient) -> None:
    page = client.get("/perf.json").json()
    assert len(page["items"]) == 3
    assert all(item["change"]["tone"] == "bad" for item in page["items"])
    assert [one["first_night"] for one in page["episodes"]] == ["2026-09-16"]
    assert page["episodes"][0]["issue_url"].endswith(f"/issues/{world.recording.issue.number}")
    series = client.get("/perf/series/1.json").json()
    assert [one["night"] for one in series["points"]] == ["2026-09-16"]
    history = world.target.history
    shas = {one["night"]: one["sha"] for one in series["items"]}
    culprit = history.index(world.target.culprit)
    assert history.index(shas["2026-09-15"]) < culprit <= history.index(shas["2026-09-16"])
    assert len(client.get("/perf/compare.json").json()["commits"]) == 14


def test_maintainers_have_spoken(client: TestClient) -> None:
    page = client.get("/accuracy.json").json()
    assert (page["words"], page["judged"]) == (2, 2)
    assert [one["number"] for one in page["items"]] == [7702]
    assert client.get("/queue.json?state=merged").json()["items"]
    assert client.get("/queue.json").json()["items"] == []


def test_it_comes_once_and_asks_for_no_work(world: EmbeddedWorld) -> None:
    before = counts(world)
    assert before[-1] == 0
    remember_past(world)
    assert counts(world) == before
