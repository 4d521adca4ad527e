"""Whole embedded worlds: real Redis, git, database, processes and HTTP."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.demo.target import World
from bot.demo.world import EmbeddedWorld


def free_ports() -> int:
    """Return a port that is free together with the next one."""
    for _ in range(100):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise RuntimeError("no two free ports beside each other")


@pytest.fixture(scope="module")
def told() -> World:
    """How history is told; a module may tell it otherwise."""
    return World()


@pytest.fixture(scope="module")
def variables() -> dict[str, str]:
    """Return settings that a module wants otherwise."""
    return {}


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, told: World, variables: dict[str, str]
) -> Iterator[EmbeddedWorld]:
    folder: Path = tmp_path_factory.mktemp("world")
    with EmbeddedWorld(folder, free_ports(), told=told, variables=variables) as world:
        yield world
