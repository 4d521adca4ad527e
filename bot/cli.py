"""The command line: mounts each package's commands and gives them one manner of failing."""

import errno
import io
import sys
import traceback
import uuid
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version as package_version
from typing import Any

import typer
from typer.main import get_command

import bot.ci.cli
import bot.cli_config
import bot.cli_dead
import bot.cli_preview
import bot.cli_service
import bot.demo.cli
import bot.nightly.cli
import bot.review.cli
import perf_runner.cli
import routing.cli

PARTS = (
    bot.demo.cli,
    bot.cli_service,
    bot.cli_config,
    bot.cli_dead,
    bot.cli_preview,
    routing.cli,
    bot.ci.cli,
    bot.review.cli,
    bot.nightly.cli,
    perf_runner.cli,
)
ANNOUNCED = frozenset({"verdict", "preview", "bench", "bisect", "calibrate"})
USAGE = 2
# What is wrong with a name itself; a command that only asks whether a file is there meets these too.
NAME_FAULTS = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR})
INFRASTRUCTURE = 3


def build_app() -> typer.Typer:
    """Return the whole command line."""
    app = typer.Typer(
        name="prgate",
        help="Answers four questions on every pull request: who, how urgent, is this red mine, is it slower.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(root)
    for part in PARTS:
        part.mount(app)
    mount_unbuilt(app)
    return app


def mount_unbuilt(app: typer.Typer) -> None:
    """Add the commands that are announced and not there yet: each says so."""
    built = {command.name for command in app.registered_commands}
    built |= {group.name for group in app.registered_groups}

    def say_unbuilt(context: typer.Context) -> None:
        """Not built yet."""
        typer.echo(f"prgate: {context.info_name} is not built yet", err=True)
        raise typer.Exit(INFRASTRUCTURE)

    anything = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    for name in sorted(ANNOUNCED - built):
        app.command(name, hidden=True, context_settings=anything)(say_unbuilt)


def print_version(asked: bool) -> None:
    """Print the version and leave, when asked for."""
    if asked:
        typer.echo(f"prgate {package_version('prgate')}")
        raise typer.Exit(0)


def root(
    version: bool = typer.Option(
        False, "--version", callback=print_version, is_eager=True, help="Print the version and leave."
    ),
) -> None:
    """Answer who, how urgent, whose red and how fast, on every pull request."""


@lru_cache(maxsize=1)
def command() -> Any:
    """Return the whole command line, put together once a process (of the parser's own type)."""
    return get_command(build_app())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; exit 0 good, 1 a finding, 2 usage, 3 machine or internal error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name may be no text
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: Sequence[str]) -> int:
    """Return the exit code of one command; bad input is one line on stderr, a bug an id and exit 3."""
    try:
        result = command().main(args=list(arguments) or ["--help"], prog_name="prgate", standalone_mode=False)
    except typer.exceptions.TyperException as error:
        message = " ".join(error.format_message().split())
        typer.echo(f"prgate: {message}", err=True)
        return USAGE
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("prgate: interrupted", err=True)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NAME_FAULTS:
            typer.echo(f"prgate: {str(error.filename)[:200]}: {error.strerror}", err=True)
            return USAGE
        incident = uuid.uuid4().hex[:12]
        typer.echo(traceback.format_exc(), err=True)
        typer.echo(f"prgate: internal error {incident}; please report it with the lines above", err=True)
        return INFRASTRUCTURE
    return result if isinstance(result, int) else 0
