"""`priority LEVEL`: a maintainer's word replaces the signals."""

from datetime import datetime

from bot.actions import Record, Schedule
from bot.commands import Command
from bot.escape import code
from bot.handlers.commands.shared import CommandFacts, Reply, says
from routing.models import Level

LEVELS = (*(level.value for level in Level), "auto")


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Set or clear the level."""
    level = command.text.casefold().strip(".")
    if level not in LEVELS:
        choices = ", ".join(code(one) for one in LEVELS)
        return says(f"{code(command.text)} is no priority: say one of {choices}.")
    value = {"level": None, "by": None} if level == "auto" else {"level": level, "by": facts.author}
    says_so = "The signals decide again." if level == "auto" else f"The priority is {level} by your word."
    return says(says_so, actions=(Record("override", value), Schedule("triage")))
