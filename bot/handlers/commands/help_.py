"""`help`: what the bot understands."""

from datetime import datetime

from bot.commands import Command
from bot.comments import help_text
from bot.handlers.commands.shared import CommandFacts, Reply, says


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Return the list of commands."""
    return says(help_text(facts.look.frame))
