"""INSERT … ON CONFLICT, which SQLite and PostgreSQL spell alike and SQLAlchemy types apart."""

from typing import Any, cast

from sqlalchemy import CursorResult, Executable, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from bot.db.models import Base

Insert = postgresql.Insert | sqlite.Insert


def insert_into(session: Session, table: type[Base]) -> Insert:
    """Return the dialect's INSERT, which knows `on_conflict_do_…`."""
    target = cast("Table", table.__table__)
    dialect = session.get_bind().dialect.name
    return postgresql.insert(target) if dialect == "postgresql" else sqlite.insert(target)


def changed(session: Session, statement: Executable) -> int:
    """Execute an INSERT, UPDATE or DELETE and return how many rows it touched."""
    # Of an INSERT the count is dropped unless it is asked for.
    result = session.execute(statement, execution_options={"preserve_rowcount": True})
    return cast("CursorResult[Any]", result).rowcount
