"""Chooses whom to ask: few, able, free, spread by load, and the same people for the same pull request."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from routing.config import RoutingConfig
from routing.groups import Group
from routing.logins import is_mail, key, keys, unique
from routing.models import Person, PullRequest

UNKNOWN = Person()


@dataclass(frozen=True, slots=True)
class Choice:
    """Whom to ask now, who is next, who counts as asked already, and why nobody is asked."""

    ask: tuple[str, ...]
    next_in_line: tuple[str, ...]
    counted: tuple[str, ...]
    not_asked_because: str | None


@dataclass(frozen=True, slots=True)
class Bench:
    """Everyone's standing on one pull request; logins are compared in lower case."""

    pr: PullRequest
    people: Mapping[str, Person]
    config: RoutingConfig

    @classmethod
    def of(cls, pr: PullRequest, people: Mapping[str, Person], config: RoutingConfig) -> "Bench":
        """Return the standing of everyone."""
        return cls(pr, {key(login): person for login, person in people.items()}, config)

    def person(self, login: str) -> Person:
        """Return what is known of someone."""
        return self.people.get(key(login), UNKNOWN)

    def is_outsider(self, login: str) -> bool:
        """Say whether someone can never be asked here: author, robot, e-mail address, or without access."""
        name = key(login)
        is_robot = name.endswith("[bot]") or name in keys(self.config.bots) or self.person(login).bot
        return name == key(self.pr.author) or is_robot or is_mail(login) or not self.person(login).can_review

    def is_away(self, login: str) -> bool:
        """Say whether someone is not to be asked now: busy, at capacity, passed over."""
        person, limit = self.person(login), self.config.max_open_requests
        is_full = limit is not None and person.open_requests >= limit
        return person.busy or is_full or key(login) in keys((*self.pr.passed_over, *self.config.never_ask))

    def counted(self) -> tuple[str, ...]:
        """Return the people already asked or reviewing, without the author and robots."""
        involved = unique((*self.pr.already_requested, *self.pr.already_reviewed))
        robots = keys(self.config.bots)
        return tuple(
            login
            for login in involved
            if key(login) != key(self.pr.author)
            and not key(login).endswith("[bot]")
            and key(login) not in robots
        )

    def ranked(self, group: Group, logins: Sequence[str]) -> list[str]:
        """Return who can be asked, best first: named by CODEOWNERS too, fewer open requests, then by lot."""
        free = [login for login in logins if not self.is_outsider(login) and not self.is_away(login)]
        return sorted(
            free, key=lambda login: (key(login) not in group.listed, self.load(login), self.lot(login))
        )

    def load(self, login: str) -> int:
        """Return someone's open review requests."""
        return self.person(login).open_requests

    def lot(self, login: str) -> str:
        """Return a number drawn from pull request and login: chance that comes out the same each time."""
        return hashlib.sha256(f"{self.pr.number}:{key(login)}".encode()).hexdigest()


def choose(groups: Sequence[Group], bench: Bench, known: Collection[str] = ()) -> Choice:
    """Return whom to ask for the groups (heaviest first); those in `known` were asked for before."""
    counted = bench.counted()
    owners = unique(owner for group in groups for owner in group.owners)
    candidates = [owner for owner in owners if not bench.is_outsider(owner)]
    line = queue(groups, bench, counted)
    stopped = blocker(bench, candidates)
    if stopped:
        return Choice((), line, counted, stopped)
    fresh = [group for group in groups if group.key not in known]
    ask = pick(fresh, bench, counted)
    why = None if ask else silence(groups, fresh, candidates, bench, counted)
    return Choice(ask, tuple(login for login in line if key(login) not in keys(ask)), counted, why)


def blocker(bench: Bench, candidates: Sequence[str]) -> str | None:
    """Return why nobody may be asked at all, None if nothing stands against it."""
    pr, config = bench.pr, bench.config
    if pr.draft:
        return "it is a draft; owners are asked once it is ready for review"
    if pr.approved_by:
        return f"it was approved by {', '.join(pr.approved_by)}"
    if pr.commits > config.max_commits:
        return f"it has {pr.commits} commits, more than {config.max_commits}; is the base branch right?"
    if pr.mergeable is False:
        return "it conflicts with its base branch; owners are asked once that is resolved"
    if pr.base is not None and config.base_branches and pr.base not in config.base_branches:
        return f"its base branch is {pr.base}, not {' or '.join(config.base_branches)}"
    if len(candidates) > config.max_candidates:
        return f"it touches code of {len(candidates)} people, more than {config.max_candidates} at once"
    return None


def silence(
    groups: Sequence[Group],
    fresh: Sequence[Group],
    candidates: Sequence[str],
    bench: Bench,
    counted: Sequence[str],
) -> str:
    """Return why nobody was picked though nothing stood against it."""
    if not groups:
        return "nobody owns the changed files"
    if not bench.config.ask:
        return "asking is switched off"
    if groups and not fresh:
        return "no module is new since owners were asked"
    if counted and (len(counted) >= bench.config.ask or keys(candidates) & keys(counted)):
        return f"already asked or reviewing: {', '.join(counted)}"
    if not candidates:
        return "no owner can review it but the author"
    return "no owner is free to be asked now"


def pick(groups: Sequence[Group], bench: Bench, counted: Sequence[str]) -> tuple[str, ...]:
    """Return one owner for each of the heaviest groups, and one required reviewer where a page names some."""
    chosen: list[str] = []
    for group in groups:
        involved = keys((*counted, *chosen))
        if len(involved) >= bench.config.ask:
            break
        if not keys(group.owners) & involved:
            chosen += bench.ranked(group, group.owners)[:1]
    return (*chosen, *pick_required(groups, bench, (*counted, *chosen)))


def pick_required(groups: Sequence[Group], bench: Bench, involved: Sequence[str]) -> tuple[str, ...]:
    """Return a required reviewer of the heaviest module that names some, unless one is involved."""
    group = next((group for group in groups if group.page and group.page.required_reviewers), None)
    if group is None or group.page is None or not bench.config.ask or len(keys(involved)) > bench.config.ask:
        return ()
    required = unique(group.page.required_reviewers)
    return () if keys(required) & keys(involved) else tuple(bench.ranked(group, required)[:1])


def queue(groups: Sequence[Group], bench: Bench, counted: Sequence[str]) -> tuple[str, ...]:
    """Return everyone who can be asked and was not, one from each group in turn."""
    lines = [bench.ranked(group, group.owners) for group in groups]
    longest = max((len(line) for line in lines), default=0)
    turns = [line[turn] for turn in range(longest) for line in lines if turn < len(line)]
    return tuple(login for login in unique(turns) if key(login) not in keys(counted))
