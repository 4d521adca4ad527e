"""`dead`: the jobs that were given up after their last attempt, and how they are run again."""

import json
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from bot.db.engine import Sessions
    from bot.db.models import Job

FOUND = 1
MACHINE = 3
ALL = "all"


def mount(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("dead")(dead)


def dead(
    replay: str = typer.Option("", metavar="ID|all", help="Run this job (or all of them) again."),
    limit: int = typer.Option(100, min=1, max=1000, help="Most jobs to list."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document."),
) -> None:
    """List the jobs that were given up, or run them again; exit 1 where some are left."""
    if replay and replay != ALL and not (replay.isdecimal() and len(replay) < 19):
        raise typer.BadParameter(f"--replay takes the number of a job or all, not {replay[:40]!r}")
    sessions = opened()
    again = run_again(sessions, replay) if replay else 0
    if replay not in ("", ALL) and not again:
        raise typer.BadParameter(f"no job {replay} was given up")
    left = listed(sessions, limit)
    if as_json:
        typer.echo(json.dumps({"schema": 1, "replayed": again, "items": left}))
    else:
        show(left, again, asked=bool(replay))
    if left:
        raise typer.Exit(FOUND)


def opened() -> "Sessions":
    """Return sessions of the service's database; exit 3 with one line where it cannot be used."""
    from bot.db.engine import open_engine, open_sessions
    from bot.db.migrate import current_revision, newest_revision
    from bot.errors import ConfigurationError, one_line
    from bot.settings import load_settings

    try:
        engine = open_engine(load_settings().database)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        here, wanted = current_revision(engine), newest_revision()
    except Exception as error:
        typer.echo(f"prgate: the database cannot be used: {one_line(error, 300)}", err=True)
        raise typer.Exit(MACHINE) from None
    if here != wanted:
        typer.echo(f"prgate: the database is at schema {here}, this version wants {wanted}", err=True)
        raise typer.Exit(MACHINE)
    return open_sessions(engine)


def run_again(sessions: "Sessions", which: str) -> int:
    """Queue one dead job, or all, again; return how many. The service's relay tells the workers."""
    from sqlalchemy import true

    from bot import jobs
    from bot.db.models import Job

    with sessions.begin() as session:
        return jobs.replay(session, true() if which == ALL else Job.id == int(which))


def listed(sessions: "Sessions", limit: int) -> list[dict[str, Any]]:
    """Return the dead jobs, the newest first."""
    from bot import jobs

    with sessions() as session:
        return [item(job) for job in jobs.dead(session, limit)]


def item(job: "Job") -> dict[str, Any]:
    """Return a dead job as JSON."""
    return {
        "id": job.id,
        "verb": job.verb,
        "repo_id": job.repo_id,
        "number": job.number,
        "subject": job.subject,
        "attempts": job.attempts,
        "delivery": job.delivery_guid,
        "created_at": job.created_at.isoformat(),
        "finished_at": job.finished_at.isoformat() if job.finished_at else None,
        "error": job.error,
    }


def show(left: list[dict[str, Any]], again: int, *, asked: bool) -> None:
    """Print what is left for people: what it was about, and why it was given up."""
    if asked:
        typer.echo(f"{again} queued again")
    for one in left:
        about = f"#{one['number']}" if one["number"] is not None else printable(one["subject"])[:60]
        why = printable(one["error"] or "")[:200]
        typer.echo(f"{one['id']}  {one['verb']}  repository {one['repo_id']}  {about}  {why}")
    if not left and not asked:
        typer.echo("no job was given up")


def printable(text: str) -> str:
    """Return foreign text as one line without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
