"""`cancel`: stops the pull request's measurements."""

from datetime import datetime

from bot.actions import CancelRuns, Schedule
from bot.commands import Command
from bot.handlers.commands.shared import CommandFacts, Reply, says


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Cancel what waits, and ask what runs to stop."""
    count = sum(run.open for run in facts.runs)
    if not count:
        return says("Nothing waits or runs here.")
    what = "The measurement is" if count == 1 else f"All {count} measurements are"
    return says(f"{what} stopped.", actions=(CancelRuns(f"Stopped by {facts.author}."), Schedule("perf")))
