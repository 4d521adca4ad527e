"""A delivery's way through real processes: accepted once, done once, whatever is killed meanwhile."""

import contextlib
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


def opened(number: int, subject: str = "") -> dict[str, object]:
    return {"action": "opened", "number": number, "subject": subject}


def test_a_signed_delivery_becomes_jobs_that_a_worker_does(world: World) -> None:
    world.start_web()
    world.start_worker()
    answer = world.post("pull_request", opened(7), guid="guid-1")
    assert (answer.status_code, answer.json()["outcome"]) == (202, "new")
    wait_until(lambda: world.all_ended(2), what=world.log("worker")[-3000:])
    assert [effect["verb"] for effect in world.effects("end")] == ["route", "ci"]
    assert world.deliveries() == {"guid-1": "done"}


def test_a_redelivery_of_a_done_one_does_nothing_and_of_a_failed_one_runs_again(world: World) -> None:
    world.start_web()
    world.start_worker()
    assert world.post("pull_request", opened(1), guid="fine").status_code == 202
    assert world.post("pull_request", opened(2, "fail"), guid="broken").status_code == 202
    wait_until(lambda: world.all_ended(4), what=world.log("worker")[-3000:])
    assert world.deliveries() == {"fine": "done", "broken": "failed"}
    assert Counter(effect["number"] for effect in world.effects("start")) == {1: 2, 2: 6}
    assert "incident" in (world.jobs()[-1].error or "")

    for verb in ("route", "ci"):
        (world.folder / f"flag-{verb}-2").touch()  # whatever was wrong is put right
    assert world.post("pull_request", opened(1), guid="fine").json()["outcome"] == "repeated"
    assert world.post("pull_request", opened(2, "fail"), guid="broken").json()["outcome"] == "revived"
    wait_until(lambda: world.deliveries()["broken"] == "done", what=world.log("worker")[-3000:])
    assert Counter(effect["number"] for effect in world.effects("end")) == {1: 2, 2: 2}


def test_a_wait_costs_no_attempt_and_a_persons_mistake_is_no_failure(world: World) -> None:
    world.start_web()
    world.start_worker()
    world.post("pull_request", opened(1, "later"))
    world.post("issue_comment", {"action": "created", "number": 2, "subject": "refuse"})
    wait_until(lambda: world.all_ended(3), what=world.log("worker")[-3000:])
    by_verb = {job.verb: job for job in world.jobs()}
    assert {job.state for job in world.jobs()} == {JobState.DONE}
    assert by_verb["route"].attempts == 1
    assert "please add a description" in (by_verb["command"].error or "")


def test_events_during_a_run_queue_exactly_one_more_look(make_world: Callable[..., World]) -> None:
    world = make_world(DUMMY_SECONDS="0.6")
    world.start_web()
    world.start_worker(2)
    world.post("pull_request", opened(3))
    wait_until(lambda: world.effects("start"))
    for _ in range(10):
        world.post("pull_request", opened(3))
    wait_until(lambda: world.all_ended(3) and len(world.effects("end")) >= 3)
    time.sleep(0.5)
    assert Counter(effect["verb"] for effect in world.effects("end"))["route"] == 2
    assert len(set(world.deliveries())) == 11
    assert set(world.deliveries().values()) == {"done"}


def test_jobs_of_one_pull_request_never_overlap_though_workers_are_many(
    make_world: Callable[..., World],
) -> None:
    world = make_world(DUMMY_SECONDS="0.05")
    world.start_web()
    world.start_worker(4)
    for n in range(12):
        world.post("issue_comment", {"action": "created", "number": n % 2, "subject": f"comment-{n}"})
    wait_until(lambda: world.all_ended(12), what=world.log("worker")[-3000:])
    for number in (0, 1):
        lines = [line["what"] for line in world.effects() if line["number"] == number]
        assert lines == ["start", "end"] * 6


def test_a_killed_worker_loses_nothing_and_its_job_is_done_by_another(
    make_world: Callable[..., World],
) -> None:
    world = make_world(DUMMY_SECONDS="0.3")
    world.start_web()
    first = world.start_worker()
    for number in range(4):
        world.post("issue_comment", {"action": "created", "number": number, "subject": f"comment-{number}"})
    wait_until(lambda: len(world.effects("end")) == 1 and len(world.effects("start")) == 2)
    world.kill(first)
    killed_at = time.monotonic()
    world.start_worker()
    wait_until(lambda: world.all_ended(4), what=world.log("worker")[-3000:])
    assert time.monotonic() - killed_at < 2 + 30
    assert {job.state for job in world.jobs()} == {JobState.DONE}
    assert Counter(effect["subject"] for effect in world.effects("end")) == {
        f"comment-{n}": 1 for n in range(4)
    }
    assert sorted(job.attempts for job in world.jobs()) == [1, 1, 1, 2]


def test_a_killed_child_of_the_worker_loses_nothing(make_world: Callable[..., World]) -> None:
    world = make_world(DUMMY_SECONDS="0.4")
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
    guids = [f"delivery-{n}" for n in range(60)]
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
    assert done == {(verb, number): 1 for verb in ("route", "ci") for number in range(60)}
    assert world.count(Delivery) == 60


def test_messages_that_the_broker_lost_are_sent_again(world: World, redis: RedisChild) -> None:
    world.start_web()
    for number in range(3):
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


def test_no_secret_is_in_any_log_line(make_world: Callable[..., World]) -> None:
    world = make_world(LOG_LEVEL="DEBUG")
    world.start_web()
    world.start_worker()
    world.post("pull_request", opened(1, "fail"))
    wait_until(lambda: world.all_ended(2), what=world.log("worker")[-3000:])
    written = world.log("web") + world.log("worker")
    assert "job failed" in written
    secrets = [
        value
        for name, value in world.environment.items()
        if "SECRET" in name or "KEY" in name or "TOKEN" in name
    ]
    assert len(secrets) >= 5
    for value in secrets:
        for part in value.split(","):
            assert part not in written
