"""The command group `prgate bench`, to which each module adds its own commands."""

import typer

bench_app = typer.Typer(name="bench", help="Cases: list, run, and check their results.", no_args_is_help=True)


def mount(app: typer.Typer) -> None:
    """Add the group to `app`, once."""
    if all(group.typer_instance is not bench_app for group in app.registered_groups):
        app.add_typer(bench_app)
