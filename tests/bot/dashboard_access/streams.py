"""A served site, and a browser that follows its stream of changes."""

import json
import queue
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
from fastapi import FastAPI

from bot.db.engine import Sessions
from bot.db.models import Event
from bot.serving import Server, listen, make_server
from tests.bot.service.world import wait_until


@contextmanager
def served(app: FastAPI) -> Iterator[tuple[str, Server]]:
    """Serve an application from a thread, with quick streams; its address and its server."""
    app.state.service.live.look_s = 0.05
    app.state.service.live.beat_s = 0.2
    bound = listen("127.0.0.1", 0)
    server = make_server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    wait_until(lambda: server.started or not thread.is_alive(), 30, "for the server")
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}", server
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        bound.close()
        assert not thread.is_alive(), "the server did not end"


class Follower:
    """Reads one stream from a thread: whole messages, as a browser takes them apart."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None, **query: Any) -> None:
        self.messages: queue.Queue[dict[str, str]] = queue.Queue()
        self.last_id = ""
        self.status = 0
        self.ended = threading.Event()
        self._leaving = False
        self._headers = dict(headers or {})
        self._thread = threading.Thread(target=self._read, args=(f"{url}/events", query), daemon=True)
        self._thread.start()
        wait_until(lambda: self.status, 30, "for the stream")

    def _read(self, url: str, query: Mapping[str, Any]) -> None:
        try:
            with httpx.stream("GET", url, params=dict(query), headers=self._headers, timeout=60) as answer:
                self.status = answer.status_code
                fields: dict[str, str] = {}
                for line in answer.iter_lines():
                    if self._leaving:
                        return
                    if not line:
                        self._take(fields)
                        fields = {}
                    else:
                        name, _, value = line.partition(": ")
                        fields[name] = value
        except (httpx.HTTPError, RuntimeError):
            pass
        finally:
            self.ended.set()

    def _take(self, fields: dict[str, str]) -> None:
        self.last_id = fields.get("id", self.last_id)
        if "data" in fields:
            self.messages.put(fields)

    def items(self, wanted: int, limit_s: float = 30) -> list[dict[str, Any]]:
        """Return the next `wanted` changes."""
        found: list[dict[str, Any]] = []
        while len(found) < wanted:
            found += json.loads(self.messages.get(timeout=limit_s)["data"])["items"]
        return found

    def close(self) -> None:
        """Leave at the next line: a quiet stream beats."""
        self._leaving = True
        self._thread.join(timeout=30)


def happen(sessions: Sessions, repo_id: int, number: int = 1, kind: str = "ci") -> int:
    """Write one event; its id."""
    with sessions.begin() as session:
        event = Event(at=datetime.now(UTC), kind=kind, repo_id=repo_id, number=number, data={})
        session.add(event)
        session.flush()
        return event.id
