"""Small readings of a stand-in's thread, shared by the stories."""

from collections import Counter

from bot.demo.github.state import CheckRun
from bot.demo.replay import marker_of
from bot.demo.world import EmbeddedWorld


def note(world: EmbeddedWorld, number: int, marker: str) -> str:
    """Return the one comment of a marker."""
    (found,) = [one.body for one in world.github.bot_comments(number) if marker_of(one.body) == marker]
    return found


def markers(world: EmbeddedWorld, number: int) -> Counter[str | None]:
    """Return how often each marker stands in a thread."""
    return Counter(marker_of(one.body) for one in world.github.bot_comments(number))


def answers(world: EmbeddedWorld, number: int) -> list[str]:
    """Return the bot's answers to commands."""
    bodies = [one.body for one in world.github.bot_comments(number)]
    return [body for body in bodies if (marker_of(body) or "").startswith("answer:")]


def perf_check(world: EmbeddedWorld, number: int) -> CheckRun:
    """Return the performance check of a pull request's head."""
    pull = world.github.hub.require_pull(number)
    (found,) = [run for run in world.github.state.checks_of(pull.head_sha) if run.name == "prgate/perf"]
    return found
