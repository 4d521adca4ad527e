"""`mine JOB because …`: somebody says that a red job is this pull request's."""

from datetime import datetime

from bot.commands import Command
from bot.handlers.commands.declare import declare
from bot.handlers.commands.shared import CommandFacts, Reply


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Keep the word."""
    return declare(facts, command, "regression")
