"""`route`: works the owners out again."""

from datetime import datetime

from bot.actions import Schedule
from bot.commands import Command
from bot.handlers.commands.shared import CommandFacts, Reply, says


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Queue the look and say what it will and will not do."""
    return says(
        "The owners are worked out again from the base branch; the routing comment is edited in place. "
        f"Who was asked is not asked twice; `{facts.at} ask` requests one more.",
        actions=(Schedule("route"),),
    )
