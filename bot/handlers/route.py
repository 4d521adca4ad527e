"""`route`: who should look at this pull request, asked once, for a reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from bot import permissions
from bot.actions import Action, Record, RequestReview, SetCheck, UpsertComment
from bot.availability import busy_people
from bot.clients import Clients
from bot.comments import DriftLine, ModuleLine, OwnerLine, RouteView, route_note
from bot.config import CONFIG_PATH, Problem
from bot.db.models import Decision, Pull
from bot.dispatch import Handler, JobSpec
from bot.escape import code
from bot.facts import CommentView, PullFacts
from bot.gathering import Look, look_at
from bot.ownership import edits_ownership, read_ownership
from bot.people import approvals, self_review
from bot.routing_view import routing_pull
from routing.models import Person, Route
from routing.ownership import Ownership
from routing.route import ownership_changes, route

MOST_PEOPLE = 30


@dataclass(frozen=True, slots=True)
class RouteFacts:
    """What routing decides on. `head_ownership` is there where the pull request edits ownership itself."""

    look: Look
    ownership: Ownership
    people: Mapping[str, Person] = field(default_factory=dict)
    approved_by: tuple[str, ...] = ()
    self_review: CommentView | None = None
    head_ownership: Ownership | None = None


def gather(spec: JobSpec, clients: Clients) -> RouteFacts | None:
    """Read the pull request, who owns its files at the base commit, and who of them may be asked."""
    look = look_at(spec, clients, ("route", "ask", "skip"))
    if look is None:
        return None
    if not look.usable:
        return RouteFacts(look, Ownership.from_texts(None, {}))
    facts, pages = look.facts, look.config.routing.module_pages
    ownership = read_ownership(clients.github, facts.base_sha, pages)
    approved = approvals(
        facts, lambda login: permissions.at_least(permissions.level(clients, login), "write")
    )
    changed = [path for one in facts.files for path in (one.path, one.previous_path) if path]
    edits = edits_ownership(changed, pages)
    return RouteFacts(
        look=look,
        ownership=ownership,
        people=people_of(look, ownership, clients),
        approved_by=approved,
        self_review=self_review(facts),
        head_ownership=read_ownership(clients.github, facts.target.head_sha, pages) if edits else None,
    )


def people_of(look: Look, ownership: Ownership, clients: Clients) -> dict[str, Person]:
    """Return what is known of the owners: may they review here, are they busy, how much are they asked."""
    first = route(routing_pull(look), ownership, {}, look.config.routing)
    logins = [owner.login for owner in first.owners if is_account(owner.login)][:MOST_PEOPLE]
    with clients.sessions() as session:
        load = open_requests(session, look.target.repo_id, look.target.number)
    busy = busy_people(clients, logins)
    return {
        login: Person(
            busy=login.casefold() in busy,
            open_requests=load.get(login.casefold(), 0),
            can_review=permissions.at_least(permissions.level(clients, login), "read"),
        )
        for login in logins
    }


def is_account(owner: str) -> bool:
    """Say whether an owner is a person's account: no team, no e-mail."""
    return "/" not in owner and "@" not in owner


def open_requests(session: Session, repo_id: int, but: int) -> dict[str, int]:
    """Return how many other open pull requests each person was asked on."""
    newest = (
        select(func.max(Decision.id))
        .join(Pull, (Pull.repo_id == Decision.repo_id) & (Pull.number == Decision.number))
        .where(
            Decision.repo_id == repo_id, Decision.kind == "route", Pull.state == "open", Pull.number != but
        )
        .group_by(Decision.number)
    )
    load: dict[str, int] = {}
    for value in session.scalars(select(Decision.value).where(Decision.id.in_(newest))):
        for login in value.get("ask", ()):
            load[str(login).casefold()] = load.get(str(login).casefold(), 0) + 1
    return load


def decide(facts: RouteFacts, now: datetime) -> list[Action]:
    """Return the routing comment, the review requests and the record: pure."""
    look = facts.look
    if look.config_problems and look.facts.state == "open":
        return [config_check(look.config_problems)]
    if not look.usable:
        return []
    found = route_of(facts)
    asking = Asking.of(facts, found)
    view = view_of(facts, found, asking)
    actions: list[Action] = [RequestReview(asking.now)] if asking.now else []
    return [*actions, UpsertComment("route", route_note(view, look.frame)), record_of(facts, found, asking)]


def route_of(facts: RouteFacts) -> Route:
    """Return routing's own answer: owners were asked for the groups of the last time, unless one passed."""
    look = facts.look
    memory = look.memory["route"]
    known = () if someone_passed(look) else tuple(memory.get("groups", ()) if memory.get("ask") else ())
    pull = routing_pull(look, facts.approved_by)
    return route(pull, facts.ownership, facts.people, look.config.routing, known)


def someone_passed(look: Look) -> bool:
    """Say whether somebody who was asked wants to be passed over, and nobody was found in their place."""
    passed = {login.casefold() for login in look.memory["skip"].get("logins", ())}
    return any(login.casefold() in passed for login in look.memory["route"].get("ask", ()))


@dataclass(frozen=True, slots=True)
class Asking:
    """Who is asked: `now` for the first time, `all` ever (they carry the mention), and why nobody is."""

    now: tuple[str, ...]
    all: tuple[str, ...]
    waiting_for: str | None
    extra_done: int

    @classmethod
    def of(cls, facts: RouteFacts, found: Route) -> "Asking":
        """Work out whom to ask: routing's choice, and one more for each `ask`; nobody while it waits."""
        memory = facts.look.memory
        passed = {login.casefold() for login in memory["skip"].get("logins", ())}
        before = tuple(login for login in memory["route"].get("ask", ()) if login.casefold() not in passed)
        held = reason_to_wait(facts)
        done = int(memory["route"].get("extra_done", 0))
        count = int(memory["ask"].get("count", 0))
        more = [login for login in found.next_in_line if login not in found.ask][: max(0, count - done)]
        chosen = () if held else tuple(login for login in (*found.ask, *more) if login not in before)
        everybody = tuple(dict.fromkeys([*before, *chosen, *there_already(facts.look.facts, found)]))
        waiting = held or (None if everybody else found.not_asked_because)
        return cls(chosen, everybody, waiting, done if held else max(done, count))


def reason_to_wait(facts: RouteFacts) -> str | None:
    """Return why nobody is asked yet although somebody could be."""
    look = facts.look
    if look.config.self_review == "before_request" and facts.self_review is None:
        return f"the self-review of {look.facts.author} comes first"
    return None


def there_already(facts: PullFacts, found: Route) -> tuple[str, ...]:
    """Return the owners whom GitHub has asked already (CODEOWNERS, or a person)."""
    requested = {name.casefold().removeprefix("team:") for name in facts.requested_reviewers}
    return tuple(
        owner.login for owner in found.owners if owner.login.rsplit("/", 1)[-1].casefold() in requested
    )


def view_of(facts: RouteFacts, found: Route, asking: Asking) -> RouteView:
    """Return what the comment shows."""
    asked = {login.casefold() for login in asking.all}
    review = facts.self_review
    config = facts.look.config
    lines = [OwnerLine(one.login, one.login.casefold() in asked, one.reasons) for one in found.owners]
    return RouteView(
        author=facts.look.facts.author,
        owners=tuple(sorted(lines, key=lambda line: not line.asked)),
        modules=tuple(ModuleLine(module.page, round(100 * module.weight)) for module in found.modules),
        also_touches=found.also_touches,
        waiting_for=asking.waiting_for,
        drift=tuple(DriftLine(row.path, row.page_owners, row.codeowners) for row in found.drift),
        unowned=found.unowned_files,
        ownership_change=ownership_sentences(facts, found),
        approved_by=facts.approved_by,
        self_review="off" if config.self_review == "off" else "done" if review else "wanted",
        self_review_url=review.url if review else None,
        files_complete=facts.look.facts.files_complete,
    )


def ownership_sentences(facts: RouteFacts, found: Route) -> tuple[str, ...]:
    """Return what the pull request would change about its own owners."""
    if facts.head_ownership is None:
        return ()
    pull = routing_pull(facts.look, facts.approved_by)
    head = route(pull, facts.head_ownership, facts.people, facts.look.config.routing)
    change = ownership_changes(found, head)
    says = []
    if change.added:
        says.append(f"owners of these files after it, not before: {', '.join(change.added)}")
    if change.removed:
        says.append(f"owners of these files before it, not after: {', '.join(change.removed)}")
    return tuple(says)


def record_of(facts: RouteFacts, found: Route, asking: Asking) -> Record:
    """Return the decision's row: all that a page or the next look needs."""
    before = facts.look.memory["route"].get("groups", ()) if not someone_passed(facts.look) else ()
    groups = (*before, *found.groups) if asking.all else ()
    value: dict[str, Any] = {
        "owners": [{"login": owner.login, "reasons": list(owner.reasons)} for owner in found.owners],
        "modules": [{"page": module.page, "weight": module.weight} for module in found.modules],
        "groups": list(dict.fromkeys(groups)),
        "also_touches": list(found.also_touches),
        "ask": list(asking.all),
        "extra_done": asking.extra_done,
        "not_asked_because": asking.waiting_for,
        "approved_by": list(facts.approved_by),
        "self_review": facts.self_review.url if facts.self_review else None,
        "unowned_files": list(found.unowned_files[:100]),
        "drift": [row.model_dump() for row in found.drift[:100]],
        "notes": list(found.notes[:20]),
    }
    return Record("route", value)


def config_check(problems: Sequence[Problem]) -> SetCheck:
    """Return the check that says what is wrong with the configuration; until then nothing else is done."""
    lines = "\n".join(f"- {code(str(problem), 500)}" for problem in problems[:50])
    summary = (
        f"{code(CONFIG_PATH)} on the base branch cannot be used, so nothing else is done here.\n\n{lines}"
    )
    return SetCheck(
        "prgate/config", "config", "completed", "neutral", "The configuration has faults", summary
    )


HANDLER = Handler("route", gather, decide, lambda facts: facts.look.target)
