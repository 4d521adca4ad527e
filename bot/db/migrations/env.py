"""Alembic's environment: runs on the connection or URL that `bot.db.migrate` hands over."""

from alembic import context

from bot.db.engine import open_engine
from bot.db.models import Base


def run() -> None:
    """Migrate on the given connection, or else on an engine of the given URL."""
    connection = context.config.attributes.get("connection")
    if connection is not None:
        migrate(connection)
        return
    engine = open_engine(context.config.get_main_option("sqlalchemy.url") or "")
    with engine.begin() as opened:
        migrate(opened)
    engine.dispose()


def migrate(connection: object) -> None:
    """Run the migrations as one transaction; SQLite alters a table by copying it (batch mode)."""
    context.configure(
        connection=connection,  # type: ignore[arg-type]
        target_metadata=Base.metadata,
        render_as_batch=True,
        compare_type=True,
        user_module_prefix="types.",
    )
    with context.begin_transaction():
        context.run_migrations()


run()
