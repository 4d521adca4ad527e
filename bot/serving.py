"""Runs the web application until a signal: SIGTERM finishes what is under way, writes the inbox, ends."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

DRAIN_LIMIT_S = 30
BACKLOG = 2048
ENDING = (signal.SIGINT, signal.SIGTERM)


class PortTakenError(RuntimeError):
    """The address cannot be listened on; the text says why."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to the address (port 0: any). PortTakenError where it is not free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise PortTakenError(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another with --port"
        ) from None
    bound.set_inheritable(True)
    return bound


class Server(uvicorn.Server):
    """A server that ends with exit code 0 after a signal; uvicorn's own raises the signal again.

    `before_end` is called on the event loop when it is told to end, before it waits for open answers.
    """

    before_end: Callable[[], None] | None = None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what streams for ever, then drain the rest."""
        if self.before_end is not None:
            self.before_end()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let SIGINT and SIGTERM drain the server; outside the main thread signals are somebody else's."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in ENDING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def make_server(app: FastAPI) -> Server:
    """Return the server of an application; its logs are ours."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=DRAIN_LIMIT_S,
        lifespan="on",
    )
    server = Server(config)
    service = getattr(app.state, "service", None)
    if service is not None:
        server.before_end = service.live.close
    return server


def serve_app(app: FastAPI, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM. PortTakenError where the address is not free."""
    bound = listen(host, port)
    try:
        make_server(app).run(sockets=[bound])
    finally:
        bound.close()
