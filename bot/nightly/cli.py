"""The commands over stored nights: `import-nights`, `baselines`."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from bot.db.engine import Sessions
    from bot.db.models import Repository

JSON_HELP = "Print one JSON document on standard output and nothing else there."
REPO_HELP = "The repository as owner/name; the service must know it."
MACHINE = 3


def mount(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("import-nights")(import_nights)
    app.command("baselines")(baselines)


def import_nights(
    files: Annotated[
        list[str], typer.Argument(help="Result files, or nightly tables (CSV, Markdown); - for stdin.")
    ],
    repo: str = typer.Option(..., help=REPO_HELP),
    hardware: str = typer.Option("", help="Hardware of records that do not name theirs, such as H100."),
    issue: str = typer.Option("", help="Number of the issue that a table without such a column is from."),
    json_: bool = typer.Option(False, "--json", help=JSON_HELP),
) -> None:
    """Store the nights of result files or tables; what was imported before counts once."""
    from dataclasses import replace
    from datetime import UTC, datetime

    from bot.nightly.queue import look_again
    from bot.nightly.store import keep
    from perf_runner.history.measurements import read_measurements
    from perf_runner.reading import read_text

    found, left_out = [], []
    try:
        for name in files:
            taken, skipped = read_measurements(read_text(name), name, issue)
            found += [one if one.hardware else replace(one, hardware=hardware) for one in taken]
            left_out += [f"{name}: {line}" for line in skipped]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    sessions = open_store()
    with sessions.begin() as session:
        repository = find_repository(session, repo)
        stored = keep(session, repository.id, found, datetime.now(UTC))
        look_again(session, repository.id)
    if json_:
        document = {"schema": 1, "read": len(found), "new": stored, "left_out": left_out}
        typer.echo(json.dumps(document))
        return
    typer.echo(f"{len(found)} values read, {stored} of them new")
    for line in left_out:
        typer.echo(f"left out: {printable(line)}")


def baselines(
    repo: str = typer.Option(..., help=REPO_HELP),
    take: bool = typer.Option(False, help="Put every proposal that hides nothing in force from tomorrow."),
    json_: bool = typer.Option(False, "--json", help=JSON_HELP),
) -> None:
    """List baselines with their faults, and what a refresh would be and would hide; exit 1 for a fault."""
    from datetime import UTC, datetime

    from bot.nightly.baselines import examine_all, take_proposals

    sessions = open_store()
    with sessions.begin() as session:
        found = examine_all(session, find_repository(session, repo).id)
        taken = take_proposals(session, found, datetime.now(UTC).date()) if take else 0
    if json_:
        document = {"schema": 1, "taken": taken, "baselines": [one.document() for one in found]}
        typer.echo(json.dumps(document, default=str))
    else:
        for one in found:
            for line in one.lines():
                typer.echo(printable(line))
        if take:
            typer.echo(f"{taken} proposals are in force from tomorrow")
    raise typer.Exit(1 if any(one.findings for one in found) else 0)


def open_store() -> "Sessions":
    """Return the service's database, migrated. BadParameter or exit 3, one line, where it cannot be used."""
    from bot.cli_service import require_database
    from bot.db.engine import open_engine, open_sessions
    from bot.db.migrate import upgrade
    from bot.errors import ConfigurationError
    from bot.settings import load_settings

    try:
        settings = load_settings()
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from None
    require_database(settings)
    engine = open_engine(settings.database)
    upgrade(engine)
    return open_sessions(engine)


def find_repository(session: "Session", full_name: str) -> "Repository":
    """Return the repository's row. BadParameter where the service does not know it."""
    from sqlalchemy import func, select

    from bot.db.models import Repository

    asked = select(Repository).where(func.lower(Repository.full_name) == full_name.lower())
    row = session.scalars(asked.where(Repository.removed_at.is_(None))).first()
    if row is None:
        said = (
            f"--repo: the service does not know {printable(full_name[:100])!r}; install the App there first"
        )
        raise typer.BadParameter(said)
    return row


def printable(text: str) -> str:
    """Return foreign text without its control characters."""
    return "".join(character if character.isprintable() else "?" for character in text)
