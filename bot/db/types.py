"""Column types that take foreign values safely, and expressions that speak of the database's clock."""

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Integer, String, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

# GitHub's numeric ids and our own rising ones; SQLite counts only an INTEGER primary key.
BigId = BigInteger().with_variant(Integer(), "sqlite")


class UtcDateTime(TypeDecorator[datetime]):
    """An aware time in UTC: a naive one is refused, SQLite's naive one comes back aware."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the time as the database keeps it. ValueError for a naive one."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time must be aware; use datetime.now(UTC)")
        utc = value.astimezone(UTC)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the time in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def clean_text(value: str) -> str:
    """Return text that every database and encoder takes: no NUL, no lone surrogate."""
    return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def clean_json(value: Any) -> Any:
    """Return JSON of which every string is clean."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(str(key)): clean_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in value]
    return value


def dump_json(value: Any) -> str:
    """Return compact JSON. ValueError for a number that is not finite."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


class SafeText(TypeDecorator[str]):
    """Text of any origin: what PostgreSQL or UTF-8 cannot hold is replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the clean text."""
        return None if value is None else clean_text(value)


class SafeString(TypeDecorator[str]):
    """Text of any origin of at most `length` characters: cleaned like `SafeText`, and cut."""

    impl = String
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the clean text."""
        return None if value is None else clean_text(value)[: self.length]


class SafeJson(TypeDecorator[Any]):
    """JSON of any origin (JSONB on PostgreSQL): its strings are cleaned, its numbers must be finite."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the dialect's own type."""
        return dialect.type_descriptor(JSONB() if dialect.name == "postgresql" else JSON())

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Return the clean value."""
        return clean_json(value)


class now_plus(FunctionElement[datetime]):  # noqa: N801 - reads as an SQL function
    """The database's clock, `seconds` from now (negative: ago): leases never compare two hosts' clocks."""

    type = UtcDateTime()
    inherit_cache = False
    name = "now_plus"

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = float(seconds)
        super().__init__()


@compiles(now_plus, "sqlite")
def now_plus_sqlite(element: now_plus, compiler: SQLCompiler, **_: Any) -> str:
    """Write it as SQLAlchemy stores a time: microseconds as text, which sorts as time does."""
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', '{element.seconds:+.3f} seconds')"


@compiles(now_plus, "postgresql")
def now_plus_postgresql(element: now_plus, compiler: SQLCompiler, **_: Any) -> str:
    """Use the statement's time: a transaction may have waited for a lock."""
    return f"(statement_timestamp() + make_interval(secs => {element.seconds:.3f}))"
