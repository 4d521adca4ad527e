"""A delivery's way through real processes: accepted once, done once, whatever is killed meanwhile."""

import contextlib
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from redis import Redis

from bot.db.models import Delivery, JobState
from bot.demo.redis_child import RedisChild
from tests.bot.service.world import World, wait_until
from tests.postgres import Postgres


def opened(number: int, subject: str = "") -> dict[str, object]:
    return {"action": "opened", "number": number, "subject": subject}


def test_a_signed_delivery_becomes_jobs_that_a_worker_does(standing: World) -> None:
    answer = standing.post("pull_request", opened(101), guid="guid-1")
    assert (answer.status_code, answer.json()["outcome"]) == (202, "new")
    wait_until(lambda: standing.all_ended(2, 101), what=standing.log("worker")[-3000:])
    assert {effect["verb"] for effect in standing.effects("end", 101)} == {"route", "ci"}
    assert standing.state_of("guid-1") == "done"


def test_a_redelivery_of_a_done_one_does_nothing_and_of_a_failed_one_runs_again(standing: World) -> None:
    assert standing.post("pull_request", opened(102), guid="fine").status_code == 202
    assert standing.post("pull_request", opened(103, "fail"), guid="broken").status_code == 202
    wait_until(lambda: standing.all_ended(2, 102) and standing.all_ended(2, 103))
    assert (standing.state_of("fine"), standing.state_of("broken")) == ("done", "failed")
    assert (len(standing.effects("start", 102)), len(standing.effects("start", 103))) == (2, 6)
    assert "incident" in (standing.jobs(103)[-1].error or "")

    for verb in ("route", "ci"):
        (standing.folder / f"flag-{verb}-103").touch()  # whatever was wrong is put right
    assert standing.post("pull_request", opened(102), guid="fine").json()["outcome"] == "repeated"
    assert standing.post("pull_request", opened(103, "fail"), guid="broken").json()["outcome"] == "revived"
    wait_until(lambda: standing.state_of("broken") == "done", what=standing.log("worker")[-3000:])
    assert (len(standing.effects("end", 102)), len(standing.effects("end", 103))) == (2, 2)


def test_a_wait_costs_no_attempt_and_a_persons_mistake_is_no_failure(standing: World) -> None:
    standing.post("pull_request", opened(104, "later"))
    standing.post("issue_comment", {"action": "created", "number": 105, "subject": "refuse"})
    wait_until(lambda: standing.all_ended(2, 104) and standing.all_ended(1, 105))
    assert [(job.state, job.attempts) for job in standing.jobs(104)] == [(JobState.DONE, 1)] * 2
    (command,) = standing.jobs(105)
    assert (command.state, "please add a description" in (command.error or "")) == (JobState.DONE, True)


def test_an_outage_of_github_costs_no_attempt_however_often_it_is_met(standing: World) -> None:
    standing.post("issue_comment", {"action": "created", "number": 110, "subject": "outage"})
    wait_until(lambda: standing.all_ended(1, 110), limit_s=60)
    (job,) = standing.jobs(110)
    assert (job.state, job.attempts, len(standing.effects("start", 110))) == (JobState.DONE, 1, 3)


def test_events_during_a_run_queue_exactly_one_more_look(standing: World) -> None:
    standing.post("pull_request", opened(106, "slow"), guid="burst-0")
    wait_until(lambda: standing.effects("start", 106))
    for n in range(1, 11):
        standing.post("pull_request", opened(106, "slow"), guid=f"burst-{n}")
    wait_until(lambda: standing.all_ended(3, 106))
    time.sleep(0.3)
    assert Counter(effect["verb"] for effect in standing.effects("end", 106))["route"] == 2
    assert {standing.state_of(f"burst-{n}") for n in range(11)} == {"done"}


def test_jobs_of_one_pull_request_never_overlap_though_workers_are_many(standing: World) -> None:
    for n in range(12):
        number = 107 + n % 2
        standing.post("issue_comment", {"action": "created", "number": number, "subject": f"comment-{n}"})
    wait_until(lambda: standing.all_ended(6, 107) and standing.all_ended(6, 108))
    for number in (107, 108):
        assert [line["what"] for line in standing.effects(number=number)] == ["start", "end"] * 6


def test_no_secret_is_in_any_log_line(standing: World) -> None:
    standing.post("pull_request", opened(109, "fail"))
    wait_until(lambda: standing.all_ended(2, 109))
    written = standing.log("web") + standing.log("worker")
    assert "job failed" in written
    told = standing.environment
    secrets = [
        value for name, value in told.items() if name.endswith(("SECRET", "SECRETS", "KEY", "KEYS", "TOKEN"))
    ]
    assert len(secrets) == 5
    assert [part for value in secrets for part in value.split(",") if part in written] == []
    for line in written.splitlines():
        json.loads(line)


def test_a_killed_worker_loses_nothing_and_its_job_is_done_by_another(
    make_world: Callable[..., World],
) -> None:
    world = make_world(DUMMY_SECONDS="1.5")
    world.start_web()
    first = world.start_worker()
    for number in range(1, 5):
        world.post("issue_comment", {"action": "created", "number": number, "subject": f"comment-{number}"})
    wait_until(lambda: len(world.effects("end")) == 1 and len(world.effects("start")) == 2)
    world.kill(first)
    killed_at = time.monotonic()
    world.start_worker()
    wait_until(lambda: world.all_ended(4), what=world.log("worker")[-3000:])
    assert time.monotonic() - killed_at < 2 + 30
    assert {job.state for job in world.jobs()} == {JobState.DONE}
    assert Counter(effect["subject"] for effect in world.effects("end")) == {
        f"comment-{n}": 1 for n in range(1, 5)
    }
    assert sorted(job.attempts for job in world.jobs()) == [1, 1, 1, 2]


def test_a_killed_child_of_the_worker_loses_nothing(make_world: Callable[..., World]) -> None:
    world = make_world(DUMMY_SECONDS="3")
    world.start_web()
    world.start_worker()
    world.post("issue_comment", {"action": "created", "number": 1, "subject": "comment-1"})
    (started,) = wait_until(lambda: world.effects("start"))
    os.kill(started["pid"], signal.SIGKILL)
    wait_until(lambda: world.all_ended(1), what=world.log("worker")[-3000:])
    assert len(world.effects("end")) == 1
    assert world.jobs()[0].attempts == 2


def test_a_job_that_always_kills_its_worker_is_given_up(make_world: Callable[..., World]) -> None:
    world = make_world(DUMMY_SECONDS="30", LEASE_S="0.6", HEARTBEAT_S="0.2")
    world.start_web()
    world.start_worker()
    world.post("issue_comment", {"action": "created", "number": 1, "subject": "comment-1"}, guid="poison")
    for attempt in range(1, 4):
        starts = wait_until(lambda n=attempt: len(world.effects("start")) >= n and world.effects("start"))
        with contextlib.suppress(ProcessLookupError):
            os.kill(starts[-1]["pid"], signal.SIGKILL)
    wait_until(lambda: world.deliveries() == {"poison": "failed"}, what=world.log("web")[-3000:])
    assert world.jobs()[0].state is JobState.DEAD


def test_a_killed_web_process_forgets_no_accepted_delivery(world: World) -> None:
    """The sender does what GitHub's redelivery does: it sends again what was not answered with 202."""
    world.start_worker(2)
    web = world.start_web()
    guids = [f"delivery-{n}" for n in range(1, 61)]
    accepted: set[str] = set()

    def send(guid: str) -> None:
        number = int(guid.rpartition("-")[2])
        for _ in range(100):
            with contextlib.suppress(httpx.TransportError):
                if world.post("pull_request", opened(number), guid=guid).status_code == 202:
                    accepted.add(guid)
                    return
            time.sleep(0.1)

    with ThreadPoolExecutor(8) as pool:
        sent = [pool.submit(send, guid) for guid in guids]
        wait_until(lambda: len(accepted) >= 10)
        world.kill(web)
        stored = world.deliveries()
        assert accepted <= stored.keys()
        world.start_web()
        for one in sent:
            one.result()
    assert accepted == set(guids)
    wait_until(lambda: world.all_ended(120), limit_s=40, what=world.log("worker")[-3000:])
    done = Counter((effect["verb"], effect["number"]) for effect in world.effects("end"))
    assert done == {(verb, number): 1 for verb in ("route", "ci") for number in range(1, 61)}
    assert world.count(Delivery) == 60


def test_several_web_processes_and_workers_share_one_postgresql(
    make_world: Callable[..., World], postgres: Postgres
) -> None:
    url = postgres.new_database()
    worlds = [make_world(url), make_world(url)]
    for one in worlds:
        one.start_web()
        one.start_worker(2)
    everything = [(n, one) for n in range(1, 41) for one in worlds]  # each delivery goes to both, as twins

    def send(item: tuple[int, World]) -> str:
        number, one = item
        return str(one.post("pull_request", opened(number), guid=f"twin-{number}").json()["outcome"])

    with ThreadPoolExecutor(8) as pool:
        outcomes = Counter(pool.map(send, everything))
    assert outcomes == {"new": 40, "repeated": 40}
    world = worlds[0]
    wait_until(lambda: world.all_ended(80), limit_s=60, what=world.log("worker")[-3000:])
    done = Counter((effect["verb"], effect["number"]) for effect in world.effects("end"))
    assert done == {(verb, number): 1 for verb in ("route", "ci") for number in range(1, 41)}
    assert set(world.deliveries().values()) == {"done"}


def test_messages_that_the_broker_lost_are_sent_again(world: World, redis: RedisChild) -> None:
    world.start_web()
    for number in range(1, 4):
        world.post("pull_request", opened(number))
    wait_until(lambda: all(job.sent_at for job in world.jobs()))
    with Redis.from_url(redis.redis_url) as client:
        client.flushall()
    world.start_worker()
    wait_until(lambda: world.all_ended(6), what=world.log("web")[-3000:])


def test_deliveries_are_taken_while_redis_is_down_and_done_when_it_is_back(
    tmp_path: Path, make_world: Callable[..., World]
) -> None:
    own = RedisChild(tmp_path / "redis").start()
    try:
        world = make_world()
        world.redis = own
        world.start_web()
        own.kill()
        assert world.post("pull_request", opened(1)).status_code == 202
        ready = world.http.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        own.start()
        world.start_worker()
        wait_until(lambda: world.all_ended(2), limit_s=40, what=world.log("web")[-3000:])
    finally:
        own.stop()


@pytest.mark.parametrize("role", ["worker", "web"])
def test_sigterm_lets_the_work_in_hand_finish(make_world: Callable[..., World], role: str) -> None:
    world = make_world(DUMMY_SECONDS="0.8")
    processes = {"web": world.start_web(), "worker": world.start_worker()}
    world.post("issue_comment", {"action": "created", "number": 1, "subject": "comment-1"})
    wait_until(lambda: world.effects("start"))
    processes[role].terminate()
    assert processes[role].wait(timeout=20) == 0
    if role == "worker":
        assert len(world.effects("end")) == 1
        assert world.jobs()[0].state is JobState.DONE
    else:
        assert "service stopped" in world.log("web")
