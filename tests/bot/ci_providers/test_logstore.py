"""Logs in the database: once by content, found by job."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select

from bot.ci.logstore import SqlLogs
from bot.ci.snapshot import Job
from bot.db.engine import open_engine, open_sessions
from bot.db.models import Base, Log

NOW = datetime(2026, 9, 20, tzinfo=UTC)
FIRST = Job(id="1", provider="buildkite", build="10", name="Unit")
SECOND = Job(id="2", provider="buildkite", build="10", name="Unit")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = open_engine(f"sqlite:///{tmp_path / 'logs.db'}")
    Base.metadata.create_all(made)
    yield made
    made.dispose()


def test_equal_logs_of_two_jobs_are_kept_once(engine: Engine) -> None:
    logs = SqlLogs(open_sessions(engine), NOW)
    text = "a line of the log é\n" * 10_000
    for job in (FIRST, SECOND, FIRST):
        logs.put(job, text)
    assert logs.get(FIRST) == logs.get(SECOND) == text
    with open_sessions(engine)() as session:
        assert session.scalar(select(func.count()).select_from(Log)) == 3  # the log, and two that point at it
        assert (session.scalar(select(func.max(func.length(Log.data)))) or 0) < len(text) / 50


def test_a_job_that_was_never_read_has_no_log(engine: Engine) -> None:
    logs = SqlLogs(open_sessions(engine), NOW)
    logs.put(FIRST, "text")
    assert logs.get(SECOND) is None
    assert logs.get(FIRST.model_copy(update={"provider": "github_actions"})) is None


def test_a_log_that_was_swept_away_is_not_known(engine: Engine, tmp_path: Path) -> None:
    logs = SqlLogs(open_sessions(engine), NOW)
    logs.put(FIRST, "text")
    with sqlite3.connect(tmp_path / "logs.db") as database:
        database.execute("DELETE FROM log WHERE substr(data, 1, 4) <> CAST('log:' AS BLOB)")
    database.close()
    assert logs.get(FIRST) is None
    logs.put(FIRST, "text")
    assert logs.get(FIRST) == "text"


@pytest.mark.parametrize("text", ["", "\x00\ud800 lone surrogate", "log:" + "0" * 64])
def test_strange_texts_come_back(engine: Engine, text: str) -> None:
    logs = SqlLogs(open_sessions(engine), NOW)
    logs.put(FIRST, text)
    assert logs.get(FIRST) == text.encode("utf-8", "replace").decode()
