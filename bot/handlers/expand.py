"""`expand`: from a commit, a branch, an issue or a merge group to the pull requests they concern."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select

from bot import store
from bot.actions import Action, Mode, Schedule, SetCheck, Target
from bot.clients import Clients
from bot.db.models import Pull
from bot.dispatch import Handler, JobSpec
from bot.gathering import repo_config

MOST_PULLS = 100
Wanted = Callable[[Mapping[str, Any]], bool]
QUEUED_PULL = re.compile(r"/pr-(\d+)-")


@dataclass(frozen=True, slots=True)
class ExpandFacts:
    """Which pull requests a subject concerns, and the looks they need; `group` is a merge group's target."""

    numbers: tuple[int, ...]
    verbs: tuple[str, ...]
    group: Target | None = None


def gather(spec: JobSpec, clients: Clients) -> ExpandFacts | None:
    """Look the subject up."""
    kind, _, rest = spec.subject.partition(":")
    if kind == "sha":
        return ExpandFacts(by_sha(rest, clients), ("ci",))
    if kind == "branch":
        return ExpandFacts(red_pulls(rest, clients), ("ci", "triage"))
    if kind == "issue":
        return ExpandFacts(linked_pulls(rest, clients), ("triage",))
    if kind == "group":
        return merge_group(rest, clients)
    return None


def by_sha(sha: str, clients: Clients) -> tuple[int, ...]:
    """Return the open pull requests whose head is this commit: by our own rows, and by GitHub's answer."""
    with clients.sessions() as session:
        asked = select(Pull.number).where(
            Pull.repo_id == clients.spec.repo_id, Pull.head_sha == sha, Pull.state == "open"
        )
        known = list(session.scalars(asked))
    if known:
        return tuple(known)
    found = clients.github.get(f"/commits/{sha}/pulls") or ()
    return tuple(one["number"] for one in found if one.get("state") == "open" and one["head"]["sha"] == sha)


def open_pulls(clients: Clients, branch: str | None = None) -> list[int]:
    """Return the open pull requests that we know, of one base branch where it is given."""
    asked = select(Pull.number).where(Pull.repo_id == clients.spec.repo_id, Pull.state == "open")
    if branch is not None:
        asked = asked.where(Pull.base_ref == branch)
    with clients.sessions() as session:
        return list(session.scalars(asked.order_by(Pull.updated_at.desc()).limit(MOST_PULLS)))


def red_pulls(branch: str, clients: Clients) -> tuple[int, ...]:
    """Return the pull requests onto a branch whose CI was judged red: the branch's news may change that."""
    return tuple(keep(open_pulls(clients, branch), "ci", lambda value: bool(value.get("red")), clients))


def linked_pulls(issue: str, clients: Clients) -> tuple[int, ...]:
    """Return the pull requests whose priority counted this issue."""
    marker = f"#{issue} "
    return tuple(
        keep(
            open_pulls(clients),
            "priority",
            lambda value: any(marker in f"{one.get('signal', '')} " for one in value.get("reasons", ())),
            clients,
        )
    )


def keep(numbers: Iterable[int], kind: str, wanted: Wanted, clients: Clients) -> list[int]:
    """Return those pull requests whose latest decision of a kind is `wanted`."""
    with clients.sessions() as session:
        values = {
            number: store.latest_value(session, clients.spec.repo_id, number, kind) for number in numbers
        }
    return [number for number, value in values.items() if wanted(value)]


def merge_group(rest: str, clients: Clients) -> ExpandFacts | None:
    """Return the merge group's own commit, where its repository lets checks fail (a queue waits for them)."""
    sha, _, branch = rest.partition(":")
    mode = repo_config(clients.github, clients.repository.default_branch)[0].mode
    if mode is not Mode.GATE:
        return None
    found = QUEUED_PULL.search(branch)
    number = int(found[1]) if found else 0
    target = Target(
        clients.spec.repo_id, clients.repository.full_name, number, sha, clients.installation_id, mode
    )
    return ExpandFacts((), (), target)


def decide(facts: ExpandFacts, now: datetime) -> list[Action]:
    """Return one look a pull request and verb, or the merge group's check."""
    if facts.group is not None:
        title = "Measured on the pull request itself"
        external = f"perf:{facts.group.head_sha}"
        return [SetCheck("prgate/perf", external, "completed", "success", title, title)]
    return [Schedule(verb, number) for number in facts.numbers for verb in facts.verbs]


HANDLER = Handler("expand", gather, decide, lambda facts: facts.group)
