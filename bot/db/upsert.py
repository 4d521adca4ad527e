"""What SQLite and PostgreSQL spell alike and SQLAlchemy types apart: upserts, counts of rows, their clock."""

from datetime import datetime
from typing import Any, cast

from sqlalchemy import CursorResult, Executable, Table, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from bot.db.models import Base
from bot.db.types import now_plus

Insert = postgresql.Insert | sqlite.Insert


def insert_into(session: Session, table: type[Base]) -> Insert:
    """Return the dialect's INSERT, which knows `on_conflict_do_…`."""
    target = cast("Table", table.__table__)
    dialect = session.get_bind().dialect.name
    return postgresql.insert(target) if dialect == "postgresql" else sqlite.insert(target)


def time_of(session: Session) -> datetime:
    """Return the database's time: what several hosts compare must not hang on their own clocks."""
    return session.execute(select(now_plus(0))).scalar_one()


def changed(session: Session, statement: Executable) -> int:
    """Execute an INSERT, UPDATE or DELETE and return how many rows it touched."""
    # Of an INSERT the count is dropped unless it is asked for.
    result = session.execute(statement, execution_options={"preserve_rowcount": True})
    return cast("CursorResult[Any]", result).rowcount
