"""What the bot would post on a pull request, read from GitHub and written nowhere."""

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from bot.actions import Action, RequestReview, SetCheck, SetLabels, UpsertComment
from bot.clients import Clients
from bot.db.engine import open_engine, open_sessions
from bot.db.models import Base, Repository
from bot.dispatch import LOOK, JobSpec, Table
from bot.github import GitHubFault, Identity, RepoClient, connect, identity
from bot.settings import Settings

NUMBER = re.compile(r"[1-9][0-9]{0,8}")
REFERENCE = re.compile(
    r"^(?:https?://[^/\s]+/)?([\w.-]{1,100}/[\w.-]{1,100})(?:/pull/|#)(\d{1,9})(?:[/?#].*)?$"
)
REMOTE = re.compile(r"[:/]([\w.-]{1,100}/[\w.-]{1,100}?)(?:\.git)?/?$")
NOBODY = Identity("prgate[bot]", "prgate", True)


@dataclass(frozen=True, slots=True)
class Planned:
    """One thing that a handler would do on GitHub."""

    verb: str
    action: Action


class Reader(RepoClient):
    """A client that only reads. Whom it may not ask about counts as able to review."""

    def permission(self, login: str) -> str:
        """Return the permission, or `write` where only a member may ask."""
        try:
            found = self.get(f"/collaborators/{login}/permission")
        except GitHubFault:
            return "write"
        return super().permission(login) if found else "none"

    def write(self, verb: str, path: str, body: object = None) -> object:
        """Refuse. RuntimeError: a preview that writes is a fault of ours."""
        raise RuntimeError(f"a preview must not write ({verb} {path})")


class ReadingClients(Clients):
    """What handlers reach for, with a client that only reads."""

    @property
    def mirrors(self) -> Path | None:
        """None: a preview leaves nothing behind."""
        return None

    @cached_property
    def github(self) -> RepoClient:
        """The reading client; without credentials public repositories can be read."""
        login = self.credentials
        who = identity(login) if login.is_app or login.token else NOBODY
        return Reader(connect(login, self.installation_id), self.repository.full_name, who)


def parse_reference(text: str, remote: str | None = None) -> tuple[str, int] | None:
    """Return repository and number of a URL, `org/name#N`, or a bare number beside a git remote's URL."""
    found = REFERENCE.match(text.strip())
    if found:
        return (found[1], int(found[2])) if NUMBER.fullmatch(found[2]) else None
    home = REMOTE.search(remote or "")
    number = text.strip().lstrip("#")
    return (home[1], int(number)) if home and NUMBER.fullmatch(number) else None


def preview(full_name: str, number: int, settings: Settings, table: Table) -> list[Planned]:
    """Return what every look at the pull request would write, in order.

    LookupError where there is no such repository or pull request; GitHubFault where it cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="prgate-preview-") as folder:
        engine = open_engine(f"sqlite:///{Path(folder) / 'preview.db'}")
        try:
            Base.metadata.create_all(engine)
            sessions = open_sessions(engine)
            spec = JobSpec("route", 1, number)
            clients = ReadingClients(sessions, settings, datetime.now(UTC), spec)
            with sessions() as session:
                session.add(Repository(id=1, full_name=full_name, default_branch="main", private=False))
                session.commit()
            if clients.github.pull(number) is None:
                raise LookupError(f"{full_name} has no pull request {number} that can be read")
            return list(plans(clients, table))
        finally:
            engine.dispose()


def plans(clients: ReadingClients, table: Table) -> Iterator[Planned]:
    """Yield the GitHub actions of each verb."""
    for verb in LOOK:
        spec = JobSpec(verb, clients.spec.repo_id, clients.spec.number)
        facts = table[verb].gather(spec, clients)
        if facts is not None:
            yield from (Planned(verb, one) for one in table[verb].decide(facts, clients.now) if is_shown(one))


def is_shown(action: Action) -> bool:
    """Say whether an action would be seen on GitHub; a comment that is only edited is not made."""
    if isinstance(action, UpsertComment):
        return not action.only_edit
    return isinstance(action, RequestReview | SetCheck | SetLabels)


def describe(planned: Sequence[Planned]) -> str:
    """Return the plan as text: comments whole, the rest in a line each."""
    return "\n\n".join(paragraph(one) for one in planned) or "It would write nothing."


def paragraph(planned: Planned) -> str:
    """Return one planned action as text."""
    action = planned.action
    if isinstance(action, UpsertComment):
        return f"--- comment ({action.marker})\n{action.body.rstrip()}"
    if isinstance(action, RequestReview):
        return f"--- review requests: {', '.join(action.logins)}"
    if isinstance(action, SetLabels):
        return f"--- labels: {', '.join(action.add)}"
    assert isinstance(action, SetCheck)
    return f"--- check {action.name}: {action.conclusion or action.status}, {action.title}"
