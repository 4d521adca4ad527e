"""The regular chores: what is past its time goes, what must stay stays, repositories are looked at."""

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Enum, func, select

from bot.db.engine import Sessions
from bot.db.models import (
    Base,
    Decision,
    Delivery,
    DeliveryState,
    Event,
    Job,
    JobState,
    Log,
    Repository,
    Run,
    RunBlock,
)
from bot.leases import take_sweep
from bot.retention import forget_removed, retain
from bot.settings import load_settings
from bot.sweeps import QUICK_LEASE_S, Sweep, Sweeper, ask_again, reconcile, standard_sweeps
from tests.bot.service.test_migrations import sample

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def count(sessions: Sessions, table: type[Base]) -> int:
    with sessions() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_retention_drops_the_old_and_keeps_decisions_and_the_unfinished(sessions: Sessions) -> None:
    long_ago, lately = NOW - timedelta(days=200), NOW - timedelta(days=1)
    with sessions.begin() as session:
        for n, at in enumerate((long_ago, lately)):
            guid = f"d-{n}"
            session.add_all([
                Delivery(guid=guid, event="push", received_at=at, payload=b"x", state=DeliveryState.DONE),
                Job(verb="route", repo_id=1, created_at=at, finished_at=at, state=JobState.DONE),
                Job(verb="route", repo_id=1, created_at=at, finished_at=at, state=JobState.DEAD),
                Job(verb="route", repo_id=1, created_at=at),
                Event(at=at, kind="run"),
                Log(hash=guid, data=b"x", stored_at=at),
                Decision(repo_id=1, number=1, kind="ci", head_sha="a", decided_at=at, value={}),
            ])  # fmt: skip
    assert retain(sessions, load_settings(), NOW) == 5
    left = {table.__name__: count(sessions, table) for table in (Delivery, Job, Event, Log, Decision)}
    assert left == {"Delivery": 1, "Job": 5, "Event": 1, "Log": 1, "Decision": 2}
    with sessions() as session:
        assert session.get_one(Delivery, "d-1").payload == b"x"
    assert retain(sessions, load_settings(), NOW) == 0


def test_a_finished_deliverys_id_goes_when_no_redelivery_can_come(sessions: Sessions) -> None:
    with sessions.begin() as session:
        for guid, days, state in (
            ("bodiless", 40, DeliveryState.DONE),
            ("old", 100, DeliveryState.DONE),
            ("young", 80, DeliveryState.DONE),
            ("failed", 100, DeliveryState.FAILED),
        ):
            at = NOW - timedelta(days=days)
            session.add(Delivery(guid=guid, event="push", received_at=at, payload=b"x", state=state))
    assert retain(sessions, load_settings(), NOW) == 5
    with sessions() as session:
        assert set(session.scalars(select(Delivery.guid))) == {"bodiless", "young", "failed"}
        assert set(session.scalars(select(Delivery.payload))) == {None}


def rows_of(sessions: Sessions, repo_id: int) -> dict[str, int]:
    """Return in which tables a repository has rows, and how many."""
    found = {}
    with sessions() as session:
        for table in Base.metadata.sorted_tables:
            if "repo_id" in table.c:
                found[table.name] = (
                    session.scalar(select(func.count()).where(table.c.repo_id == repo_id)) or 0
                )
        runs = select(Run.id).where(Run.repo_id == repo_id)
        found["run_block"] = session.scalar(select(func.count()).where(RunBlock.run_id.in_(runs))) or 0
    return {name: rows for name, rows in found.items() if rows}


def test_all_rows_and_the_mirror_of_a_repository_go_a_day_after_it_left(
    sessions: Sessions, tmp_path: Path
) -> None:
    mirrors = tmp_path / "mirrors"
    for repo_id, left in ((1, timedelta(days=2)), (2, timedelta(hours=2)), (3, None)):
        fill(sessions, repo_id, NOW - left if left else None)
        (mirrors / f"{repo_id}.git" / "objects").mkdir(parents=True)
    before = rows_of(sessions, 3)
    assert len(before) >= 12
    assert forget_removed(sessions, mirrors, NOW) == 1
    assert rows_of(sessions, 1) == {}
    assert rows_of(sessions, 2) == rows_of(sessions, 3) == before
    with sessions() as session:
        assert set(session.scalars(select(Repository.id))) == {2, 3}
    assert {path.name for path in mirrors.iterdir()} == {"2.git", "3.git"}
    assert forget_removed(sessions, mirrors, NOW) == 0


def fill(sessions: Sessions, repo_id: int, removed_at: datetime | None) -> None:
    """Give a repository rows in every table that speaks of repositories."""
    with sessions.begin() as session:
        session.add(Repository(id=repo_id, full_name=f"a/{repo_id}", removed_at=removed_at))
        for table in Base.metadata.sorted_tables:
            if "repo_id" not in table.c and table.name != "run_block":
                continue
            for n in range(3):
                row = {column.name: value_for(column, repo_id, n) for column in table.columns}
                session.execute(table.insert().values(**row))


def value_for(column: Column[Any], repo_id: int, n: int) -> object:
    """Return a value of the n-th row of a repository: what may be a key is no other row's."""
    if column.name == "repo_id":
        return repo_id
    made = sample(column)
    if isinstance(made, bool) or not isinstance(made, int | str) or isinstance(column.type, Enum):
        return made
    return f"{repo_id}-{n}" if isinstance(made, str) else repo_id * 10 + n


def test_every_repository_that_has_us_is_looked_at_and_each_look_waits_once(sessions: Sessions) -> None:
    with sessions.begin() as session:
        for number, gone in ((1, None), (2, NOW), (3, None)):
            session.add(Repository(id=number, full_name=f"a/{number}", removed_at=gone))
    assert reconcile(sessions) == 2
    assert reconcile(sessions) == 2
    assert ask_again(sessions, load_settings()) == 0  # only an App has a list of deliveries
    assert ask_again(sessions, load_settings({"github_app_id": "1"})) == 1
    with sessions() as session:
        found = session.execute(select(Job.repo_id, Job.verb, Job.subject).order_by(Job.id)).all()
    assert [tuple(job) for job in found] == [
        (1, "expand", "open"),
        (3, "expand", "open"),
        (0, "expand", "redeliver"),
    ]


def test_a_chore_that_fails_is_tried_again_and_stops_no_other(sessions: Sessions) -> None:
    done: list[str] = []

    def fails() -> int:
        done.append("tried")
        raise RuntimeError("the disk is full")

    sweeps = (Sweep("fails", 60, fails), Sweep("works", 60, lambda: 3))
    sweeper = Sweeper(sessions, sweeps, 60)
    assert [sweeper.do(sweep) for sweep in sweeps] == [None, 3]
    assert [sweeper.do(sweep) for sweep in sweeps] == [None, None]
    assert done == ["tried", "tried"]


def test_who_is_killed_at_a_chore_keeps_no_other_from_taking_jobs_back(sessions: Sessions) -> None:
    """It held the chore for minutes, and nobody missed the workers that died meanwhile."""
    quick = [sweep for sweep in standard_sweeps(sessions, load_settings()) if sweep.quick]
    assert {"expired jobs", "expired runs", "failed deliveries"} <= {sweep.name for sweep in quick}
    for sweep in quick:
        assert take_sweep(sessions, sweep.name, "killed", QUICK_LEASE_S, 0)
    other = Sweeper(sessions, quick, 60)
    deadline = time.monotonic() + 30
    missed = {sweep.name for sweep in quick}
    while missed and time.monotonic() < deadline:
        missed -= {sweep.name for sweep in quick if other.do(sweep) is not None}
        time.sleep(0.2)
    assert missed == set()


def test_a_long_chore_keeps_no_quick_one_waiting(sessions: Sessions) -> None:
    done, goes_on = threading.Event(), threading.Event()

    def long() -> int:
        return int(goes_on.wait(60))

    def quick() -> int:
        done.set()
        return 0

    sweeper = Sweeper(sessions, (Sweep("long", 60, long), Sweep("quick", 60, quick, quick=True)), 60)
    sweeper.start()
    try:
        assert done.wait(30)
    finally:
        goes_on.set()
        sweeper.stop()


def test_the_standard_chores_run_on_an_empty_store(sessions: Sessions) -> None:
    settings = load_settings()
    sweeper = Sweeper(sessions, standard_sweeps(sessions, settings), 60)
    assert {sweeper.do(sweep) for sweep in standard_sweeps(sessions, settings)} == {0}
