"""`pause`: keeps the bot silent on this pull request."""

from datetime import datetime

from bot.actions import Record
from bot.commands import Command
from bot.handlers.commands.shared import CommandFacts, Reply, says


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Remember it; notes already posted stay as they are."""
    return says(
        f"I stay silent here until `{facts.at} resume`. The dashboard goes on.",
        actions=(Record("pause", {"paused": True, "by": facts.author}),),
    )
