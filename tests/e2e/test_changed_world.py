"""The same deliveries in another world: every answer must change with the facts it rests on."""

import pytest

from bot.demo.replay import Replay
from bot.demo.target import World
from bot.demo.world import EmbeddedWorld
from tests.e2e.reading import markers, note, perf_check


@pytest.fixture(scope="module")
def told() -> World:
    return World(gate_in_culprit=True, gate_in_fix=False, main_green=True, integration_owner="owner-07")


@pytest.fixture(scope="module")
def played(world: EmbeddedWorld) -> EmbeddedWorld:
    Replay(world, lambda _: None).play()
    return world


@pytest.fixture(scope="module")
def first(played: EmbeddedWorld) -> dict[str, str]:
    """What stood in the fix's thread before anything else happened in it."""
    number = played.recording.fix.number
    return {marker: note(played, number, marker) for marker in ("route", "triage", "ci", "perf")}


@pytest.fixture(scope="module", autouse=True)
def read_first(first: dict[str, str]) -> None:
    """Read the thread before any test moves it."""


@pytest.fixture(scope="module")
def fix(played: EmbeddedWorld) -> int:
    return played.recording.fix.number


def test_with_the_gate_in_it_the_culprit_is_no_regression(played: EmbeddedWorld) -> None:
    culprit = played.recording.culprit.number
    assert "slower" not in note(played, culprit, "perf").splitlines()[1]
    assert perf_check(played, culprit).conclusion == "success"


def test_without_its_gate_the_fix_is_no_improvement(first: dict[str, str]) -> None:
    title = first["perf"].splitlines()[1]
    assert "faster" not in title
    assert "slower" not in title


def test_with_main_green_the_red_is_not_unrelated(first: dict[str, str]) -> None:
    body = first["ci"]
    assert "0 unrelated" in body
    assert "Nothing for you to fix" not in body


def test_another_owner_on_the_page_is_another_person_asked(
    played: EmbeddedWorld, fix: int, first: dict[str, str]
) -> None:
    assert "@owner-07" in first["route"]
    assert "owner-07" in played.github.hub.require_pull(fix).requested


def test_a_new_commit_moves_every_note_and_a_green_status_turns_the_ci_note(
    played: EmbeddedWorld, fix: int
) -> None:
    hub = played.github.hub
    old, new = hub.require_pull(fix).head_sha, played.target.fix_next
    hub.push(played.recording.fix.branch, new, "author-01")
    played.settle()
    for marker in ("route", "triage", "ci", "perf"):
        assert new[:12] in note(played, fix, marker).splitlines()[-1], marker
        assert old[:12] not in note(played, fix, marker).splitlines()[-1], marker
    assert "is running on this head" in note(played, fix, "ci")
    for context in played.recording.required:
        hub.set_status(new, context, "success", "buildkite[bot]")
    played.settle()
    assert "CI is green on this head" in note(played, fix, "ci")
    assert all(count == 1 for count in markers(played, fix).values())
