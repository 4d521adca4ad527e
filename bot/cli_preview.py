"""`prgate preview`: every comment it would post on a pull request, writing nothing."""

import json
import subprocess
from dataclasses import asdict

import typer


def mount(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("preview")(preview_command)


def preview_command(
    pull: str = typer.Argument(help="A pull request's URL, ORG/NAME#N, or its number in this checkout."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document."),
) -> None:
    """Print every comment, request and check that a pull request would get; nothing is written."""
    from bot.dispatch import RetryLater, UserError, default_table
    from bot.errors import ConfigurationError
    from bot.github import GitHubFault
    from bot.preview import describe, parse_reference, preview
    from bot.settings import load_settings

    reference = parse_reference(pull, origin())
    if reference is None:
        raise typer.BadParameter(f"{pull!r} names no pull request; give its URL or ORG/NAME#N")
    try:
        planned = preview(*reference, load_settings(), default_table())
    except (LookupError, ConfigurationError) as error:
        raise typer.BadParameter(str(error)) from error
    except (GitHubFault, RetryLater, UserError) as error:
        typer.echo(f"prgate: {error}; set PRGATE_GITHUB_TOKEN if it is private or a limit was met", err=True)
        raise typer.Exit(3) from error
    if as_json:
        rows = [
            {"verb": one.verb, "kind": type(one.action).__name__, **asdict(one.action)} for one in planned
        ]
        typer.echo(json.dumps({"schema": 1, "repo": reference[0], "pr": reference[1], "actions": rows}))
    else:
        typer.echo(describe(planned))


def origin() -> str | None:
    """Return the URL of this checkout's `origin`; None where there is none."""
    command = ["git", "remote", "get-url", "origin"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except OSError:
        return None
    return found.stdout.strip() if found.returncode == 0 else None
