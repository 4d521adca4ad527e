"""Carries out what a decision asks for: each action idempotent, nothing for a head that moved.

First what GitHub shall show, then, in one transaction, what we keep: a worker that is killed on the way has
kept nothing, so that the next try decides the same again and finds done what was done.
"""

from collections.abc import Callable, Sequence
from functools import singledispatchmethod

from sqlalchemy.orm import Session

from bot import checks, issues, rerunning, reviews, runs_queue, store
from bot.actions import (
    Action,
    CancelRuns,
    EnqueueRun,
    KeepEpisode,
    Mode,
    React,
    Record,
    Redeliver,
    RequestReview,
    RetryJob,
    Schedule,
    SetCheck,
    SetLabels,
    SetOverride,
    SubmitReview,
    Target,
    UpsertComment,
    UpsertIssue,
    WithdrawReview,
)
from bot.clients import Clients
from bot.commenting import upsert
from bot.dispatch import JobSpec, look
from bot.github import GitHubFault, connect
from bot.jobs import enqueue
from bot.nightly.kept import keep_episode, remember_issue
from bot.pulls import head_of

# Written to our own database alone: they need no look at the head, and shadow mode does them too.
QUIET = (Record, Schedule, SetOverride, CancelRuns, KeepEpisode)
# What is kept in our database, after everything else. A run is for one head, and none in shadow mode.
KEPT = (*QUIET, EnqueueRun)


class HeadMoved(Exception):  # noqa: N818 - nothing is wrong, the decision is merely old
    """The pull request has a newer head (or is gone): what was decided must not be written."""


def apply(actions: Sequence[Action], target: Target | None, spec: JobSpec, clients: Clients) -> None:
    """Carry out the actions in order. HeadMoved before the first write where the head is another one.

    RetryLater where GitHub or the pace asks to wait: what was done is found done by the next try. LeaseLost
    where another worker has the job by now: the rest is left to that one.
    """
    if target is None:
        for action in actions:
            if isinstance(action, Redeliver):
                redeliver(action, clients)
        with clients.sessions() as session:
            enqueue(session, [job_of(action, spec) for action in actions if isinstance(action, Schedule)])
            clients.keep(session)
        return
    wanted = [action for action in actions if target.mode is not Mode.SHADOW or isinstance(action, QUIET)]
    writer = Writer(target, spec, clients)
    if any(not isinstance(action, QUIET) for action in wanted):
        writer.require_head()
    for action in wanted:
        if not isinstance(action, KEPT):
            clients.require_lease()
            writer.carry_out(action)
    keep([action for action in wanted if isinstance(action, KEPT)], target, spec, clients)


def keep(actions: Sequence[Action], target: Target, spec: JobSpec, clients: Clients) -> None:
    """Keep what was decided, all of it or nothing; LeaseLost, and nothing kept, where the job is not ours."""
    if not actions:
        return
    with clients.sessions() as session:
        keeper = Keeper(session, target, spec, clients)
        for action in actions:
            keeper.keep(action)
        clients.keep(session)


def redeliver(action: Redeliver, clients: Clients) -> None:
    """Ask for deliveries again; one that GitHub has forgotten is lost."""
    app = connect(clients.credentials, None)  # no installation's pace: the App itself asks
    for delivery_id in action.delivery_ids:
        try:
            app.write("POST", f"/app/hook/deliveries/{delivery_id}/attempts")
        except GitHubFault as fault:
            if fault.status not in (404, 422):
                raise


def job_of(action: Schedule, spec: JobSpec) -> JobSpec:
    """Return the job of a `Schedule`."""
    number = action.number if action.number is not None else spec.number
    if number is None or action.subject:
        key = f"{action.verb}:{spec.repo_id}:{number or 0}:{action.subject}"
        return JobSpec(action.verb, spec.repo_id, number, action.subject, key, action.not_before)
    return look(action.verb, spec.repo_id, number, action.not_before)


class Keeper:
    """Writes what is kept about one target into one transaction."""

    def __init__(self, session: Session, target: Target, spec: JobSpec, clients: Clients) -> None:
        self.session = session
        self.target = target
        self.spec = spec
        self.now = clients.now

    @singledispatchmethod
    def keep(self, action: Action) -> None:
        """Keep one action. TypeError for a kind that is not known."""
        raise TypeError(f"{type(action).__name__} is no action that is kept")

    @keep.register
    def _(self, action: EnqueueRun) -> None:
        runs_queue.enqueue(action, self.target, self.session, self.now)

    @keep.register
    def _(self, action: CancelRuns) -> None:
        runs_queue.cancel(action, self.target, self.session, self.now)

    @keep.register
    def _(self, action: Record) -> None:
        store.record(self.session, self.target, action.kind, action.value, action.evidence, self.now)

    @keep.register
    def _(self, action: SetOverride) -> None:
        store.add_override(self.session, self.target, action, self.now)

    @keep.register
    def _(self, action: KeepEpisode) -> None:
        keep_episode(self.session, self.target.repo_id, action)

    @keep.register
    def _(self, action: Schedule) -> None:
        enqueue(self.session, [job_of(action, self.spec)])


class Writer:
    """Carries out on GitHub what is about one target."""

    def __init__(self, target: Target, spec: JobSpec, clients: Clients) -> None:
        self.target = target
        self.spec = spec
        self.clients = clients
        self._head_seen = False

    def require_head(self) -> None:
        """Read the head once, just before the first write to GitHub; HeadMoved where it is another one."""
        if self._head_seen:
            return
        if not self.spec.number:  # a merge group's commit, or the nights: no pull request's head
            self._head_seen = True
            return
        now = head_of(self.clients.github, self.target.number)
        if now is None or now[0] != self.target.head_sha:
            raise HeadMoved(f"{self.target.full_name}#{self.target.number} left {self.target.head_sha[:12]}")
        self._head_seen = True

    @singledispatchmethod
    def carry_out(self, action: Action) -> None:
        """Do one action. TypeError for a kind that is not known."""
        raise TypeError(f"{type(action).__name__} is no action")

    @carry_out.register
    def _(self, action: UpsertComment) -> None:
        upsert(action, self.target, self.clients)

    @carry_out.register
    def _(self, action: React) -> None:
        kind = "pulls" if action.review_comment else "issues"
        path = f"/{kind}/comments/{action.comment_id}/reactions"
        self.tolerate(lambda: self.clients.github.write("POST", path, {"content": action.content}), 404, 422)

    @carry_out.register
    def _(self, action: SetCheck) -> None:
        checks.set_check(action, self.target, self.clients.github)

    @carry_out.register
    def _(self, action: RequestReview) -> None:
        reviews.request(action.logins, self.target, self.clients.github)

    @carry_out.register
    def _(self, action: WithdrawReview) -> None:
        reviews.withdraw(action.logins, self.target, self.clients.github)

    @carry_out.register
    def _(self, action: SetLabels) -> None:
        reviews.set_labels(action, self.target, self.clients.github)

    @carry_out.register
    def _(self, action: SubmitReview) -> None:
        reviews.submit(action, self.target, self.clients.github)

    @carry_out.register
    def _(self, action: RetryJob) -> None:
        rerunning.ask(action, self.target, self.clients)

    @carry_out.register
    def _(self, action: UpsertIssue) -> None:
        number = issues.upsert_issue(action, self.target, self.clients)
        if number is not None and number != action.number:
            remember_issue(self.clients.sessions, self.target.repo_id, action.marker, number)

    @staticmethod
    def tolerate(write: Callable[[], object], *statuses: int) -> None:
        """Do a write whose refusal does not matter (the comment was deleted meanwhile)."""
        try:
            write()
        except GitHubFault as fault:
            if fault.status not in statuses:
                raise
