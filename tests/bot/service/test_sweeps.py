"""The regular chores: what is past its time goes, what must stay stays, repositories are looked at."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import func, select

from bot.db.engine import Sessions
from bot.db.models import Base, Decision, Delivery, DeliveryState, Event, Job, JobState, Log, Repository
from bot.settings import load_settings
from bot.sweeps import Sweep, Sweeper, reconcile, retain, standard_sweeps

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
    assert retain(sessions, load_settings(), NOW) == 4
    left = {table.__name__: count(sessions, table) for table in (Delivery, Job, Event, Log, Decision)}
    assert left == {"Delivery": 2, "Job": 5, "Event": 1, "Log": 1, "Decision": 2}
    with sessions() as session:
        assert session.get_one(Delivery, "d-0").payload is None
        assert session.get_one(Delivery, "d-1").payload == b"x"
    assert retain(sessions, load_settings(), NOW) == 0


def test_every_repository_that_has_us_is_looked_at_and_each_look_waits_once(sessions: Sessions) -> None:
    with sessions.begin() as session:
        for number, gone in ((1, None), (2, NOW), (3, None)):
            session.add(Repository(id=number, full_name=f"a/{number}", removed_at=gone))
    settings = load_settings()
    assert reconcile(sessions, "open", settings) == 2
    assert reconcile(sessions, "open", settings) == 2
    assert reconcile(sessions, "redeliver", settings) == 0  # only an App has a list of deliveries
    assert reconcile(sessions, "redeliver", load_settings({"github_app_id": "1"})) == 1
    with sessions() as session:
        found = session.execute(select(Job.repo_id, Job.verb, Job.subject).order_by(Job.id)).all()
    assert [tuple(job) for job in found] == [
        (1, "expand", "open"),
        (3, "expand", "open"),
        (1, "expand", "redeliver"),
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


def test_the_standard_chores_run_on_an_empty_store(sessions: Sessions) -> None:
    settings = load_settings()
    sweeper = Sweeper(sessions, standard_sweeps(sessions, settings), 60)
    assert [sweeper.do(sweep) for sweep in standard_sweeps(sessions, settings)] == [0, 0, 0, 0, 0]
