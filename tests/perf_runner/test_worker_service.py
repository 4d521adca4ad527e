"""The lane's worker and the service's own runner API, with nothing between them but HTTP."""

import threading
import time
from datetime import UTC, datetime

import pytest
import uvicorn
from fastapi import FastAPI

from bot.app import refuse
from bot.db.engine import open_engine, open_sessions
from bot.db.models import Base, Repository, Run, RunBlock, RunState
from bot.errors import PayloadRejected
from bot.runner_api import RunnerApi, router
from bot.settings import Settings
from perf_runner.models import CaseResult, Outcome
from perf_runner.settings import LaneSettings
from perf_runner.worker import Lane

LANE_KEY = "lane-key"


@pytest.fixture
def service(tmp_path, toy):
    """The runner API of the service over SQLite; clones come from the toy repository."""
    settings = Settings(
        data_dir=tmp_path / "data",
        database_url=f"sqlite:///{tmp_path / 'service.db'}",
        clone_url=str(toy.folder),
        service_key="service-key",
        lane_keys=LANE_KEY,
        lease_s=2.0,
    )
    engine = open_engine(settings.database)
    Base.metadata.create_all(engine)
    sessions = open_sessions(engine)
    app = FastAPI()
    app.add_exception_handler(PayloadRejected, refuse)
    app.include_router(router(RunnerApi(sessions, settings, lambda repository: None)))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}", sessions
    server.should_exit = True
    thread.join()
    engine.dispose()


def enqueue(sessions, base, head):
    arms = [{"name": "base", "sha": base}, {"name": "head", "sha": head}]
    spec = {"arms": arms, "cases": ["session"], "time_budget_s": 60, "max_blocks": 4}
    now = datetime.now(UTC)
    repository = {"id": 7, "full_name": "acme/toy", "default_branch": "main", "private": False}
    columns = {column.name for column in Repository.__table__.columns}
    run = {
        "id": "run-1",
        "repo_id": 7,
        "number": 3,
        "head_sha": head,
        "base_sha": base,
        "kind": "experiment",
        "queue": "runner.cpu",
        "spec": spec,
        "requested_at": now,
        "progress": {},
    }
    with sessions.begin() as session:
        session.add(Repository(**{name: value for name, value in repository.items() if name in columns}))
        session.add(Run(**run))


def test_a_run_of_the_service_is_measured_and_its_result_stored(toy, service):
    url, sessions = service
    base = toy.git("rev-parse", "HEAD")
    head = toy.slower(1.6)
    enqueue(sessions, base, head)
    lane = Lane(LaneSettings(service_url=url, lane_key=LANE_KEY, worker="worker-1"))
    assert lane.poll_once()
    with sessions() as session:
        run = session.get_one(Run, "run-1")
        assert (run.state, run.attempt, run.error) == (RunState.DONE, 1, None)
        result = CaseResult.model_validate(run.result["results"][0])
        assert result.decision.decision is Outcome.REGRESSION
        assert session.query(RunBlock).count() == len(result.blocks)
        assert run.progress["blocks_done"] >= 1
        assert run.machine["cpu_cores"] >= 1
    assert not lane.poll_once()
