"""The commands of routing: `owners`, `route`, `priority`."""

import json
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from routing.codeowners import Codeowners
    from routing.models import Priority, Route
    from routing.report import OwnershipReport

PATHS = typer.Argument(None, help="Paths from the repository's root.", metavar="[PATH]...")
ROUTE_KEYS = ("also_touches", "owners", "ask", "not_asked_because", "drift", "unowned_files")
JSON = typer.Option(False, "--json", help="Print one JSON document and nothing else.")
CONFIG = typer.Option(
    None, "--config", help="Configuration to use [default: .github/prgate.toml of the tree]."
)
REQUEST = typer.Argument(..., help="The request as JSON; - reads stdin.", metavar="REQUEST.json")


def mount(app: typer.Typer) -> None:
    """Add routing's commands to `app`."""
    app.command("owners", help="Say who owns each path, or how well a tree is owned (--report).")(
        owners_command
    )
    app.command("route", help="Say who should look at a pull request, and why.")(route_command)
    app.command("priority", help="Say how urgent a pull request is, and why.")(priority_command)


def owners_command(
    paths: list[str] = PATHS,
    codeowners: str = typer.Option(None, "--codeowners", help="The CODEOWNERS file; - reads stdin."),
    paths_file: str = typer.Option(None, "--paths", help="A file of paths, one a line; - reads stdin."),
    report: bool = typer.Option(False, "--report", help="Report coverage, load, drift and dead rules."),
    root: str = typer.Option(None, "--root", help="The tree to report on."),
    module_pages: str = typer.Option(
        "docs/design/module", "--module-pages", help="Folder of the module pages."
    ),
    json_output: bool = JSON,
) -> None:
    """Say who owns each path; with --report, how well a tree is owned."""
    from routing.requests import InputError, clean_path, read_paths

    refuse_two_stdins(codeowners, paths_file)
    try:
        wanted = [clean_path(path) for path in paths or []] + (read_paths(paths_file) if paths_file else [])
        if report:
            show_report(codeowners, wanted, root, module_pages, json_output)
        else:
            show_owners(codeowners, wanted, json_output)
    except InputError as error:
        raise typer.BadParameter(str(error)) from error


def refuse_two_stdins(one: str | None, other: str | None) -> None:
    """Refuse `-` for two inputs of one command."""
    if one == other == "-":
        raise typer.BadParameter("stdin can be read once only: give one of the two inputs a file")


def show_owners(codeowners: str | None, paths: list[str], json_output: bool) -> None:
    """Print who owns each path."""
    from routing.codeowners import parse
    from routing.requests import read_text

    if codeowners is None:
        raise typer.BadParameter("--codeowners FILE is needed (or --report with --root DIR)")
    parsed = parse(read_text(codeowners))
    echo(owners_document(parsed, paths)) if json_output else print_owners(parsed, paths)


def owners_document(parsed: "Codeowners", paths: list[str]) -> dict[str, Any]:
    """Return the document of `owners --json`."""
    matches = [(path, parsed.match(path)) for path in paths]
    return {
        "owners": [
            {"path": path, "state": match.state.value, "owners": list(match.owners), "line": match.line}
            for path, match in matches
        ],
        **faults_document(parsed),
    }


def faults_document(parsed: "Codeowners") -> dict[str, Any]:
    """Return the errors and warnings of a CODEOWNERS file."""
    errors = [{"line": error.line, "kind": error.kind, "says": error.says} for error in parsed.errors]
    warnings = [
        {
            "line": warning.line,
            "kind": warning.kind,
            **({"by_line": warning.by_line, "same_owners": warning.same_owners} if warning.by_line else {}),
            "says": warning.says,
        }
        for warning in parsed.warnings
    ]
    return {"errors": errors, "warnings": warnings}


def print_owners(parsed: "Codeowners", paths: list[str]) -> None:
    """Print owners, errors and warnings for people."""
    from routing.codeowners import State

    for path in paths:
        match = parsed.match(path)
        said = {State.OWNED: " ".join(match.owners), State.CLEARED: "nobody, on purpose"}
        where = f" (line {match.line})" if match.line else ""
        say(f"{path}: {said.get(match.state, 'no rule')}{where}")
    print_faults(parsed)


def print_faults(parsed: "Codeowners") -> None:
    """Print the errors and warnings of a CODEOWNERS file for people."""
    for error in parsed.errors:
        say(f"line {error.line}: skipped: {error.says}")
    for warning in parsed.warnings:
        say(f"line {warning.line}: {warning.kind}: {warning.says}")


def show_report(
    codeowners: str | None, paths: list[str], root: str | None, module_pages: str, json_output: bool
) -> None:
    """Print how well a tree is owned."""
    from pathlib import Path

    from routing.ownership import Ownership
    from routing.report import report
    from routing.requests import read_text, tree_files

    if root is None or not Path(root).is_dir():
        raise typer.BadParameter("--report needs --root DIR, the tree to report on")
    ownership = Ownership.from_folder(Path(root), module_pages)
    if codeowners:
        ownership = ownership.with_codeowners(read_text(codeowners), codeowners)
    found = report(ownership, paths or tree_files(Path(root)))
    faults = faults_document(ownership.codeowners) if ownership.codeowners else {"errors": [], "warnings": []}
    if json_output:
        echo({**found.model_dump(mode="json"), **faults})
        return
    print_report(found)
    if ownership.codeowners:
        print_faults(ownership.codeowners)


def print_report(found: "OwnershipReport") -> None:
    """Print a report for people."""
    counts = found.coverage
    say(
        f"{counts.files} files: {counts.one_module} in one module, {counts.several_modules} in several, "
        f"{counts.no_module} in none, {counts.no_owner} without any owner"
    )
    for module in found.modules:
        say(f"{module.page}: {module.files} files, {len(module.owners)} owners: {' '.join(module.owners)}")
        for problem in (
            *module.problems,
            *(f"links to {page}, which is not there" for page in module.dangling_links),
        ):
            say(f"  {problem}")
    for page in found.bus_factor_one:
        say(f"bus factor 1: {page}")
    for person in found.people:
        say(f"{person.login}: {person.modules} modules, {person.files} files")
    for one in found.drift:
        pages, lines = " ".join(one.page_owners), " ".join(one.codeowners) or "nobody"
        say(f"drift: {one.path}: page {pages}; CODEOWNERS {lines}")
    for rule in found.unused_rules:
        say(f"line {rule.line}: decides about no file: {rule.pattern}")


def route_command(request: str = REQUEST, config: str = CONFIG, json_output: bool = JSON) -> None:
    """Say who should look at a pull request, and why."""
    from routing.requests import InputError, read_config, read_ownership, read_request, root_of
    from routing.route import route

    refuse_two_stdins(request, config)
    try:
        asked = read_request(request)
        root = root_of(asked, request)
        settings = read_config(config, root).routing
        found = route(asked.pr, read_ownership(asked, settings, root), asked.people, settings)
    except InputError as error:
        raise typer.BadParameter(str(error)) from error
    echo(route_document(found)) if json_output else print_route(found)


def route_document(found: "Route") -> dict[str, Any]:
    """Return the document of `route --json`."""
    document = found.model_dump(mode="json")
    modules = [{name: module[name] for name in ("page", "weight", "files")} for module in document["modules"]]
    return {"modules": modules, **{name: document[name] for name in ROUTE_KEYS}}


def print_route(found: "Route") -> None:
    """Print a route for people."""
    for module in found.modules:
        say(f"module: {module.page} ({module.weight:.0%}, {len(module.files)} files)")
    for owner in found.owners:
        say(f"owner: {owner.login}: {'; '.join(owner.reasons)}")
    say(f"ask: {', '.join(found.ask)}" if found.ask else f"ask nobody: {found.not_asked_because}")
    for name in found.also_touches:
        say(f"also touches: {name}")
    for path in found.unowned_files:
        say(f"no owner: {path}")
    for one in found.drift:
        pages, lines = " ".join(one.page_owners), " ".join(one.codeowners) or "nobody"
        say(f"drift: {one.path}: page {pages}; CODEOWNERS {lines}")
    for note in found.notes:
        say(f"note: {note}")


def priority_command(
    request: str = REQUEST,
    config: str = CONFIG,
    now: str = typer.Option(None, "--now", help="The time to judge ages by, ISO 8601 [default: now]."),
    json_output: bool = JSON,
) -> None:
    """Say how urgent a pull request is, and why."""
    from datetime import UTC, datetime

    from routing.priority import prioritize
    from routing.requests import InputError, read_config, read_ownership, read_request, root_of
    from routing.route import route

    refuse_two_stdins(request, config)
    try:
        asked = read_request(request)
        root = root_of(asked, request)
        settings = read_config(config, root)
        modules = route(asked.pr, read_ownership(asked, settings.routing, root), {}, settings.routing).modules
    except InputError as error:
        raise typer.BadParameter(str(error)) from error
    try:
        at = datetime.fromisoformat(now) if now else datetime.now(UTC)
    except ValueError as error:
        raise typer.BadParameter(f"--now: {now!r} is not a time such as 2026-09-21T12:00:00Z") from error
    found = prioritize(
        asked.pr, settings.priority, at, modules, asked.perf_regression, asked.main_is_red, asked.override
    )
    echo(found.model_dump(mode="json")) if json_output else print_priority(found)


def print_priority(found: "Priority") -> None:
    """Print a priority for people."""
    say(f"priority: {found.level} (score {found.score})")
    for reason in found.reasons:
        say(f"{reason.points:+d}  {reason.signal}")


def echo(document: dict[str, Any]) -> None:
    """Print one JSON document on stdout."""
    typer.echo(json.dumps(document, ensure_ascii=False, indent=2))


def say(text: str) -> None:
    """Print one line for people, foreign control characters in it replaced."""
    typer.echo("".join(character if character.isprintable() else "?" for character in text))
