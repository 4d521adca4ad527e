"""`closed`: a pull request that is over needs no runs."""

from dataclasses import dataclass
from datetime import datetime

from bot.actions import Action, CancelRuns, Record
from bot.clients import Clients
from bot.dispatch import Handler, JobSpec
from bot.gathering import Look, look_at


@dataclass(frozen=True, slots=True)
class ClosedFacts:
    """The pull request, which may have been opened again meanwhile."""

    look: Look


def gather(spec: JobSpec, clients: Clients) -> ClosedFacts | None:
    """Read the pull request; its row on the queue page is brought up to date by that."""
    look = look_at(spec, clients)
    return ClosedFacts(look) if look is not None else None


def decide(facts: ClosedFacts, now: datetime) -> list[Action]:
    """Stop its runs and note how it ended."""
    pull = facts.look.facts
    if pull.state == "open":
        return []
    how = "merged" if pull.merged else "closed"
    return [CancelRuns(f"The pull request was {how}."), Record("closed", {"how": how})]


HANDLER = Handler("closed", gather, decide, lambda facts: facts.look.target)
