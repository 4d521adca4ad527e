"""Brings a database to the newest schema, and says where it stands."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

FOLDER = Path(__file__).parent / "migrations"
# Any number, as long as no one else's PostgreSQL advisory lock in the same database uses it.
LOCK = 7_367_283


def config() -> Config:
    """Return Alembic's configuration without a file, so that it works from an installed wheel."""
    made = Config()
    made.set_main_option("script_location", str(FOLDER))
    return made


class NewerSchemaError(RuntimeError):
    """The database was migrated by a newer version of prgate than this one."""


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Migrate up to `revision`; processes that start together wait for each other.

    NewerSchemaError where this version does not know the schema that is there.
    """
    with engine.begin() as connection:
        lock(connection)
        check_known(connection)
        made = config()
        made.attributes["connection"] = connection
        command.upgrade(made, revision)


def downgrade(engine: Engine, revision: str) -> None:
    """Migrate down to `revision` (`base` drops everything)."""
    with engine.begin() as connection:
        lock(connection)
        made = config()
        made.attributes["connection"] = connection
        command.downgrade(made, revision)


def lock(connection: Connection) -> None:
    """Let one process migrate at a time; SQLite's immediate transaction is such a lock already."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": LOCK})


def require_known(engine: Engine) -> None:
    """Raise NewerSchemaError where this version does not know the schema that is there."""
    with engine.connect() as connection:
        check_known(connection)


def check_known(connection: Connection) -> None:
    """Do so on a connection."""
    here = MigrationContext.configure(connection).get_current_revision()
    known = {script.revision for script in ScriptDirectory.from_config(config()).walk_revisions()}
    if here is not None and here not in known:
        raise NewerSchemaError(f"its schema {here} was made by a newer prgate; upgrade this one")


def current_revision(engine: Engine) -> str | None:
    """Return the revision that the database is at; None for an empty one."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest_revision() -> str | None:
    """Return the revision that this version of prgate wants."""
    return ScriptDirectory.from_config(config()).get_current_head()
