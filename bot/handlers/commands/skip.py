"""`skip`: passes somebody over on this pull request."""

from datetime import datetime

from bot.actions import Record, Schedule, WithdrawReview
from bot.commands import Command
from bot.handlers.commands.shared import CommandFacts, Reply, says


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Take the request back, remember it, and let routing find somebody else."""
    logins = [*facts.memory("skip").get("logins", ()), facts.author]
    return says(
        "You are passed over here; somebody else is looked for.",
        actions=(
            Record("skip", {"logins": list(dict.fromkeys(logins))}),
            WithdrawReview((facts.author,)),
            Schedule("route"),
        ),
    )
