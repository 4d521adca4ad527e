"""`expand`: from a commit, a branch, an issue or a merge group to the pull requests they concern.

Also what no delivery told us: `open` compares all open pull requests with what we know, `redeliver` asks for
the deliveries that never arrived.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select

from bot import store
from bot.actions import Action, Mode, Redeliver, Schedule, SetCheck, Target
from bot.clients import Clients
from bot.db.models import Pull
from bot.dispatch import LOOK, Handler, JobSpec
from bot.gathering import repo_config
from bot.github import connect
from bot.pulls import when

MOST_PULLS = 100
# GitHub sends a delivery again for three days. Its list holds each attempt: 10,000 of them are looked at.
REDELIVERABLE = timedelta(days=3)
MOST_PAGES = 100
MOST_AT_ONCE = 500
MOST_REFUSALS = 3
Wanted = Callable[[Mapping[str, Any]], bool]
QUEUED_PULL = re.compile(r"/pr-(\d+)-")


@dataclass(frozen=True, slots=True)
class ExpandFacts:
    """The looks that a subject calls for, as (pull request, verb).

    `group` is a merge group's own target; `lost` are deliveries that never arrived.
    """

    looks: tuple[tuple[int, str], ...] = ()
    group: Target | None = None
    lost: tuple[int, ...] = ()


def gather(spec: JobSpec, clients: Clients) -> ExpandFacts | None:
    """Look the subject up."""
    kind, _, rest = spec.subject.partition(":")
    if kind == "sha":
        return ExpandFacts(each(by_sha(rest, clients), ("ci",)))
    if kind == "branch":
        return ExpandFacts(each(red_pulls(rest, clients), ("ci", "triage")))
    if kind == "issue":
        return ExpandFacts(each(linked_pulls(rest, clients), ("triage",)))
    if kind == "group":
        return merge_group(rest, clients)
    if kind == "open":
        return ExpandFacts(changed_pulls(clients))
    if kind == "redeliver":
        return ExpandFacts(lost=lost_deliveries(clients))
    return None


def each(numbers: Iterable[int], verbs: Iterable[str]) -> tuple[tuple[int, str], ...]:
    """Return every verb for every pull request."""
    return tuple((number, verb) for number in numbers for verb in verbs)


def changed_pulls(clients: Clients) -> tuple[tuple[int, str], ...]:
    """Return what is not as we know it: pull requests that changed, came, or are over."""
    with clients.sessions() as session:
        asked = select(Pull).where(Pull.repo_id == clients.spec.repo_id, Pull.state == "open")
        known = {row.number: (row.head_sha, row.updated_at) for row in session.scalars(asked)}
    now = {}
    for pull in clients.github.pages("/pulls", {"state": "open"}):
        now[int(pull["number"])] = (pull["head"]["sha"], when(pull.get("updated_at")))
    moved = [number for number, state in now.items() if known.get(number) != state]
    over = [number for number in known if number not in now]
    return (*each(moved[:MOST_PULLS], LOOK), *each(over[:MOST_PULLS], ("closed",)))


def lost_deliveries(clients: Clients) -> tuple[int, ...]:
    """Return the App's deliveries of which no attempt arrived and another one may; each once."""
    if not clients.credentials.is_app:
        return ()
    since = clients.now - REDELIVERABLE
    attempts: dict[str, list[Mapping[str, Any]]] = {}
    for one in connect(clients.credentials, None).cursor_pages("/app/hook/deliveries", MOST_PAGES):
        if when(one.get("delivered_at")) < since:
            break
        attempts.setdefault(str(one.get("guid")), []).append(one)
    return tuple(int(tried[0]["id"]) for tried in attempts.values() if may_arrive(tried))[:MOST_AT_ONCE]


def may_arrive(tried: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether a delivery did not arrive and may yet: what we refused (4xx) is soon given up."""
    codes = [int(attempt.get("status_code") or 0) for attempt in tried]
    refused = [code for code in codes if 400 <= code < 500]
    return not any(200 <= code < 300 for code in codes) and len(refused) < MOST_REFUSALS


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
    return ExpandFacts(group=target)


def decide(facts: ExpandFacts, now: datetime) -> list[Action]:
    """Return the looks, what must be delivered again, or the merge group's check."""
    if facts.group is not None:
        title = "Measured on the pull request itself"
        external = f"perf:{facts.group.head_sha}"
        return [SetCheck("prgate/perf", external, "completed", "success", title, title)]
    again: list[Action] = [Redeliver(facts.lost)] if facts.lost else []
    return [*again, *(Schedule(verb, number) for number, verb in facts.looks)]


HANDLER = Handler("expand", gather, decide, lambda facts: facts.group)
