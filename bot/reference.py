"""The reference of commands, mentions, settings, configuration keys and metrics, read from the code.

`python -m bot.reference` prints it; `deploy/docs/reference.md` is its output, and a test keeps them equal.
"""

from collections.abc import Iterator
from typing import Any

import typer
from pydantic import BaseModel, SecretStr

from bot.cli import build_app
from bot.commands import SPECS
from bot.config import RepoConfig, nested_model
from bot.settings import PREFIX, Settings


def reference() -> str:
    """Return the whole page."""
    parts = [
        "# Reference",
        "Made from the code by `make docs`.",
        "## Command line",
        *command_line(),
        "## Commands in comments",
        table(("command", "what it does", "who may"), mentions()),
        "## Settings of the service",
        "Environment variables, read once at start.",
        table(("variable", "default", "what it is"), settings()),
        "## `.github/prgate.toml`",
        "Read from the base commit; unknown keys are refused.",
        table(("key", "type", "default"), keys(RepoConfig, "")),
    ]
    return "\n\n".join(parts) + "\n"


def command_line() -> Iterator[str]:
    """Yield the help text of every command."""
    root: Any = typer.main.get_command(build_app())
    for name, command in sorted(root.commands.items()):
        if not command.hidden:
            yield from command_help(name, command)


def command_help(name: str, command: Any) -> Iterator[str]:
    """Yield the help of a command, or of each command of a group."""
    if hasattr(command, "commands"):
        for inner, below in sorted(command.commands.items()):
            yield from command_help(f"{name} {inner}", below)
        return
    words = " ".join((command.help or "").split())
    rows = [row(parameter) for parameter in command.params if parameter.name != "help"]
    yield f"### `prgate {name}`"
    yield words
    if rows:
        yield table(("argument", "what it is"), rows)


def row(parameter: Any) -> tuple[str, str]:
    """Return one argument or option."""
    is_option = parameter.param_type_name == "option"
    name = ", ".join(parameter.opts) if is_option else parameter.name.upper()
    return f"`{name}`", " ".join((parameter.help or "").split())


def mentions() -> Iterator[tuple[str, str, str]]:
    """Yield the commands of comments."""
    for spec in SPECS:
        yield f"`{spec.usage}`", spec.says, spec.who.value


def settings() -> Iterator[tuple[str, str, str]]:
    """Yield the service's settings; a secret has no default to show."""
    for name, field in Settings.model_fields.items():
        default = "" if isinstance(field.default, SecretStr) else str(field.default)
        yield f"`{PREFIX}{name.upper()}`", f"`{default}`" if default else "", field.description or ""


def keys(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    """Yield the keys of a configuration model, those of its sections below them."""
    for name, field in model.model_fields.items():
        inner = nested_model(field.annotation)
        if inner is not None:
            many = "[]" if "tuple" in str(field.annotation) else ""
            yield from keys(inner, f"{prefix}{name}{many}.")
            continue
        default = "" if field.is_required() else f"`{field.get_default(call_default_factory=True)!s}`"
        yield f"`{prefix}{name}`", kind(field.annotation), default


def kind(annotation: Any) -> str:
    """Return a type as a reader writes it."""
    shown = getattr(annotation, "__name__", None) if isinstance(annotation, type) else None
    return (shown or str(annotation)).replace("typing.", "").replace("|", "or").split(", FieldInfo")[0][:80]


def table(head: tuple[str, ...], rows: Any) -> str:
    """Return a Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


if __name__ == "__main__":
    typer.echo(reference(), nl=False)
