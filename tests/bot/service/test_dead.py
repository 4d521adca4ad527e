"""`prgate dead`: what was given up is listed, and runs again when somebody says so."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from bot.db.engine import Sessions
from bot.db.models import Delivery, DeliveryState, Job, JobState
from tests.bot.service.world import ROOT


def command(database_url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "NO_COLOR": "1", "PRGATE_DATABASE_URL": database_url}
    command = [sys.executable, "-m", "bot", "dead", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def given_up(sessions: Sessions) -> Sessions:
    now = datetime.now(UTC)
    with sessions.begin() as session:
        session.add(Delivery(guid="g", event="push", received_at=now, state=DeliveryState.FAILED))
        for number, state in ((1, JobState.DEAD), (2, JobState.DEAD), (3, JobState.DONE)):
            session.add(
                Job(
                    id=number, verb="route", repo_id=9, number=number, state=state, attempts=3,
                    created_at=now, finished_at=now, error="boom \x1b[31m\nsecond line", delivery_guid="g",
                )
            )  # fmt: skip
    return sessions


def test_dead_jobs_are_listed_and_replayed_one_or_all(given_up: Sessions, database_url: str) -> None:
    listed = command(database_url)
    assert listed.returncode == 1
    assert [line.split()[:5] for line in listed.stdout.splitlines()] == [
        [n, "route", "repository", "9", f"#{n}"] for n in ("2", "1")
    ]
    assert "\x1b" not in listed.stdout
    one = command(database_url, "--replay", "1", "--json")
    assert one.returncode == 1
    document = json.loads(one.stdout)
    assert (document["schema"], document["replayed"]) == (1, 1)
    assert [item["id"] for item in document["items"]] == [2]
    rest = command(database_url, "--replay", "all")
    assert (rest.returncode, rest.stdout) == (0, "1 queued again\n")
    assert (command(database_url).returncode, command(database_url).stdout) == (0, "no job was given up\n")
    with given_up() as session:
        assert {job.state for job in session.query(Job).where(Job.id < 3)} == {JobState.QUEUED}
        assert session.get_one(Delivery, "g").state is DeliveryState.RECEIVED


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--replay", "7"], 2, "no job 7 was given up"),
        (["--replay", "1; DROP TABLE job"], 2, "takes the number of a job or all"),
        (["--replay", "9" * 30], 2, "takes the number of a job or all"),
        (["--limit", "0"], 2, "--limit"),
    ],
)
def test_what_cannot_be_is_one_line(database_url: str, arguments: list[str], code: int, says: str) -> None:
    ended = command(database_url, *arguments)
    assert ended.returncode == code
    assert says in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_a_database_that_cannot_be_used_is_one_line_and_exit_3() -> None:
    ended = command("postgresql://me:canary-word@127.0.0.1:1/db")
    assert ended.returncode == 3
    assert ended.stderr.startswith("prgate: the database cannot be used:")
    assert "canary-word" not in ended.stderr
