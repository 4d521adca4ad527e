"""`installed`: a repository came or went."""

from dataclasses import dataclass
from datetime import datetime

from bot.actions import Action, Schedule
from bot.clients import Clients
from bot.db.models import Repository
from bot.dispatch import LOOK, Handler, JobSpec
from bot.github import installation_of

MOST_PULLS = 100


@dataclass(frozen=True, slots=True)
class InstalledFacts:
    """The open pull requests of a repository that came, the newest first."""

    numbers: tuple[int, ...]


def gather(spec: JobSpec, clients: Clients) -> InstalledFacts | None:
    """Keep the repository's row, and read its open pull requests; one that went is marked as gone."""
    what, installation, full_name = spec.subject.split(":", 2)
    there = is_there(what, full_name, clients)
    with clients.sessions() as session:
        row = session.get(Repository, spec.repo_id)
        if not there:
            if row is not None:
                row.removed_at = row.removed_at or clients.now
            session.commit()
            return None
        row = row or Repository(id=spec.repo_id, full_name=full_name, default_branch="main", private=False)
        row.full_name, row.removed_at = full_name, None
        row.installation_id = int(installation) if installation.isdigit() else row.installation_id
        session.merge(row)
        session.commit()
    return InstalledFacts(open_numbers(clients)) if what == "added" else None


def is_there(what: str, full_name: str, clients: Clients) -> bool:
    """Say whether we are installed on a repository: by GitHub's own word, for deliveries change places.

    A plain account cannot ask, so that the delivery counts.
    """
    if clients.credentials.is_app:
        return installation_of(clients.credentials, full_name) is not None
    return what == "added"


def open_numbers(clients: Clients) -> tuple[int, ...]:
    """Return the repository's open pull requests as GitHub lists them."""
    found = []
    for pull in clients.github.pages("/pulls", {"state": "open", "sort": "updated", "direction": "desc"}):
        found.append(int(pull["number"]))
        if len(found) >= MOST_PULLS:
            break
    return tuple(found)


def decide(facts: InstalledFacts, now: datetime) -> list[Action]:
    """Look at each of them once."""
    return [Schedule(verb, number) for number in facts.numbers for verb in LOOK]


HANDLER = Handler("installed", gather, decide, lambda facts: None)
