"""An upgraded store shows at once what was decided before the upgrade: the migration rolls it up."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData, column, insert, select
from sqlalchemy import table as sa_table
from sqlalchemy.engine import Engine
from starlette.testclient import TestClient

from bot.db.engine import open_engine, open_sessions
from bot.db.migrate import upgrade
from bot.db.models import Decision, Pull, Repository
from bot.db.standing import Asked
from tests.bot.dashboard.conftest import pages_over
from tests.bot.dashboard.filling import REPO, Size, fill, night_sha, signature_of
from tests.postgres import Postgres, running

NOW = datetime(2026, 9, 21, 12, tzinfo=UTC)
A, B = "a" * 40, "b" * 40
BEFORE = "0003"


PATHS = [
    "/queue.json?waiting=reviewers&sort=oldest&limit=5",
    "/queue.json?owner=owner-001",
    "/red.json?text=test_1",
    f"/red/{REPO}/{signature_of(0)}.json",
    "/perf.json",
    "/perf/series/2.json?limit=5",
    f"/perf/compare.json?base={night_sha(2)}&head={night_sha(50)}&limit=2",
    "/perf/run/run-9.json",
    "/workers.json",
    "/accuracy.json",
    "/owners.json",
    f"/pr/{REPO}/7.json",
]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An empty store on each of the two databases."""
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/db.sqlite" if sqlite else request.getfixturevalue("postgres").new_database()
    engine = open_engine(url)
    yield engine
    engine.dispose()


def rows(number: int, state: str = "open") -> dict[str, Any]:
    return {
        "repo_id": 1, "number": number, "title": f"Change {number}", "author": "author-1", "state": state,
        "draft": False, "head_sha": A, "base_sha": B, "base_ref": "main", "labels": [], "created_at": NOW,
        "updated_at": NOW, "opened_by_association": "NONE", "mode": "comment",
    }  # fmt: skip


def decided(number: int, kind: str, value: dict[str, Any], head: str = A) -> dict[str, Any]:
    return {
        "repo_id": 1, "number": number, "kind": kind, "head_sha": head, "decided_at": NOW, "facts_hash": "",
        "value": value, "evidence": [],
    }  # fmt: skip


DECISIONS = [
    decided(1, "priority", {"level": "low", "score": 3}),
    decided(1, "priority", {"level": "high", "score": 60}),
    decided(1, "route", {"ask": ["Owner-1", "owner-2"]}),
    decided(1, "ci", {"overall": "unrelated"}),
    decided(1, "perf", {"decision": "no_regression", "improved": True, "change_pct": -3.0}),
    decided(2, "ci", {"overall": "regression"}, head=B),
    decided(2, "priority", {"level": None, "score": None}),
    decided(3, "route", {"ask": ["owner-1"]}),
]


def old_store(engine: Engine) -> None:
    """Fill a store as the version before had it."""
    upgrade(engine, BEFORE)
    there = MetaData()
    there.reflect(engine, only=["pull"])
    known = there.tables["pull"].columns.keys()
    assert "score" not in known
    table = sa_table("pull", *(column(name, Pull.__table__.c[name].type) for name in known))
    with engine.begin() as connection:
        connection.execute(
            insert(Repository),
            {"id": 1, "full_name": "acme/engine", "default_branch": "main", "private": False},
        )
        for row in (rows(1), rows(2), rows(3, "closed")):
            connection.execute(insert(table).values(row))
        connection.execute(insert(Decision), DECISIONS)


def test_what_was_decided_before_is_in_the_queue_after(store: Engine) -> None:
    old_store(store)
    upgrade(store)
    with open_sessions(store)() as session:
        pulls = {pull.number: pull for pull in session.scalars(select(Pull))}
        asked = sorted(session.execute(select(Asked.number, Asked.login, Asked.name)))
    first, second = pulls[1], pulls[2]
    assert (first.level, first.score, first.ci, first.perf, first.perf_pct) == (
        "high", 60, "unrelated", "improved", -3.0,
    )  # fmt: skip
    assert (second.level, second.score, second.ci, second.perf) == ("", 0, "", "")
    assert [tuple(row) for row in asked] == [(1, "owner-1", "Owner-1"), (1, "owner-2", "owner-2")]


def test_the_pages_are_the_same_on_both_databases(store: Engine) -> None:
    upgrade(store)
    fill(store, Size(pulls=60, failures=400, cases=3, nights=60))
    with TestClient(pages_over(store)) as client:
        for path in PATHS:
            answer = client.get(path)
            assert answer.status_code == 200, path
            token = answer.json().get("next")
            if token:
                following = client.get(f"{path}&after={token}")
                assert following.json()["items"] != answer.json()["items"], path
            html = path.replace(".json", "").replace("/queue", "/")
            assert client.get(html).status_code == 200, html
