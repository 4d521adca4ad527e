"""Role x command x "pushed since": every cell is stated here, and a new command fails until its cells are.

Each cell is a real comment on the stand-in, read and decided by the handler; nothing is applied, so that no
cell depends on another.
"""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bot.actions import EnqueueRun
from bot.clients import Clients
from bot.commands import MOST_COMMANDS, VERBS, Command
from bot.dispatch import JobSpec
from bot.handlers import command
from tests.bot.handlers.conftest import live

World = Any
# `asked-01` was requested for a review; `custom-01` has a role that an organisation made up.
PEOPLE = {
    "admin-01": "admin",
    "maintain-01": "maintain",
    "write-01": "write",
    "triage-01": "triage",
    "read-01": "read",
    "guest-01": "none",
    "author-01": "read",
    "asked-01": "read",
    "custom-01": "security-manager",
}
WRITERS = {"admin-01", "maintain-01", "write-01"}
TRIAGE = {*WRITERS, "triage-01"}
ALL = set(PEOPLE)
MAY: dict[str, set[str]] = {
    "help": ALL,
    "why": ALL,
    "review": TRIAGE | {"author-01"},
    "route": TRIAGE | {"author-01"},
    "ask": TRIAGE | {"author-01"},
    "skip": {"asked-01"},
    "bench": WRITERS,
    "more": WRITERS,
    "bisect": WRITERS,
    "settle": WRITERS,
    "retry": WRITERS,
    "priority": WRITERS,
    "unrelated": WRITERS,
    "mine": WRITERS | {"author-01"},
    "cancel": WRITERS | {"author-01"},
    "pause": WRITERS | {"author-01"},
    "resume": WRITERS | {"author-01"},
}
# These run code of the head: a push after the comment voids them. All others speak of no commit's code.
RUN_CODE = {"bench", "more", "bisect", "settle"}
STARTS_A_RUN = {"bench", "bisect"}  # with nothing measured before
WORDS = {
    "priority": "priority high",
    "unrelated": "unrelated Lint",
    "mine": "mine Lint",
    "bisect": "bisect short",
}


@pytest.fixture(scope="module", params=["nobody pushed", "pushed since"])
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, template: Path, private_key: str
) -> Iterator[tuple[World, bool]]:
    """A pull request with two commits, comments by everybody, and in the second world one more push."""
    folder = tmp_path_factory.mktemp("matrix")
    shutil.copytree(template, folder / "omni.git")
    with live(folder, private_key) as world:
        yield world, prepare(world, push=request.param == "pushed since")


def prepare(world: World, *, push: bool) -> bool:
    """Open the pull request, let everybody comment, and push afterwards where that is asked."""
    for login, permission in PEOPLE.items():
        world.hub.state.user(login).permission = permission
    world.verbs = ()
    world.hub.commit("gate", {"omni/layers/rope.py": "SIZE = 2\n"}, "Two", "author-01")
    world.open()
    world.hub.state.pull(1).requested.append("asked-01")
    for login in PEOPLE:
        for group in groups():
            world.hub.comment(1, login, "\n".join(f"@prgate {WORDS.get(verb, verb)}" for verb in group))
    world.receive()
    if push:
        world.hub.commit("gate", {"omni/layers/rope.py": "SIZE = 3\n"}, "Three", "author-01")
        world.receive()
    return push


def groups() -> list[list[str]]:
    """Return the commands in groups that one comment may hold."""
    verbs = list(VERBS)
    return [verbs[start : start + MOST_COMMANDS] for start in range(0, len(verbs), MOST_COMMANDS)]


def cells(world: World) -> dict[tuple[str, str], tuple[bool, list[Any]]]:
    """Return, for each person and command, whether it was allowed and what it would do."""
    found = {}
    for comment in world.hub.state.comments_of(1):
        spec = JobSpec("command", world.repo_id, 1, f"issue:{comment.id}")
        clients = Clients(world.sessions, world.settings, datetime.now(UTC), spec)
        facts = command.gather(spec, clients)
        assert facts is not None
        for said in facts.said:
            assert isinstance(said, Command), said
            reply = command.reply(said, facts, clients.now)
            refused = any(f"`{said.verb}` is for" in paragraph for paragraph in reply.paragraphs)
            found[comment.user, said.verb] = (not refused, list(reply.actions))
    return found


def test_every_command_states_its_cells() -> None:
    assert set(MAY) == set(VERBS)


def test_each_cell(told: tuple[World, bool]) -> None:
    world, pushed = told
    found = cells(world)
    assert set(found) == {(login, verb) for login in PEOPLE for verb in VERBS}
    for (login, verb), (allowed, actions) in found.items():
        cell = f"{login}, {verb}, {'pushed since' if pushed else 'not pushed'}"
        assert allowed is (login in MAY[verb]), cell
        assert allowed or not actions, cell
        runs = [action for action in actions if isinstance(action, EnqueueRun)]
        starts = allowed and verb in STARTS_A_RUN and not pushed
        assert bool(runs) is starts, cell
        assert not runs or verb in RUN_CODE, cell
