"""`review`: the automated review of this head, as one review with remarks on the lines of the diff."""

from datetime import datetime

from bot.commands import Command
from bot.handlers.commands.shared import CommandFacts, Reply, says
from bot.review_note import claim_lines, review_actions


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Submit the findings; where there are none, say so in one line."""
    if facts.review is None:
        return says(facts.review_problem or "The diff of this pull request could not be read.")
    if not facts.review.findings:
        return says("The rules of the automated review find nothing to remark.", *confirmed(facts))
    return Reply((), review_actions(facts.review, facts.look.facts, facts.look.frame))


def confirmed(facts: CommandFacts) -> tuple[str, ...]:
    """Return what the description claims and its own tables confirm."""
    assert facts.review is not None
    lines = claim_lines(facts.review)
    return ("\n".join(lines),) if lines else ()
