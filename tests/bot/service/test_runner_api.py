"""The runner lane over real HTTP, with the real worker's client: one run, one worker, one attempt."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete, select, update

from bot import runs
from bot.db.models import Event, Job, Repository, Run, RunBlock, RunState
from perf_runner.client import RefusedError, RunLostError, ServiceClient
from perf_runner.models import Arm, Block, Machine, Sample
from perf_runner.plan import Progress
from perf_runner.protocol import Beat, Offer, Report, RunSpec, StoredBlock, make_token
from tests.bot.service.world import LANE_KEY, PROGRAM, REPOSITORY, ROOT, SERVICE_KEY, World, wait_until

MACHINE = Machine(host_class="test")
QUEUE = "runner.test"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def source(standing: World) -> tuple[str, str]:
    """A repository of two commits that the service fetches from; the head is on a pull request's ref."""
    folder = standing.folder / "git" / f"{REPOSITORY['full_name']}.git"
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    shas = []
    for text in ("base", "head"):
        (folder / "file.txt").write_text(text)
        git(folder, "add", "."), git(folder, "commit", "--quiet", "-m", text)
        shas.append(git(folder, "rev-parse", "HEAD"))
    git(folder, "update-ref", "refs/pull/1/head", shas[1])
    git(folder, "reset", "--quiet", "--hard", shas[0])
    return shas[0], shas[1]


@pytest.fixture
def run_id(standing: World, source: tuple[str, str]) -> str:
    """A run that waits."""
    base, head = source
    run = Run(
        id=str(uuid.uuid4()), repo_id=REPOSITORY["id"], number=301, head_sha=head, base_sha=base,
        kind="experiment", queue=QUEUE, requested_at=datetime.now(UTC), dedupe_key=f"run:{head}",
        spec={"arms": [{"name": "base", "sha": base}, {"name": "head", "sha": head}], "cases": ["short"]},
    )  # fmt: skip
    with standing.sessions.begin() as session:
        session.execute(delete(Run))
        session.execute(delete(Job).where(Job.number == 301))
        session.merge(Repository(**REPOSITORY))
        session.add(run)
    return run.id


@pytest.fixture
def client(standing: World) -> Iterator[ServiceClient]:
    with worker(standing, "worker-1") as made:
        yield made


def worker(world: World, name: str, key: str = LANE_KEY) -> ServiceClient:
    return ServiceClient(f"http://127.0.0.1:{world.port}", key, name, pause_s=0.01)


def polled(client: ServiceClient) -> Offer:
    offer = client.poll((QUEUE,), MACHINE)
    assert offer is not None
    return offer


def row(world: World, run_id: str) -> Run:
    with world.sessions() as session:
        return session.get_one(Run, run_id)


def block(number: int) -> StoredBlock:
    samples = (Sample(seconds=1.0 + number / 100), Sample(seconds=1.1))
    return StoredBlock(case="short", block=Block(arms={"base": samples, "head": samples}, number=number))


def test_a_run_is_polled_claimed_beaten_and_reported(
    standing: World, client: ServiceClient, run_id: str
) -> None:
    offer = polled(client)
    spec = client.claim(offer, MACHINE)
    assert isinstance(spec, RunSpec)
    assert (spec.run_id, spec.attempt, spec.repo_full_name, spec.cases) == (
        run_id,
        1,
        "acme/engine",
        ("short",),
    )
    assert spec.arms[1] == Arm(name="head", sha=row(standing, run_id).head_sha)
    assert not spec.allow_unsandboxed
    progress = Progress(case="short", blocks_done=2, blocks_max=10, runs_done=8, elapsed_s=3.0)
    beat = Beat(worker="worker-1", attempt=1, progress=progress, blocks=(block(0), block(1)))
    assert not client.beat(offer, beat).cancel
    assert not client.beat(offer, beat).cancel  # the same blocks again change nothing
    client.report(offer, Report(worker="worker-1", attempt=1, outcome="done", machine=MACHINE))

    run = row(standing, run_id)
    assert (run.state, run.dedupe_key, run.progress["blocks_done"]) == (RunState.DONE, None, 2)
    assert run.result is not None
    assert run.result["outcome"] == "done"
    wait_until(lambda: {job.verb for job in standing.jobs(301)} == {"perf", "triage"})
    with standing.sessions() as session:
        assert session.scalars(select(RunBlock.n).where(RunBlock.run_id == run_id)).all() == [0, 1]
        states = [
            event.data.get("state") for event in session.scalars(select(Event)) if event.data["run"] == run_id
        ]
    assert (states[0], states[-1]) == ("running", "done")


def test_of_many_workers_one_gets_the_run(standing: World, client: ServiceClient, run_id: str) -> None:
    offer = polled(client)

    def claim(number: int) -> bool:
        with worker(standing, f"worker-{number}") as other:
            try:
                other.claim(offer, MACHINE)
            except RunLostError:
                return False
            return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, range(8))) == 1
    assert client.poll((QUEUE,), MACHINE) is None


def test_the_bundle_holds_both_arms_also_where_the_head_is_no_branch(
    client: ServiceClient, run_id: str, source: tuple[str, str], tmp_path: Path
) -> None:
    offer = polled(client)
    with pytest.raises(RunLostError):
        client.bundle(offer, tmp_path / "early.bundle")  # only who claimed it may have the source
    client.claim(offer, MACHINE)
    client.bundle(offer, tmp_path / "source.bundle")
    git(tmp_path, "init", "--quiet", "--bare", "copy.git")
    git(tmp_path / "copy.git", "fetch", "--quiet", "../source.bundle", "+refs/*:refs/bundle/*")
    for sha, text in zip(source, ("base", "head"), strict=True):
        assert git(tmp_path / "copy.git", "show", f"{sha}:file.txt") == text


def test_a_lost_worker_is_replaced_and_what_it_measured_is_kept(
    standing: World, client: ServiceClient, run_id: str
) -> None:
    first = polled(client)
    client.claim(first, MACHINE)
    client.beat(first, Beat(worker="worker-1", attempt=1, blocks=(block(0),)))
    lose_lease(standing, run_id)
    wait_until(lambda: row(standing, run_id).state is RunState.QUEUED)
    for refused in (
        lambda: client.beat(first, Beat(worker="worker-1", attempt=1)),
        lambda: client.report(first, Report(worker="worker-1", attempt=1, outcome="done")),
        lambda: client.claim(first, MACHINE),
    ):
        with pytest.raises(RunLostError):
            refused()
    with worker(standing, "worker-2") as other:
        spec = other.claim(polled(other), MACHINE)
    assert spec.attempt == 2
    assert [stored.number for stored in spec.blocks["short"]] == [0]


def lose_lease(world: World, run_id: str) -> None:
    with world.sessions.begin() as session:
        past = datetime.now(UTC) - timedelta(seconds=1)
        session.execute(update(Run).where(Run.id == run_id).values(lease_until=past))


def test_a_run_that_loses_every_worker_could_not_be_measured(
    standing: World, client: ServiceClient, run_id: str
) -> None:
    for attempt in range(1, 4):
        wait_until(lambda: row(standing, run_id).state is RunState.QUEUED)
        assert client.claim(polled(client), MACHINE).attempt == attempt
        lose_lease(standing, run_id)
    wait_until(lambda: row(standing, run_id).state is RunState.FAILED)
    assert "could not measure" in (row(standing, run_id).error or "")


def test_a_run_handed_back_is_offered_again_and_a_canceled_one_ends(
    standing: World, client: ServiceClient, run_id: str
) -> None:
    offer = polled(client)
    client.claim(offer, MACHINE)
    client.report(offer, Report(worker="worker-1", attempt=1, outcome="handed_back"))
    again = polled(client)
    assert client.claim(again, MACHINE).attempt == 2
    with standing.sessions.begin() as session:
        session.execute(update(Run).where(Run.id == run_id).values(cancel_asked=True))
    assert client.beat(again, Beat(worker="worker-1", attempt=2)).cancel
    client.report(again, Report(worker="worker-1", attempt=2, outcome="handed_back"))
    assert row(standing, run_id).state is RunState.CANCELED
    assert client.poll((QUEUE,), MACHINE) is None


def test_wrong_keys_and_tokens_open_nothing(standing: World, client: ServiceClient, run_id: str) -> None:
    with worker(standing, "stranger", key="guess") as stranger, pytest.raises(RefusedError):
        stranger.poll((QUEUE,), MACHINE)
    soon = datetime.now(UTC) + timedelta(hours=1)
    tokens = {
        "another key": make_token("guess", run_id, 1, soon),
        "another run": make_token(SERVICE_KEY, "another-run", 1, soon),
        "expired": make_token(SERVICE_KEY, run_id, 1, datetime.now(UTC) - timedelta(seconds=1)),
        "the lane key": LANE_KEY,
        "nonsense": "x.y.z",
    }
    for what, token in tokens.items():
        with pytest.raises(RefusedError):
            client.claim(Offer(run_id=run_id, token=token), MACHINE)
        assert row(standing, run_id).state is RunState.QUEUED, what
    late = make_token(SERVICE_KEY, run_id, 5, soon)
    with pytest.raises(RunLostError):
        client.claim(Offer(run_id=run_id, token=late), MACHINE)


HOSTILE = [
    (b"{", "no JSON"),
    (b"[" * 100_000, "nested"),
    (b'{"worker": "w", "attempt": 1, "outcome": "done", "surprise": 1}', "an unknown key"),
    (b'{"worker": "w", "attempt": 1, "outcome": "won"}', "an unknown outcome"),
    (
        b'{"worker": "w", "attempt": 1, "outcome": "done", "machine": {"host_class": "x", "memory_gb": NaN}}',
        "NaN",
    ),
    (
        b'{"worker": "w", "attempt": 1, "outcome": "done", "error": "' + b"x" * 3_000 + b'"}',
        "too long a text",
    ),
    (b" " * (16 * 1024**2 + 1), "too large"),
]


@pytest.mark.parametrize("body", [case[0] for case in HOSTILE], ids=[case[1] for case in HOSTILE])
def test_a_hostile_report_is_refused_and_the_run_goes_on(
    standing: World, client: ServiceClient, run_id: str, body: bytes
) -> None:
    offer = polled(client)
    client.claim(offer, MACHINE)
    headers = {"Authorization": f"Bearer {offer.token}"}
    answer = standing.http.post(f"/runner/runs/{run_id}/report", content=body, headers=headers)
    assert answer.status_code in (400, 413)
    assert "\n" not in answer.json()["error"]
    assert row(standing, run_id).state is RunState.RUNNING


def test_hostile_text_in_a_report_is_kept_as_data(
    standing: World, client: ServiceClient, run_id: str
) -> None:
    offer = polled(client)
    client.claim(offer, MACHINE)
    body = b'{"worker": "w", "attempt": 1, "outcome": "failed", "error": "nul \\u0000 and @everyone"}'
    headers = {"Authorization": f"Bearer {offer.token}"}
    assert (
        standing.http.post(f"/runner/runs/{run_id}/report", content=body, headers=headers).status_code == 204
    )
    assert row(standing, run_id).error == "nul \ufffd and @everyone"


def test_a_run_that_waits_is_rung_for(standing: World, run_id: str) -> None:
    wait_until(lambda: row(standing, run_id).sent_at is not None)
    before = row(standing, run_id).sent_at
    time.sleep(1.5)
    assert row(standing, run_id).sent_at == before
    assert runs.RING_AGAIN_S > 60


def test_the_doorbell_brings_a_run_to_a_real_worker_of_the_lane(
    standing: World, source: tuple[str, str], run_id: str, tmp_path: Path
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    change(standing, queue="runner.bell", not_before=later)  # the lane's first question finds nothing
    told = {
        "PRGATE_SERVICE_URL": f"http://127.0.0.1:{standing.port}",
        "PRGATE_LANE_KEY": LANE_KEY,
        "PRGATE_LANE_QUEUES": "runner.bell",
        "PRGATE_BROKER_URL": standing.redis.url,
        "PRGATE_LANE_POLL_S": "600",
    }
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **told}
    written = tmp_path / "lane.log"
    command = [sys.executable, "-c", PROGRAM, "worker", "--lane", "gpu"]
    with written.open("wb") as log:
        lane = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        wait_until(lambda: ".> runner.bell" in written.read_text(), what="for the lane's worker")
        change(standing, not_before=None, sent_at=None)
        wait_until(
            lambda: row(standing, run_id).finished_at, what=f"for the run:\n{written.read_text()[-2000:]}"
        )
        assert row(standing, run_id).attempt == 1
        assert row(standing, run_id).machine is not None
    finally:
        lane.terminate()
        lane.wait(timeout=20)


def change(world: World, **values: object) -> None:
    with world.sessions.begin() as session:
        session.execute(update(Run).values(**values))
