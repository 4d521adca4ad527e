"""The commands that decide over data already measured: `gate`."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from pydantic import BaseModel

JSON_HELP = "Print one JSON document on standard output and nothing else there."


def mount(app: typer.Typer) -> None:
    """Add the deciding commands to `app`."""
    app.command("gate")(gate)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a ValueError over what was handed in into one line and exit code 2."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def print_document(value: BaseModel) -> None:
    """Print one value as one JSON document."""
    typer.echo(value.model_dump_json(indent=2))


def gate(
    blocks: str = typer.Argument(
        ..., help='One block a line: {"base": [s, s], "head": [s, s]}; - for stdin.'
    ),
    json_: bool = typer.Option(False, "--json", help=JSON_HELP),
    margin: float | None = typer.Option(
        None, help="Slowdown that still passes, as a fraction. Default: by noise."
    ),
    alpha: float = typer.Option(0.03, help="One-sided level of the lower bound."),
    max_blocks: int = typer.Option(10, help="Accepted blocks after which it ends inconclusive."),
) -> None:
    """Feed blocks one by one to the sequential gate; exit 0 for no regression, else 1."""
    from perf_runner.blocks_file import parse_blocks, settings_for
    from perf_runner.gate import replay
    from perf_runner.models import Outcome
    from perf_runner.reading import read_text

    with usage_errors():
        file = parse_blocks(read_text(blocks), blocks)
        decided = replay(file.blocks, settings_for(file, margin, alpha, max_blocks))
    decision = decided.conclude("the blocks ended before a decision; more of them may decide")
    if json_:
        print_document(decision)
    else:
        typer.echo(f"{decision.decision.value.replace('_', ' ')}: {decision.why}")
    raise typer.Exit(0 if decision.decision is Outcome.NO_REGRESSION else 1)
