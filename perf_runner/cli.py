"""The commands of the runner: `gate`, `experiment`, `bench` and the readers of results."""

import typer

import perf_runner.cli_decisions


def mount(app: typer.Typer) -> None:
    """Add the runner's commands to `app`."""
    perf_runner.cli_decisions.mount(app)
