"""The stand-in as a server: the API, the pages, and a thread that serves them."""

import pickle
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from bot.demo.github.api import create_api
from bot.demo.github.faults import Faults
from bot.demo.github.git import Git
from bot.demo.github.hub import Hub
from bot.demo.github.pages import create_pages, page_maker
from bot.demo.github.shapes import Shapes
from bot.demo.github.sign_in import create_sign_in
from bot.demo.github.state import Comment, State
from bot.demo.github.webhooks import Hooks


class StandIn:
    """A GitHub with one repository. Start it, act through `hub`, and look into `state`.

    `port` 0 takes a free one; `people` maps login to permission; `hook_url` None keeps deliveries without
    sending them. With `state_file` it goes on from where an earlier one stopped.
    """

    def __init__(
        self,
        repository: Path,
        full_name: str,
        *,
        port: int = 0,
        people: Mapping[str, str] | None = None,
        hook_url: str | None = None,
        secret: str = "standin-secret",  # noqa: S107 - guards nothing: the stand-in is for this machine
        slug: str = "prgate",
        state_file: Path | None = None,
    ) -> None:
        port = port or free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.state_file = state_file
        self.state = load(state_file) or State(full_name, slug)
        for login, permission in (people or {}).items():
            self.state.user(login).permission = permission
        faults = Faults()
        git = Git(repository)
        hooks = Hooks(self.state, hook_url, secret, faults)
        self.hub = Hub(self.state, git, Shapes(self.state, git, self.url), hooks, faults)
        self.app = create_app(self.hub)
        config = uvicorn.Config(
            self.app, host="127.0.0.1", port=port, log_level="error", lifespan="off", ws="none"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, name="standin", daemon=True)

    @property
    def faults(self) -> Faults:
        """Return what can be told to go wrong."""
        return self.hub.faults

    def start(self, timeout_s: float = 10.0) -> "StandIn":
        """Serve from a thread; RuntimeError where the port does not open."""
        self._thread.start()
        end = time.monotonic() + timeout_s
        while not self._server.started:
            if time.monotonic() > end or not self._thread.is_alive():
                raise RuntimeError(f"the stand-in GitHub cannot listen on {self.url}")
            time.sleep(0.01)
        return self

    def stop(self) -> None:
        """Stop serving and keep the state, where a file for it was named."""
        self.hub.hooks.close()
        self._server.should_exit = True
        self._thread.join(timeout=5)
        self.save()

    def save(self) -> None:
        """Write the state to its file."""
        if self.state_file is not None:
            draft = self.state_file.with_suffix(".new")
            draft.write_bytes(pickle.dumps(self.state))
            draft.replace(self.state_file)

    def bot_comments(self, number: int) -> list[Comment]:
        """Return what the bot wrote on a pull request, oldest first."""
        ours = {f"{self.state.slug}[bot]", *self.state.accounts.values()}
        return [comment for comment in self.state.comments_of(number) if comment.user in ours]

    def __enter__(self) -> "StandIn":
        """Start serving."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop serving."""
        self.stop()


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def load(state_file: Path | None) -> State | None:
    """Return the state that an earlier stand-in of this user kept."""
    if state_file is None or not state_file.exists():
        return None
    found = pickle.loads(state_file.read_bytes())  # noqa: S301 - written by ourselves, in our own folder
    if not isinstance(found, State):
        return None
    found.__dict__.setdefault("made", [])  # an earlier version kept no such list
    return found


def create_app(hub: Hub) -> FastAPI:
    """Return the whole server: the API below `/api/v3` and `/api`, the pages, and the ways to sign in."""
    app = FastAPI(openapi_url=None)
    page = page_maker(hub)
    app.include_router(create_sign_in(hub, page))
    api = create_api(hub)
    app.mount("/api/v3", api)
    app.mount("/api", api)
    app.include_router(create_pages(hub, page))
    return app
