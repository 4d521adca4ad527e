"""The commands of routing: `owners`, `route`, `priority`."""

import typer


def mount(app: typer.Typer) -> None:
    """Add routing's commands to `app`."""
