"""Each migration goes up and down on a database that holds rows, on both databases; the models match."""

from datetime import UTC, date, datetime
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    Enum,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    inspect,
    text,
)
from sqlalchemy.engine import Engine

from bot.db.engine import open_engine, open_sessions
from bot.db.migrate import NewerSchemaError, config, current_revision, downgrade, newest_revision, upgrade
from bot.db.models import Base, Run
from bot.db.types import SafeJson, UtcDateTime

REVISIONS = [script.revision for script in ScriptDirectory.from_config(config()).walk_revisions()][::-1]


def sample(column: Column[Any]) -> object:
    """Return a value that fits a column as the models declare it."""
    kind = column.type
    samples: list[tuple[type, object]] = [
        (UtcDateTime, datetime(2026, 1, 2, tzinfo=UTC)),
        (Date, date(2026, 1, 2)),
        (Float, 1.5),
        (SafeJson, {"a": 1}),
        (LargeBinary, b"x"),
        (Boolean, True),
        (Integer, 1),
        (BigInteger, 1),
    ]
    if isinstance(kind, Enum):
        return kind.enums[0]
    return next((value for known, value in samples if isinstance(kind, known)), "x")


def sample_row(table: Table) -> dict[str, object]:
    return {column.name: sample(column) for column in table.columns}


def fill(engine: Engine) -> None:
    """Put a row into every table that is there, with the columns it has at this revision."""
    there = MetaData()
    there.reflect(engine)
    with engine.begin() as connection:
        for name, table in Base.metadata.tables.items():
            if name in there.tables:
                known = there.tables[name].columns.keys()
                values = {key: value for key, value in sample_row(table).items() if key in known}
                connection.execute(table.insert().values(values))


def test_every_migration_goes_up_and_down_on_filled_tables(empty_database: str) -> None:
    engine = open_engine(empty_database)
    for revision in REVISIONS:
        upgrade(engine, revision)
    fill(engine)
    with open_sessions(engine)() as session:
        assert session.get_one(Run, "x").spec == {"a": 1}
    for revision in [*REVISIONS[-2::-1], "base"]:
        downgrade(engine, revision)
    assert set(inspect(engine).get_table_names()) <= {"alembic_version"}
    upgrade(engine)
    assert current_revision(engine) == newest_revision() == REVISIONS[-1]
    engine.dispose()


def test_the_migrations_make_the_tables_that_the_models_name(database_url: str) -> None:
    engine = open_engine(database_url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_a_schema_of_a_newer_version_is_left_alone_and_said(empty_database: str) -> None:
    engine = open_engine(empty_database)
    upgrade(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(NewerSchemaError, match="9999 was made by a newer prgate"):
        upgrade(engine)
    engine.dispose()


def test_migrating_twice_does_nothing(database_url: str) -> None:
    engine = open_engine(database_url)
    upgrade(engine)
    assert current_revision(engine) == newest_revision()
    engine.dispose()


@pytest.mark.parametrize("url", ["mysql://x/y", "sqlserver://x"])
def test_another_database_is_refused_in_words(url: str) -> None:
    with pytest.raises(Exception, match=r"sqlite or postgresql|sqlserver"):
        open_engine(url)
