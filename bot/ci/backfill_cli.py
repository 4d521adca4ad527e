"""The command `backfill`: reads CI's past into the store, with its progress on standard error."""

import json
import time
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bot.ci.backfill import Filled
    from bot.clients import Clients
    from bot.db.engine import Sessions
    from bot.settings import Settings

MACHINE = 3
LACKING = (
    "prgate: no GitHub token is set; set PRGATE_GITHUB_TOKEN (or PRGATE_GITHUB_APP_ID with "
    "PRGATE_GITHUB_PRIVATE_KEY), and PRGATE_BUILDKITE_TOKEN where CI runs there"
)


def backfill(
    days: int = typer.Option(14, min=1, max=90, help="How many days back from now."),
    repo: str = typer.Option("", help="owner/name; without it, every repository that is installed."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document on standard output."),
) -> None:
    """Read CI's history of main and of red pull requests into the store; what is there is not read again."""
    from bot.dispatch import RetryLater, UserError
    from bot.errors import ConfigurationError
    from bot.github import GitHubFault
    from bot.settings import load_settings

    try:
        filled = list(fill(load_settings(), repo, days))
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from None
    except (GitHubFault, RetryLater, UserError) as error:
        typer.echo(f"prgate: {error}", err=True)
        raise typer.Exit(MACHINE) from None
    if as_json:
        typer.echo(json.dumps({"schema": 1, "repositories": [one.as_json() for one in filled]}))
    for one in filled:
        show(one, as_json)
    if not all(one.whole for one in filled):
        raise typer.Exit(MACHINE)


def show(one: "Filled", quiet: bool) -> None:
    """Print what came in, and on standard error what did not."""
    if not quiet:
        typer.echo(f"{one.repo}: {one.jobs} jobs and {one.logs} logs of {one.days} days were read")
    for note in one.notes:
        typer.echo(f"prgate: {one.repo}: {note}", err=True)


def fill(settings: "Settings", repo: str, days: int) -> "Iterator[Filled]":
    """Yield what came in, a repository at a time."""
    from bot.ci.backfill import backfill as read_past
    from bot.db.engine import open_engine, open_sessions
    from bot.db.migrate import upgrade

    require_token(settings)
    engine = open_engine(settings.database)
    try:
        upgrade(engine)
        with Bar() as bar:
            for clients in wanted(settings, open_sessions(engine), repo):
                yield read_past(clients, days, bar)
    finally:
        engine.dispose()


def require_token(settings: "Settings") -> None:
    """Exit 3, with one line, where GitHub cannot be asked as anybody."""
    app = settings.github_app_id and settings.private_key
    if not app and not settings.github_token.get_secret_value():
        typer.echo(LACKING, err=True)
        raise typer.Exit(MACHINE)


def wanted(settings: "Settings", sessions: "Sessions", repo: str) -> "Iterator[Clients]":
    """Yield clients for the repositories that are meant. BadParameter where there is none."""
    from datetime import UTC, datetime

    from sqlalchemy import func, select

    from bot.clients import Clients
    from bot.db.models import Repository
    from bot.dispatch import JobSpec

    asked = select(Repository).where(Repository.removed_at.is_(None)).order_by(Repository.id)
    if repo:
        asked = asked.where(func.lower(Repository.full_name) == repo.lower())
    with sessions() as session:
        ids = [row.id for row in session.scalars(asked)]
    if repo and not ids:
        ids = [add(settings, sessions, repo)]
    if not ids:
        raise typer.BadParameter("no repository is installed yet; name one with --repo owner/name")
    for repo_id in ids:
        yield Clients(sessions, settings, datetime.now(UTC), JobSpec("backfill", repo_id))


def add(settings: "Settings", sessions: "Sessions", full_name: str) -> int:
    """Keep a row for a repository that GitHub knows; return its id. BadParameter where it does not."""
    from bot.clients import credentials
    from bot.db.models import Repository
    from bot.github import connect, installation_of

    login = credentials(settings)
    installation = installation_of(login, full_name)
    found = connect(login, installation).get(f"/repos/{full_name}")
    if not found:
        raise typer.BadParameter(f"GitHub shows no repository {full_name!r} with this token")
    with sessions.begin() as session:
        session.merge(
            Repository(
                id=found["id"],
                full_name=found["full_name"],
                installation_id=installation,
                default_branch=found.get("default_branch") or "main",
                private=bool(found.get("private")),
            )
        )
    return int(found["id"])


class Bar:
    """Progress on standard error: one bar for the repository in hand."""

    def __enter__(self) -> "Bar":
        from rich.console import Console
        from rich.progress import Progress

        self._rich = Progress(console=Console(stderr=True), transient=True)
        self._rich.start()
        self._tasks: dict[str, Any] = {}
        return self

    def __exit__(self, *_: object) -> None:
        self._rich.stop()

    def day(self, repo: str, done: int, days: int) -> None:
        """Move on to the next day of a repository."""
        if repo not in self._tasks:
            self._tasks[repo] = self._rich.add_task(repo, total=days)
        self._rich.update(self._tasks[repo], completed=done)

    def wait(self, seconds: float, why: str) -> None:
        """Sleep, and say why where that takes a while."""
        if why:
            self._rich.console.print(f"{why}: waiting {seconds:.0f} s", markup=False)
        time.sleep(seconds)
