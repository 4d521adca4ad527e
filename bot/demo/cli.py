"""The command `demo`."""

import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from bot.demo.world import EmbeddedWorld

MACHINE = 3
DEFAULT_FOLDER = ".prgate/demo"


def mount(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("demo")(demo)


def demo(
    once: bool = typer.Option(False, "--once", help="End after the replay."),
    port: int = typer.Option(
        8090, min=1, max=65534, help="The service's port; the stand-in GitHub takes the next."
    ),
    folder: str = typer.Option(DEFAULT_FOLDER, help="Where the world's state lives."),
    fresh: bool = typer.Option(False, "--fresh", help="Forget an earlier run first."),
) -> None:
    """Start the embedded world, replay the recorded pull requests, and show what prgate says."""
    for wanted in (port, port + 1):
        if not is_free(wanted):
            raise typer.BadParameter(
                f"port {wanted} is taken; choose two free ones with --port N (N and N+1)"
            )
    try:
        run(Path(folder).resolve(), port, once=once, fresh=fresh)
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)


def run(folder: Path, port: int, *, once: bool, fresh: bool) -> None:
    """Run the world; exit 3 with one line where a part of it does not work."""
    from bot.demo.children import ChildDied
    from bot.demo.folder import claim_folder
    from bot.demo.redis_child import NoRedisError
    from bot.demo.world import EmbeddedWorld

    stop_on_sigterm()
    try:
        require_tools()
        claimed = claim_folder(folder, fresh=fresh)
        unsandboxed = not sandbox_works()
        with claimed, EmbeddedWorld(folder, port, unsandboxed=unsandboxed) as world:
            played = play(world)
            if not once:
                serve_until_stopped(world)
    except (ChildDied, NoRedisError, RuntimeError, TimeoutError, OSError) as error:
        typer.echo(f"prgate: {error}", err=True)
        played = False
    if not played:
        raise typer.Exit(MACHINE)


def stop_on_sigterm() -> None:
    """Let SIGTERM end the demo as Ctrl-C does, so that none of its processes stays behind."""
    import signal

    signal.signal(signal.SIGTERM, signal.default_int_handler)


def require_tools() -> None:
    """Raise RuntimeError, one line, where git is missing."""
    import shutil

    if shutil.which("git") is None:
        raise RuntimeError("git is missing: install it and run this again")


def sandbox_works() -> bool:
    """Say whether code can be confined here; the demo's own code alone may run without."""
    from perf_runner.sandbox import SandboxUnavailableError, find_sandbox

    try:
        find_sandbox()
    except SandboxUnavailableError as error:
        typer.echo(f"NOT SANDBOXED: {error}. The demo runs its own code all the same; a service never does.")
        return False
    return True


def play(world: "EmbeddedWorld") -> bool:
    """Replay, printing what comes; say whether every comment came out."""
    from bot.demo.past import remember_past
    from bot.demo.replay import Replay
    from bot.demo.show import Watcher, goodbye, thread

    began = time.monotonic()
    writes = len(world.github.state.writes())

    def said(who: str, what: str) -> None:
        typer.echo(f"{time.monotonic() - began:6.1f} s  {who}{what}")

    replay = Replay(world, lambda what: said("▸ ", what))
    with Watcher(world, lambda what: said("  @prgate ", what)):
        replay.play()
    remember_past(world)
    missing = replay.missing()
    typer.echo(thread(world))
    typer.echo(goodbye(world))
    written = len(world.github.state.writes()) - writes
    typer.echo(f"{written} writes to GitHub in {time.monotonic() - began:.0f} s")
    for name in missing:
        typer.echo(f"prgate: missing: {name}", err=True)
    return not missing


def serve_until_stopped(world: "EmbeddedWorld") -> None:
    """Keep serving, watching the processes, until Ctrl-C."""
    from bot.demo.show import Watcher

    typer.echo("Serving until Ctrl-C.")
    with Watcher(world, lambda what: typer.echo(f"  @prgate {what}")):
        while True:
            for child in world.children:
                child.check()
            time.sleep(0.5)


def is_free(port: int) -> bool:
    """Say whether nobody listens on a port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
