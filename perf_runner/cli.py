"""The commands of the runner: `gate`, `experiment`, `bench` and the readers of results."""

import typer


def mount(app: typer.Typer) -> None:
    """Add the runner's commands to `app`."""
