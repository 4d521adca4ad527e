"""Which jobs an event asks for, and which handler does a job."""

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bot.actions import Action, Target
from bot.events import (
    CommentEvent,
    Event,
    InstallationEvent,
    IssueEvent,
    PullRequestEvent,
    PushEvent,
    ReviewEvent,
    ShaEvent,
)

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


class LeaseLost(Exception):  # noqa: N818 - it is what happened
    """The job is another worker's by now: write nothing more about it, neither to GitHub nor to its rows."""


class UserError(Exception):
    """Something a person must put right; its text may be shown to them. The job is done, not retried."""


LOOK = ("route", "triage", "ci", "perf")
PULL_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "opened": LOOK,
    "reopened": LOOK,
    "synchronize": LOOK,
    "ready_for_review": LOOK,
    "converted_to_draft": LOOK,
    "edited": LOOK,
    "labeled": LOOK,
    "unlabeled": LOOK,
    "assigned": ("triage",),
    "review_requested": ("route",),
    "review_request_removed": ("route",),
    "closed": ("closed",),
}
ISSUE_ACTIONS = frozenset({"labeled", "unlabeled", "closed", "reopened"})
OWN_CONTEXT = "prgate"
CLAIM = re.compile(r"\b(?:unrelated|not related|flaky|flake|pre-?existing|not caused)\b", re.IGNORECASE)


def jobs_for(event: Event, own_logins: Collection[str] = ()) -> list[JobSpec]:
    """Return the jobs an event asks for: pure; none for what nobody cares about.

    An event only says "look at it": what is there now is read again by the job. `own_logins` are the
    accounts this bot writes as; what they do asks for nothing.
    """
    if isinstance(event, InstallationEvent):
        return installation_jobs(event)
    if event.repo is None or event.sender.login in own_logins:
        return []
    if isinstance(event, PullRequestEvent) and event.number is not None:
        return looks(event.repo.id, event.number, PULL_ACTIONS.get(event.action, ()))
    if isinstance(event, CommentEvent) and event.number is not None:
        return comment_jobs(event, event.repo.id, event.number)
    return expansion(event, event.repo.id)


def looks(repo_id: int, number: int, verbs: Sequence[str]) -> list[JobSpec]:
    """Return one coalescing job a verb: events during a run queue exactly one more look."""
    return [look(verb, repo_id, number) for verb in verbs]


def look(verb: str, repo_id: int, number: int, not_before: datetime | None = None) -> JobSpec:
    """Return a coalescing job about one pull request."""
    return JobSpec(verb, repo_id, number, dedupe_key=f"{verb}:{repo_id}:{number}", not_before=not_before)


def comment_jobs(event: CommentEvent, repo_id: int, number: int) -> list[JobSpec]:
    """Return a command's job, once per comment, and a look at what words may change (self-review, LGTM)."""
    if event.author.type == "Bot" or event.by_app or event.action in ("deleted", "dismissed"):
        return looks(repo_id, number, ("route",)) if event.action in ("deleted", "dismissed") else []
    jobs = looks(repo_id, number, verbs_for_words(event))
    if "@" not in event.body:
        return jobs
    subject = f"{event.kind}:{event.comment_id}"
    # An edit may only add commands: the handler leaves out those that this comment already gave.
    edit = f":{hashlib.sha256(event.body.encode()).hexdigest()[:12]}" if event.action == "edited" else ""
    return [JobSpec("command", repo_id, number, subject, dedupe_key=f"command:{subject}{edit}"), *jobs]


def verbs_for_words(event: CommentEvent) -> tuple[str, ...]:
    """Return the looks that a person's words call for: a claim about a red check means a look again."""
    verbs = ("route", "triage") if isinstance(event, ReviewEvent) else ("route",)
    return (*verbs, "ci") if CLAIM.search(event.body[:20_000]) else verbs


def expansion(event: Event, repo_id: int) -> list[JobSpec]:
    """Return the job that finds the pull requests behind a commit, a branch or an issue."""
    subject = expansion_subject(event)
    if subject is None:
        return []
    return [JobSpec("expand", repo_id, None, subject, dedupe_key=f"expand:{repo_id}:{subject}")]


def expansion_subject(event: Event) -> str | None:
    """Return what must be looked up, or None where the event concerns no pull request."""
    if isinstance(event, ShaEvent) and event.name == "merge_group":
        return f"group:{event.sha}:{event.branch}" if event.action == "checks_requested" else None
    if isinstance(event, ShaEvent):
        return None if event.context.startswith(OWN_CONTEXT) else f"sha:{event.sha}"
    if isinstance(event, PushEvent) and event.branch:
        return f"branch:{event.branch}"
    if isinstance(event, IssueEvent) and event.action in ISSUE_ACTIONS:
        return f"issue:{event.issue}"
    return None


def installation_jobs(event: InstallationEvent) -> list[JobSpec]:
    """Return one job per repository that came or went."""
    came = [(repo, "added") for repo in event.added]
    gone = [(repo, "removed") for repo in event.removed]
    return [
        JobSpec(
            "installed",
            repo.id,
            None,
            f"{what}:{event.installation_id}:{repo.full_name}",
            dedupe_key=f"installed:{repo.id}:{what}",
        )
        for repo, what in [*came, *gone]
    ]


def run(spec: JobSpec, clients: "Clients", table: Table) -> None:
    """Do one job: gather, decide, apply. Raises RetryLater, UserError, or what went wrong on the way.

    Where the head moved meanwhile, what was decided is dropped and the pull request looked at again.
    KeyError for a verb that the table lacks.
    """
    from bot.apply import HeadMoved, apply  # these import the client; parsing an event does not need it

    handler = table[spec.verb]
    for last in (False, False, True):
        facts = handler.gather(spec, clients)
        if facts is None:
            return
        try:
            apply(handler.decide(facts, clients.now), handler.target(facts), spec, clients)
            return
        except HeadMoved:
            if last:
                raise


def default_table() -> Table:
    """Return every verb's handler."""
    from bot.handlers import HANDLERS

    return HANDLERS
