"""`prgate check-config`: is this `.github/prgate.toml` one that the service would take?"""

import json
import sys
from pathlib import Path

import typer


def mount(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("check-config")(check_config)


def check_config(
    file: str = typer.Argument(".github/prgate.toml", help="The file; - reads standard input."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document."),
    schema: bool = typer.Option(False, "--schema", help="Print the JSON schema for editors instead."),
) -> None:
    """Validate a repository's configuration; each fault names its line and key, and what was meant."""
    from bot.config import ConfigError, json_schema, parse

    if schema:
        typer.echo(json.dumps(json_schema(), indent=2))
        return
    text = read(file)
    try:
        parse(text)
        faults = []
    except ConfigError as error:
        faults = list(error.problems)
    if as_json:
        rows = [{"line": f.line, "key": f.key, "says": f.says, "suggestion": f.suggestion} for f in faults]
        typer.echo(json.dumps({"schema": 1, "file": file, "valid": not faults, "problems": rows}))
    else:
        typer.echo("\n".join(f"{file}: {fault}" for fault in faults) or f"{file}: good")
    if faults:
        raise typer.Exit(1)


def read(file: str) -> str:
    """Return the text of a file or of standard input, as far as one is read; a BOM is no fault."""
    from routing.toml_text import SIZE_LIMIT

    most = 4 * SIZE_LIMIT + 4  # bytes of one character more than the parser takes
    try:
        if file == "-":
            raw = sys.stdin.buffer.read(most)
        else:
            with Path(file).open("rb") as stream:
                raw = stream.read(most)
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror or error}; name a readable file or -") from error
    return raw.decode("utf-8-sig", errors="replace")
