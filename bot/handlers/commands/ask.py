"""`ask`: requests the next owner."""

from datetime import datetime

from bot.actions import Record, Schedule
from bot.commands import Command
from bot.handlers.commands.shared import CommandFacts, Reply, says


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Count one more wish; routing picks the person."""
    count = int(facts.memory("ask").get("count", 0)) + 1
    return says(
        "The next owner in line is requested; the routing comment names them.",
        actions=(Record("ask", {"count": count, "by": facts.author}), Schedule("route")),
    )
