"""`python -m perf_runner …`: the runner's commands alone, for a machine without the service's packages."""

import sys
import traceback
import uuid
from collections.abc import Sequence

import typer

import perf_runner.cli

USAGE, INFRASTRUCTURE, INTERRUPTED = 2, 3, 130


def build_app() -> typer.Typer:
    """Return the command line of the runner."""
    app = typer.Typer(
        name="perf_runner", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    app.callback()(root)
    perf_runner.cli.mount(app)
    return app


def root() -> None:
    """Measure two revisions, run benchmarks, and decide over what was measured."""


def run(arguments: Sequence[str]) -> int:
    """Return the exit code of one command: 2 for bad input in one line, 3 and an id for a bug."""
    try:
        result = build_app()(args=list(arguments), prog_name="perf_runner", standalone_mode=False)
    except typer.exceptions.TyperException as error:
        typer.echo(f"perf_runner: {' '.join(error.format_message().split())}", err=True)
        return USAGE
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("perf_runner: interrupted", err=True)
        return INTERRUPTED
    except Exception:
        typer.echo(traceback.format_exc(), err=True)
        typer.echo(
            f"perf_runner: internal error {uuid.uuid4().hex[:12]}; please report the lines above", err=True
        )
        return INFRASTRUCTURE
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
