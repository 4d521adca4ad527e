"""Owners read from a real mirror, workers as they show themselves, verdicts against maintainers' words."""

import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, update
from starlette.testclient import TestClient

from bot import standing, store
from bot.actions import SetOverride, Target
from bot.dashboard.trees import READ_AGAIN_S, Trees
from bot.db.engine import Sessions
from bot.db.models import Repository, Run, RunState
from bot.db.standing import LaneWorker
from bot.mirror import Source
from perf_runner.models import Machine
from tests.bot.dashboard.conftest import pages_over
from tests.bot.dashboard.test_queue import A, B, decide, look

NOW = datetime.now(UTC)
PAGE = """---
owners: ["@one-person"]
primary_code_paths: ["engine/**"]
---
# Engine
"""


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with an owner of one module, a dead rule, and a file that nobody owns."""
    folder = tmp_path / "origin"
    files = {
        "docs/design/module/engine.md": PAGE,
        "CODEOWNERS": "/engine/ @other-person\n/gone/ @somebody\n",
        "engine/a.py": "",
        "engine/b.py": "",
        "stray.txt": "",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "start")
    return folder


@pytest.fixture
def trees(tmp_path: Path, origin: Path) -> Trees:
    return Trees(tmp_path / "mirrors", lambda repo_id: Source(repo_id, str(origin)))


@pytest.fixture
def owners(engine: Engine, sessions: Sessions, trees: Trees) -> Iterator[TestClient]:
    with sessions.begin() as session:
        session.add(Repository(id=1, full_name="acme/engine"))
    with TestClient(pages_over(engine, trees=trees)) as client:
        yield client


def settled() -> None:
    """Wait until no report is being made."""
    for thread in threading.enumerate():
        if thread.name == "ownership report":
            thread.join(60)


def report(client: TestClient) -> dict[str, object]:
    client.get("/owners.json")
    settled()
    found: dict[str, object] = client.get("/owners.json").json()
    return found


def test_the_page_reports_on_the_tip_of_the_base_branch(owners: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        look(session, 1)
        decide(session, 1, "route", {"ask": ["One-Person", "reviewer-2"]})
    page = report(owners)
    assert page["coverage"] == {
        "files": 5,
        "one_module": 3,
        "several_modules": 0,
        "no_module": 2,
        "no_owner": 2,
    }
    assert [one["page"] for one in page["bus_factor_one"]] == ["docs/design/module/engine.md"]  # type: ignore[attr-defined]
    assert [one["path"] for one in page["drift"]] == ["engine/**"]  # type: ignore[attr-defined]
    assert page["dead_rules"] == [{"line": 2, "pattern": "/gone/"}]
    people = {one["login"]: one for one in page["items"]}  # type: ignore[attr-defined]
    assert people["one-person"] == {"login": "one-person", "open_requests": 1, "modules": 1, "files": 3}
    assert people["reviewer-2"]["open_requests"] == 1
    html = owners.get("/owners").text
    for said in ("Bus factor one", "Drift", "Dead rules", "line 2"):
        assert said in html


def test_a_push_is_seen_when_the_report_has_aged(owners: TestClient, trees: Trees, origin: Path) -> None:
    before = report(owners)
    (origin / "CODEOWNERS").write_text("/engine/ @one-person\n")
    git(origin, "commit", "-qam", "Name the owner")
    assert report(owners)["sha"] == before["sha"]
    trees._asked_at_s[1] -= READ_AGAIN_S + 1  # ten minutes later
    after = report(owners)
    assert after["sha"] != before["sha"]
    assert after["drift"] == []
    assert after["dead_rules"] == []


def test_a_repository_that_cannot_be_fetched_is_said_in_words(
    engine: Engine, sessions: Sessions, tmp_path: Path
) -> None:
    with sessions.begin() as session:
        session.add(Repository(id=1, full_name="acme/engine"))
    gone = Trees(tmp_path / "mirrors", lambda repo_id: Source(repo_id, str(tmp_path / "nowhere")))
    with TestClient(pages_over(engine, trees=gone)) as client:
        assert "no branch is to be had" in str(report(client)["error"])
        assert "could not be read" in client.get("/owners").text


def machine(noise: float | None = None, **changes: object) -> Machine:
    return Machine.model_validate(
        {"host_class": "1x-h200", "gpu_name": "H200", "gpu_count": 1, "noise_probe_pct": noise, **changes}
    )


def run(name: str, state: RunState, minutes: int | None = None, **changes: object) -> Run:
    started = NOW - timedelta(hours=1)
    values = {
        "id": name,
        "repo_id": 1,
        "number": 1,
        "head_sha": A,
        "base_sha": B,
        "kind": "experiment",
        "queue": "runner.h200",
        "spec": {"cases": ["case one"]},
        "state": state,
        "requested_by": "maintainer-1",
        "requested_at": started,
        "started_at": started,
        "finished_at": started + timedelta(minutes=minutes) if minutes else None,
    }
    return Run(**{**values, **changes})


def test_a_worker_shows_itself_with_its_machine_and_noise(client: TestClient, sessions: Sessions) -> None:
    standing.see_worker(sessions, "gpu-1", machine(noise=1.5), ("runner.h200",))
    standing.see_worker(sessions, "gpu-1", machine(notes=("The governor is powersave.",)), ("runner.h200",))
    page = client.get("/workers.json").json()
    assert [one["name"] for one in page["items"]] == ["gpu-1"]
    worker = page["items"][0]
    assert worker["state"] == {"text": "waits", "tone": "good"}
    assert worker["noise_pct"] == 1.5
    assert worker["notes"] == ["The governor is powersave."]
    assert [lane["name"] for lane in page["lanes"]] == ["runner.h200"]


def test_a_worker_that_measures_is_heard_by_its_beats(client: TestClient, sessions: Sessions) -> None:
    standing.see_worker(sessions, "gpu-1", machine(), ("runner.h200",))
    standing.see_worker(sessions, "gpu-1", machine(), None, "run-1")
    assert client.get("/workers.json").json()["items"][0]["run"] == "run-1"
    assert standing.hear_worker(sessions, "gpu-1", "run-1")
    assert not standing.hear_worker(sessions, "stranger", "run-1")
    standing.hear_worker(sessions, "gpu-1", None)
    worker = client.get("/workers.json").json()["items"][0]
    assert (worker["run"], worker["queues"]) == (None, ["runner.h200"])


@pytest.mark.parametrize(("hours", "said"), [(1, "silent for 1 h"), (30, "silent for 1 d"), (72, None)])
def test_a_silent_worker_is_said_to_be_and_forgotten(
    client: TestClient, sessions: Sessions, hours: int, said: str | None
) -> None:
    standing.see_worker(sessions, "gpu-1", machine(), ("runner.h200",))
    with sessions.begin() as session:
        session.execute(update(LaneWorker).values(seen_at=NOW - timedelta(hours=hours)))
    states = [one["state"]["text"] for one in client.get("/workers.json").json()["items"]]
    assert states == ([said] if said else [])


def test_the_lane_says_when_it_will_be_done(client: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        session.add(Repository(id=1, full_name="acme/engine"))
        session.add_all([run(f"old-{n}", RunState.DONE, minutes=10) for n in range(3)])
        session.add_all([run(f"new-{n}", RunState.QUEUED) for n in range(3)])
        session.add(run("now", RunState.RUNNING, progress={"case": "c", "blocks_done": 1, "blocks_max": 9}))
    lane = client.get("/workers.json").json()["lanes"][0]
    assert (lane["waiting"], lane["running"], lane["median_run_s"]) == (3, 1, 600)
    assert lane["eta"] == "no worker is there"
    for name in ("gpu-1", "gpu-2"):
        standing.see_worker(sessions, name, machine(), ("runner.h200",))
    page = client.get("/workers.json").json()
    assert page["lanes"][0]["eta"] == "about 20 min"
    assert page["runs"][0] == {
        "id": "now",
        "place": "acme/engine#1",
        "queue": "runner.h200",
        "state": "running",
        "what": "experiment case one",
        "requested_by": "maintainer-1",
        "requested_at": page["runs"][0]["requested_at"],
        "progress": "c: 1 of at most 9 blocks done",
    }


def test_a_private_repositorys_run_is_counted_and_not_named(client: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        session.add(Repository(id=1, full_name="acme/secret", private=True))
        session.add(run("hidden", RunState.QUEUED))
    page = client.get("/workers.json").json()
    assert page["lanes"][0]["waiting"] == 1
    assert (page["runs"][0]["id"], page["runs"][0]["place"]) == (None, "a private repository")
    text = client.get("/workers").text + client.get("/workers.json").text
    assert not any(word in text for word in ("secret", "maintainer-1", "case one", "hidden"))


def ci(ruling: str, job: str) -> dict[str, object]:
    group = {
        "ruling": ruling,
        "kind": "flaky",
        "jobs": [job],
        "evidence": [{"says": "It passed there, too."}],
    }
    return {"overall": ruling, "groups": [group]}


def test_verdicts_are_held_against_the_words_that_followed(client: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        session.add(Repository(id=1, full_name="acme/engine"))
        for number, ruling in ((1, "unrelated"), (2, "unrelated"), (3, "regression"), (4, "unknown")):
            look(session, number)
            decide(session, number, "ci", ci(ruling, "unit"))
    assert "No maintainer has spoken" in client.get("/accuracy").text
    words = ((1, "unrelated"), (2, "regression"), (3, "regression"), (4, "unrelated"), (5, "unrelated"))
    with sessions.begin() as session:
        for number, verdict in words:
            said = SetOverride("unit", verdict, "owner-1", "I looked")  # type: ignore[arg-type]
            store.add_override(session, Target(1, "acme/engine", number, A), said, NOW)
    page = client.get("/accuracy.json").json()
    assert (page["words"], page["judged"], page["unjudged"]) == (5, 4, 1)
    scores = {one["verdict"]: one for one in page["scores"]}
    assert (scores["unrelated"]["precision_pct"], scores["unrelated"]["recall_pct"]) == (50.0, 50.0)
    assert (scores["regression"]["precision_pct"], scores["regression"]["recall_pct"]) == (100.0, 50.0)
    assert [(one["number"], one["said"], one["told"]) for one in page["items"]] == [
        (2, "unrelated", "regression")
    ]
    assert "It passed there, too." in client.get("/accuracy").text


def test_a_new_word_is_counted_at_once(client: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        session.add(Repository(id=1, full_name="acme/engine"))
    for number in (1, 2):
        with sessions.begin() as session:
            said = SetOverride("unit", "unrelated", "owner-1", "")
            store.add_override(session, Target(1, "acme/engine", number, A), said, NOW)
        assert client.get("/accuracy.json").json()["words"] == number
