"""`resume`: lets the bot speak again."""

from datetime import datetime

from bot.actions import Record, Schedule
from bot.commands import Command
from bot.dispatch import LOOK
from bot.handlers.commands.shared import CommandFacts, Reply, says


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Forget the pause and bring every note up to date."""
    if not facts.look.paused:
        return says("I was not paused here.")
    looks = tuple(Schedule(verb) for verb in LOOK)
    return says("I am back.", actions=(Record("pause", {"paused": False, "by": facts.author}), *looks))
