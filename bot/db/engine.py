"""Engines and sessions: SQLite (WAL, immediate transactions) for trials, PostgreSQL for service."""

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.orm import Session, sessionmaker

from bot.db.types import dump_json

BUSY_TIMEOUT_MS = 15_000
READ_ONLY = "prgate_read_only"

Sessions = sessionmaker[Session]


def open_engine(database_url: str) -> Engine:
    """Return an engine for `sqlite:///FILE` or `postgresql://…`. ValueError for another kind."""
    url = make_url(database_url)
    backend = url.get_backend_name()
    if backend == "sqlite":
        return open_sqlite(database_url)
    if backend == "postgresql":
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        return create_engine(url, pool_pre_ping=True, pool_size=5, max_overflow=10, json_serializer=dump_json)
    raise ValueError(f"the database must be sqlite or postgresql, not {backend}")


def open_sqlite(database_url: str) -> Engine:
    """Return an engine whose transactions start immediate: no read turns into a failing write."""
    file = make_url(database_url).database
    if file and file != ":memory:":
        Path(file).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(
        database_url, json_serializer=dump_json, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000}
    )
    event.listen(engine, "connect", prepare_sqlite)
    event.listen(engine, "begin", begin_immediate)
    return engine


def prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    """Set a new connection up; the driver's own transaction handling is switched off."""
    connection.isolation_level = None
    for pragma in (
        "journal_mode = WAL",
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
        "synchronous = NORMAL",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def begin_immediate(connection: Connection) -> None:
    """Take the write lock when the transaction begins, so that it waits there and never fails later."""
    reading = connection.get_execution_options().get(READ_ONLY, False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def open_sessions(engine: Engine) -> Sessions:
    """Return the factory of sessions; rows stay readable after the commit."""
    return sessionmaker(engine, expire_on_commit=False)


def open_reading_sessions(engine: Engine) -> Sessions:
    """Return the factory of sessions that only read (pages): on SQLite they do not wait for a writer."""
    return sessionmaker(engine.execution_options(**{READ_ONLY: True}), expire_on_commit=False)
