"""The command `review`."""

import sys
from pathlib import Path

import typer

SIZE_LIMIT = 64 * 1024**2


def mount(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("review")(review_command)


def review_command(
    request: str = typer.Argument(help="A JSON file with title, body and diff; - for standard input."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document."),
) -> None:
    """Show what the automated review finds in a pull request's diff and description."""
    from bot.review import ReviewRequest, review

    try:
        raw = read(request)
        found = review(ReviewRequest.model_validate_json(raw.decode("utf-8-sig", "replace")))
    except OSError as error:
        raise typer.BadParameter(f"{request}: {error.strerror or error}") from error
    except ValueError as error:
        raise typer.BadParameter(
            f"{request}: {str(error).splitlines()[0]}; expected title, body and diff"
        ) from error
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
        return
    for finding in found.findings:
        where = f"{finding.path}:{finding.line}" if finding.path else "description"
        typer.echo(
            f"{finding.severity:6} {where}  {finding.rule}\n       {finding.says}\n       -> {finding.do}"
        )
    typer.echo(f"{len(found.findings)} findings, {len(found.claims)} claims")


def read(name: str) -> bytes:
    """Return the bytes of a file or of standard input. ValueError where there are too many."""
    if name == "-":
        raw = sys.stdin.buffer.read(SIZE_LIMIT + 1)
    else:
        with Path(name).open("rb") as stream:
            raw = stream.read(SIZE_LIMIT + 1)
    if len(raw) > SIZE_LIMIT:
        raise ValueError(f"larger than {SIZE_LIMIT // 1024**2} MiB")
    return raw
