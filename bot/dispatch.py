"""Which jobs an event asks for, and which handler does a job."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bot.actions import Action, Target

if TYPE_CHECKING:
    from bot.clients import Clients


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One unit of work about a repository or one of its pull requests.

    `subject` narrows it (a comment id, a sha, a run id). While a job of `dedupe_key` waits, no second one is
    added; a command keeps its key for ever, every other verb's key is freed when the job is claimed.
    """

    verb: str
    repo_id: int
    number: int | None = None
    subject: str = ""
    dedupe_key: str | None = None
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Handler:
    """A verb: `gather` does the reading, `decide` is pure, and `target` says what the actions are about.

    `target` None means that there is nothing to write to GitHub (its actions may only be `Schedule`s).
    """

    verb: str
    gather: Callable[[JobSpec, "Clients"], Any]
    decide: Callable[[Any, datetime], Sequence[Action]]
    target: Callable[[Any], Target | None]


Table = Mapping[str, Handler]


class RetryLater(Exception):  # noqa: N818 - it says what to do, it is no fault
    """The job is well but must wait (pace, Retry-After): run it again at `at`; it costs no attempt."""

    def __init__(self, at: datetime, why: str = "") -> None:
        super().__init__(why or f"not before {at.isoformat()}")
        self.at = at


class UserError(Exception):
    """Something a person must put right; its text may be shown to them. The job is done, not retried."""


def run(spec: JobSpec, clients: "Clients", table: Table) -> None:
    """Do one job: gather, decide, apply. Raises RetryLater, UserError, or what went wrong on the way.

    KeyError for a verb that the table lacks.
    """
    from bot.apply import (
        apply,
    )  # applying imports the database and the client, parsing an event needs neither

    handler = table[spec.verb]
    facts = handler.gather(spec, clients)
    if facts is None:
        return
    actions = handler.decide(facts, clients.now)
    apply(actions, handler.target(facts), spec, clients)


def default_table() -> Table:
    """Return every verb's handler."""
    from bot.handlers import HANDLERS

    return HANDLERS
