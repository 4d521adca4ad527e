"""`page`: a command given on the dashboard. The same verbs, permissions and effects as in a comment.

Its answer stands in the pull request's story; the thread hears of it by the notes that change.
"""

from dataclasses import dataclass
from datetime import datetime

from bot import commands, permissions
from bot.actions import Action, Record
from bot.clients import Clients
from bot.commands import Command
from bot.dispatch import Handler, JobSpec
from bot.gathering import Look, look_at
from bot.handlers.command import KINDS, name_of, reply
from bot.handlers.commands.shared import CommandFacts
from bot.handlers.perf import read_runs

# What may be said without a comment; the others answer to what somebody wrote.
PAGE_VERBS = ("unrelated", "mine", "priority", "pause", "resume", "cancel")


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody pressed on a page: who, the words of the command, and the form that it came from."""

    login: str
    words: str
    form: str

    @property
    def subject(self) -> str:
        """Return it as a job's subject."""
        return f"{self.login}:{self.form}:{self.words}"


def order_of(subject: str) -> Order | None:
    """Return the order of a job's subject; None for another subject."""
    login, _, rest = subject.partition(":")
    form, _, words = rest.partition(":")
    return Order(login, words, form) if login and form and words else None


def job_of(order: Order, repo_id: int, number: int) -> JobSpec:
    """Return the job of an order; a form that is sent twice is one order."""
    key = f"page:{repo_id}:{number}:{order.form}"
    return JobSpec("page", repo_id, number, order.subject, dedupe_key=key)


def understood(words: str) -> Command | None:
    """Return the command of the words; None where they are none that a page may give."""
    said = commands.understand(words) if words.strip() else None
    return said if isinstance(said, Command) and said.verb in PAGE_VERBS else None


@dataclass(frozen=True, slots=True)
class PageFacts:
    """An order with what its command needs to know."""

    order: Order
    command: Command
    facts: CommandFacts

    @property
    def look(self) -> Look:
        """Return the pull request as it stands."""
        return self.facts.look


def gather(spec: JobSpec, clients: Clients) -> PageFacts | None:
    """Read the pull request and the person's permission, as of now."""
    order = order_of(spec.subject)
    command = understood(order.words) if order else None
    if order is None or command is None:
        return None
    look = look_at(spec, clients, KINDS)
    if look is None:
        return None
    level = permissions.level(clients, order.login)
    runs = read_runs(spec, clients) if command.verb == "cancel" else ()
    facts = CommandFacts(look, 0, "page", order.login, level, (command,), runs=runs)
    return PageFacts(order, command, facts)


def decide(found: PageFacts, now: datetime) -> list[Action]:
    """Return what the command does, and its answer for the story: pure."""
    if found.look.config_problems:
        return []
    answer = reply(found.command, found.facts, now)
    value = {"commands": [name_of(found.command)], "by": found.order.login, "says": list(answer.paragraphs)}
    return [*answer.actions, Record(f"page:{found.order.form}", value)]


HANDLER = Handler("page", gather, decide, lambda found: found.look.target)
