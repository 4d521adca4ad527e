"""The service's commands: `serve`, `worker`, `beat`, `doctor`."""

import json
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from bot.settings import Role, Settings

LANES = ("cpu", "gpu")
MACHINE = 3


def mount(app: typer.Typer) -> None:
    """Add the service's commands to `app`."""
    app.command("serve")(serve)
    app.command("worker")(worker)
    app.command("beat")(beat)
    app.command("doctor")(doctor)


def serve(
    host: str = typer.Option("127.0.0.1", help="Address to listen on."),
    port: int = typer.Option(8080, min=1, max=65535, help="Port to listen on."),
    sweeps: bool = typer.Option(True, help="Also do the regular chores (a lease lets one process do them)."),
) -> None:
    """Run the web service: webhooks, pages, the runner lane's API. Settings come from PRGATE_… variables."""
    settings = prepared("serve")
    from bot.app import create_app
    from bot.service import Parts
    from bot.serving import PortTakenError, serve_app
    from bot.wiring import standard_wiring

    app = create_app(settings, standard_wiring(settings, Parts(sweeps=sweeps)))
    setup = app.state.service.setup
    if setup is not None:
        address = f"{settings.public_url}/setup?token={setup.token}"
        typer.echo(f"prgate: no identity on GitHub is configured; make one at {address}", err=True)
    try:
        serve_app(app, host, port)
    except PortTakenError as error:
        typer.echo(f"prgate: {error}", err=True)
        raise typer.Exit(MACHINE) from None


def worker(
    lane: str = typer.Option("cpu", help="cpu: the bot's own jobs; gpu: the runner lane."),
    concurrency: int = typer.Option(2, min=1, max=64, help="Processes of the cpu lane."),
) -> None:
    """Run a worker. The runner lane runs pull-request code and holds no secret but its key."""
    if lane not in LANES:
        raise typer.BadParameter(f"--lane must be cpu or gpu, not {lane!r}")
    if lane == "gpu":
        run_lane()
        return
    settings = prepared("worker")
    from bot.working import work

    code = work(settings, concurrency)
    raise typer.Exit(code)


def run_lane() -> None:
    """Run the runner lane, which reads its own few settings."""
    import os

    from perf_runner.settings import SettingsError, settings_from
    from perf_runner.worker import run

    try:
        settings = settings_from(os.environ)
    except SettingsError as error:
        raise typer.BadParameter(str(error)) from None
    run(settings)


def beat() -> None:
    """Do the regular chores in the foreground; any number may run, a lease lets one do each chore."""
    settings = prepared("beat")
    from bot.working import sweep_forever

    sweep_forever(settings)


def doctor(
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document."),
) -> None:
    """Say what of the environment is ready; exit 3 where something needed is not."""
    from bot.doctor import examine
    from bot.errors import ConfigurationError
    from bot.settings import load_settings

    try:
        findings = examine(load_settings())
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from None
    if as_json:
        typer.echo(json.dumps({"schema": 1, "checks": [finding.as_json() for finding in findings]}))
    else:
        for finding in findings:
            typer.echo(finding.as_line())
    if any(finding.state == "missing" for finding in findings):
        raise typer.Exit(MACHINE)


def prepared(role: "Role") -> "Settings":
    """Return a role's settings, with logs set up. BadParameter, one line, where one is missing or wrong."""
    from bot.errors import ConfigurationError
    from bot.log import configure
    from bot.settings import load_settings, require

    try:
        settings = load_settings()
        require(settings, role)
        secrets = settings.secrets()
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from None
    configure(settings.log_level, secrets)
    require_database(settings)
    return settings


def require_database(settings: "Settings") -> None:
    """Exit 3 with one line where the database does not answer, or a newer prgate made its tables."""
    from bot.db.engine import open_engine
    from bot.db.migrate import require_known
    from bot.errors import one_line

    try:
        engine = open_engine(settings.database)
        require_known(engine)
        engine.dispose()
    except Exception as error:
        typer.echo(f"prgate: the database cannot be used: {one_line(error, 300)}", err=True)
        raise typer.Exit(MACHINE) from None
