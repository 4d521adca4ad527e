"""Claims, leases and retries on SQLite and on PostgreSQL: of two workers one wins, nothing is forgotten."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from bot import jobs
from bot.actions import Record, Schedule, Target
from bot.apply import keep
from bot.clients import Clients
from bot.db.engine import Sessions
from bot.db.models import Decision, Delivery, DeliveryState, Job, JobState, WriterLease
from bot.db.types import now_plus
from bot.dispatch import JobSpec, LeaseLost, RetryLater
from bot.guarding import Lease
from bot.leases import Heartbeat, finish_sweep, take_sweep
from bot.pacing import Limits, hold, take_turn
from bot.settings import load_settings

LEASE_S = 30.0


def put(sessions: Sessions, *specs: JobSpec) -> list[int]:
    with sessions.begin() as session:
        jobs.enqueue(session, specs)
    with sessions() as session:
        return list(session.scalars(select(Job.id).order_by(Job.id)))


def route(number: int | None = 1, key: str | None = None, at: datetime | None = None) -> JobSpec:
    return JobSpec("route", 1 << 40, number, "", key, at)


def claimed(sessions: Sessions, job_id: int, lease_s: float = LEASE_S) -> jobs.Claim:
    claim = jobs.claim(sessions, job_id, lease_s)
    assert isinstance(claim, jobs.Claim)
    return claim


def state(sessions: Sessions, job_id: int) -> JobState:
    with sessions() as session:
        return session.get_one(Job, job_id).state


def test_of_many_workers_that_want_the_same_jobs_one_gets_each(sessions: Sessions) -> None:
    ids = put(sessions, *(route(number) for number in range(40)))
    won: Counter[int] = Counter()
    barrier = threading.Barrier(6)

    def worker(_: int) -> list[int]:
        barrier.wait()
        return [job_id for job_id in ids if isinstance(jobs.claim(sessions, job_id, LEASE_S), jobs.Claim)]

    with ThreadPoolExecutor(6) as pool:
        for got in pool.map(worker, range(6)):
            won.update(got)
    assert won == Counter(ids)


def test_a_pull_request_has_one_writer_at_a_time(sessions: Sessions) -> None:
    first, second, other = put(sessions, route(1), route(1), route(2))
    claim = claimed(sessions, first)
    assert jobs.claim(sessions, second, LEASE_S) == jobs.Busy(second)
    assert state(sessions, second) is JobState.QUEUED
    claimed(sessions, other)
    assert jobs.finish(sessions, claim) == second
    claimed(sessions, second)


def test_a_dead_writers_lease_does_not_block_for_ever(sessions: Sessions) -> None:
    first, second = put(sessions, route(1), route(1))
    claimed(sessions, first, lease_s=0.05)
    time.sleep(0.1)
    claimed(sessions, second)


def test_a_heartbeat_keeps_the_lease_and_notices_when_it_was_lost(sessions: Sessions) -> None:
    (job_id,) = put(sessions, route())
    claim = claimed(sessions, job_id, lease_s=0.6)
    with Heartbeat(sessions, claim, 0.6, 0.1) as heart:
        time.sleep(1.0)
        assert jobs.expire(sessions, 3) == (0, 0)
        with sessions.begin() as session:
            session.execute(update(Job).values(lease_owner="somebody else"))
        assert heart.lost.wait(5)


def test_a_worker_that_lost_its_lease_changes_nothing_any_more(sessions: Sessions) -> None:
    (job_id,) = put(sessions, route())
    late = claimed(sessions, job_id, lease_s=0.02)
    time.sleep(0.05)
    assert jobs.expire(sessions, 3) == (1, 0)
    current = claimed(sessions, job_id)
    assert not jobs.beat(sessions, late, LEASE_S)
    jobs.bury(sessions, late, "too late")
    jobs.retry(sessions, late, 0, "too late")
    assert state(sessions, job_id) is JobState.RUNNING
    jobs.finish(sessions, current)
    assert state(sessions, job_id) is JobState.DONE


def test_a_frozen_worker_whose_pull_request_another_one_has_is_lost(sessions: Sessions) -> None:
    first, second = put(sessions, route(1), route(1))
    frozen = claimed(sessions, first, lease_s=0.05)
    time.sleep(0.1)
    claimed(sessions, second)
    assert not jobs.beat(sessions, frozen, LEASE_S)
    assert jobs.left_s(sessions, frozen) == 0
    with pytest.raises(LeaseLost):
        Lease(sessions, frozen).left_s()


def test_a_late_heartbeat_keeps_what_nobody_took(sessions: Sessions) -> None:
    (job_id,) = put(sessions, route(1))
    late = claimed(sessions, job_id, lease_s=0.05)
    time.sleep(0.1)
    assert jobs.left_s(sessions, late) == 0
    assert jobs.beat(sessions, late, LEASE_S)
    assert LEASE_S - 5 < jobs.left_s(sessions, late) <= LEASE_S


def test_what_a_worker_would_keep_after_it_lost_its_job_is_not_kept(sessions: Sessions) -> None:
    (job_id,) = put(sessions, route(1))
    late = claimed(sessions, job_id, lease_s=0.05)
    time.sleep(0.1)
    assert jobs.expire(sessions, 3) == (1, 0)
    lost = Clients(sessions, load_settings(), datetime.now(UTC), late.spec, Lease(sessions, late))
    target = Target(late.spec.repo_id, "acme/engine", 1, "a" * 40)
    with pytest.raises(LeaseLost):
        keep([Record("ask", {"count": 1}), Schedule("route")], target, late.spec, lost)
    with sessions() as session:
        assert session.scalars(select(Decision)).all() == []
        assert session.scalars(select(Job.id)).all() == [job_id]


def test_dead_jobs_are_listed_and_run_again(sessions: Sessions) -> None:
    ids = put(sessions, route(1), route(2), route(3))
    for job_id in ids:
        jobs.bury(sessions, claimed(sessions, job_id), "it always fails")
    with sessions.begin() as session:
        assert [job.id for job in jobs.dead(session, 2)] == ids[:0:-1]
        assert [job.id for job in jobs.dead(session, 2, before_id=ids[1])] == ids[:1]
        assert jobs.replay(session, Job.id == ids[0]) == 1
        assert jobs.replay(session, Job.id == ids[0]) == 0
    assert claimed(sessions, ids[0]).attempt == 1
    with sessions() as session:
        assert [job.id for job in jobs.dead(session)] == ids[:0:-1]


def test_all_workers_together_keep_the_pace(sessions: Sessions) -> None:
    limits = Limits(gap_s=0.05, a_minute=12)
    started = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: take_turn(sessions, 7, limits), range(12)))
    assert time.monotonic() - started >= 11 * 0.05
    with pytest.raises(RetryLater) as wait:
        take_turn(sessions, 7, limits)
    assert 30 < (wait.value.at - datetime.now(UTC)).total_seconds() <= 60
    take_turn(sessions, 8, limits)  # another installation has limits of its own


def test_where_github_asks_one_worker_to_wait_all_of_them_do(sessions: Sessions) -> None:
    hold(sessions, 7, 300)
    hold(sessions, 7, 10)
    with pytest.raises(RetryLater) as wait:
        take_turn(sessions, 7, Limits())
    assert 290 < (wait.value.at - datetime.now(UTC)).total_seconds() <= 300


def test_after_its_last_attempt_a_job_is_dead_and_its_delivery_failed(sessions: Sessions) -> None:
    with sessions.begin() as session:
        session.add(
            Delivery(guid="g", event="push", received_at=datetime.now(UTC), state=DeliveryState.RECEIVED)
        )
        jobs.enqueue(session, [route()], "g")
    for expected in ((1, 0), (1, 0), (0, 1)):
        claimed(sessions, 1, lease_s=0.02)
        time.sleep(0.05)
        assert jobs.expire(sessions, 3) == expected
    with sessions() as session:
        assert session.get_one(Delivery, "g").state is DeliveryState.FAILED
        assert "attempt 3" in (session.get_one(Job, 1).error or "")
    with sessions.begin() as session:
        assert jobs.replay(session, Job.delivery_guid == "g") == 1
    jobs.finish(sessions, claimed(sessions, 1))
    with sessions() as session:
        assert session.get_one(Delivery, "g").state is DeliveryState.DONE


def test_looks_coalesce_while_they_wait_and_one_more_is_queued_during_a_run(sessions: Sessions) -> None:
    assert put(sessions, route(key="k"), route(key="k"), route(key="k")) == [1]
    claim = claimed(sessions, 1)
    assert len(put(sessions, route(key="k"), route(key="k"))) == 2
    jobs.finish(sessions, claim)


def test_a_command_is_taken_once_for_ever(sessions: Sessions) -> None:
    command = JobSpec("command", 1, 1, "issue:5", "command:issue:5")
    put(sessions, command)
    jobs.finish(sessions, claimed(sessions, 1))
    assert put(sessions, command) == [1]


def test_an_event_brings_a_scheduled_look_forward_and_never_back(sessions: Sessions) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    put(sessions, route(key="k", at=later))
    assert jobs.claim(sessions, 1, LEASE_S) is None
    put(sessions, route(key="k", at=later + timedelta(hours=1)))
    with sessions() as session:
        assert session.get_one(Job, 1).not_before == later
    put(sessions, route(key="k"))
    put(sessions, route(key="k", at=later))
    claimed(sessions, 1)


def test_waiting_costs_no_attempt_and_a_waiting_look_still_coalesces(sessions: Sessions) -> None:
    put(sessions, route(key="k"))
    jobs.postpone(sessions, claimed(sessions, 1), datetime.now(UTC) + timedelta(hours=1), "pace")
    assert put(sessions, route(key="k", at=datetime.now(UTC) + timedelta(hours=2))) == [1]
    put(sessions, route(key="k"))
    assert claimed(sessions, 1).attempt == 1


def test_a_failed_look_gives_way_to_a_newer_one_that_waits(sessions: Sessions) -> None:
    put(sessions, route(key="k"))
    claim = claimed(sessions, 1)
    put(sessions, route(key="k", at=datetime.now(UTC) + timedelta(hours=1)))
    jobs.retry(sessions, claim, 0.0, "GitHub was away")
    assert state(sessions, 1) is JobState.DONE
    time.sleep(0.02)
    claimed(sessions, 2)


def test_hostile_keys_and_subjects_are_stored(sessions: Sessions) -> None:
    hostile = "nul \x00 surrogate \ud800 " + "x" * 5_000
    put(sessions, JobSpec("expand", 1, None, hostile, f"expand:{hostile}"))
    put(sessions, JobSpec("expand", 1, None, hostile, f"expand:{hostile}"))
    assert claimed(sessions, 1).spec.subject.startswith("nul \ufffd surrogate ?")
    with sessions() as session:
        assert session.scalars(select(Job.id)).all() == [1]


def test_of_two_sweepers_one_does_a_chore_and_none_before_it_is_due(sessions: Sessions) -> None:
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda n: take_sweep(sessions, "chore", f"p{n}", LEASE_S, 60), range(4)))
    assert sum(taken) == 1
    owner = f"p{taken.index(True)}"
    finish_sweep(sessions, "chore", owner, done=True)
    assert not take_sweep(sessions, "chore", "p9", LEASE_S, 60)
    assert take_sweep(sessions, "chore", "p9", LEASE_S, 0)
    finish_sweep(sessions, "chore", "p9", done=False)
    assert take_sweep(sessions, "chore", "p8", LEASE_S, 0)


def test_the_database_clock_agrees_with_ours(sessions: Sessions) -> None:
    with sessions.begin() as session:
        session.add(WriterLease(repo_id=1, number=1, owner="x", until=datetime.now(UTC)))
        ahead = session.scalar(select(WriterLease.until < now_plus(5)))
        behind = session.scalar(select(WriterLease.until > now_plus(-5)))
    assert (ahead, behind) == (True, True)
