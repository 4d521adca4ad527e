"""The recorded mix: what a stand-in GitHub sends in the life of eight pull requests, told about many more."""

import hashlib
import hmac
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.demo.github import StandIn
from tests.faults.repository import FULL_NAME, PEOPLE, PULLS, build
from tests.faults.script import steps

SECRET = "secret-of-the-load"
# Ids of one copy of the mix and the next lie so far apart.
STRIDE = 10_000_000


@dataclass(frozen=True)
class Recorded:
    """One delivery as GitHub would send it."""

    event: str
    body: bytes


def record(folder: Path) -> tuple[Recorded, ...]:
    """Return the deliveries of the recorded lives, in their order."""
    repository = folder / "engine.git"
    build(repository)
    with StandIn(repository, FULL_NAME, port=0, people=PEOPLE) as github:
        for step in steps():
            step.does(github.hub)
        return tuple(Recorded(one.event, one.body) for one in github.state.deliveries)


def copies(mix: Sequence[Recorded], count: int) -> list[Recorded]:
    """Return the mix and copies of it, each about pull requests and comments of its own."""
    return [Recorded(one.event, moved(one.body, copy)) for copy in range(count) for one in mix]


def moved(body: bytes, copy: int) -> bytes:
    """Return a payload about other pull requests."""
    return json.dumps(shifted(json.loads(body), copy, "")).encode()


def shifted(value: Any, copy: int, inside: str) -> Any:
    """Return a payload with its numbers of pull requests, and the ids of its comments, moved."""
    if isinstance(value, dict):
        found = {name: shifted(inner, copy, name) for name, inner in value.items()}
        if isinstance(found.get("number"), int):
            found["number"] += copy * PULLS
        if inside in ("comment", "review") and isinstance(found.get("id"), int):
            found["id"] += copy * STRIDE
        return found
    return [shifted(inner, copy, inside) for inner in value] if isinstance(value, list) else value


def requests(deliveries: Sequence[Recorded]) -> Iterator[bytes]:
    """Yield signed requests for ever: the deliveries over and over, each time under a new id."""
    signed = [(one, signature(one.body)) for one in deliveries]
    while True:
        for one, sign in signed:
            yield (
                "POST /webhooks/github HTTP/1.1\r\nHost: load\r\nContent-Type: application/json\r\n"
                f"X-GitHub-Event: {one.event}\r\nX-GitHub-Delivery: {uuid.uuid4()}\r\n"
                f"X-Hub-Signature-256: {sign}\r\nContent-Length: {len(one.body)}\r\n\r\n"
            ).encode() + one.body


def signature(body: bytes) -> str:
    """Return GitHub's signature of a body."""
    return "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
