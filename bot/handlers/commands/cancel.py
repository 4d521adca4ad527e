"""`cancel`: stops what the pull request has waiting or running on our machines."""

from datetime import datetime

from bot.actions import CancelRuns, Schedule
from bot.commands import Command
from bot.handlers.commands.shared import CommandFacts, Reply, says

WORDS = {"experiment": "measurement", "tests": "settling", "bisect": "bisect"}


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Cancel what waits, and ask what runs to stop."""
    stopped = [run for run in facts.runs if run.open]
    if not stopped:
        return says("Nothing waits or runs here.")
    words = [WORDS.get(kind, kind) for kind in dict.fromkeys(run.kind for run in stopped)]
    what = f"The {words[0]} is" if len(stopped) == 1 else f"All {len(stopped)} runs ({', '.join(words)}) are"
    looks = tuple(Schedule(verb) for verb in ("perf", "settle", "bisect"))
    return says(f"{what} stopped.", actions=(CancelRuns(f"Stopped by {facts.author}."), *looks))
