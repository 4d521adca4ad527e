"""What `unrelated` and `mine` share: a person's word on a red job, kept and shown as theirs."""

from typing import Literal

from bot.actions import Schedule, SetOverride
from bot.commands import Command
from bot.escape import code
from bot.handlers.commands.shared import CommandFacts, Reply, match_job, no_such_job, red_groups, says

REASON_LIMIT = 500


def declare(facts: CommandFacts, command: Command, verdict: Literal["unrelated", "regression"]) -> Reply:
    """Store the word and let the CI note be made again."""
    name, reason = split_reason(command.text)
    groups = red_groups(facts)
    job = match_job(name, groups)
    if job is None:
        return says(no_such_job(name, groups))
    whose = "not this pull request's" if verdict == "unrelated" else "this pull request's"
    return says(
        f"{code(job)} counts as {whose} by your word; the CI note says so.",
        actions=(SetOverride(job, verdict, facts.author, reason[:REASON_LIMIT]), Schedule("ci")),
    )


def split_reason(text: str) -> tuple[str, str]:
    """Return the job and what follows `because`."""
    lowered = text.casefold()
    at = lowered.find(" because ")
    return (text[:at].strip(), text[at + len(" because ") :].strip()) if at >= 0 else (text.strip(), "")
