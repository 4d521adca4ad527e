"""Who may do what: GitHub's collaborator permission, cached for minutes; an error is a no.

It is a no of the moment, and never remembered. A worker waits for a better answer instead of telling people
that they may not, or passing over a reviewer, because GitHub had a fault.
"""

from collections.abc import Collection

from bot import store
from bot.clients import Clients
from bot.commands import Who
from bot.github import GitHubFault

RANK = {"none": 0, "read": 1, "triage": 2, "write": 3, "maintain": 4, "admin": 5}
NEEDED = {Who.AUTHOR_OR_TRIAGE: "triage", Who.AUTHOR_OR_WRITE: "write", Who.WRITE: "write"}


def level(clients: Clients, login: str) -> str:
    """Return a person's permission on the repository: admin, maintain, write, triage, read or none.

    GitHubFault, under a job's lease, where GitHub cannot say: the job comes back.
    """
    repo_id = clients.spec.repo_id
    with clients.sessions() as session:
        known = store.cached_permission(session, repo_id, login, clients.now)
    if known is not None:
        return known
    try:
        found = clients.github.permission(login)
    except GitHubFault:
        if clients.lease is not None:
            raise
        return "none"
    if found not in RANK:
        found = "none"
    with clients.sessions() as session:
        store.remember_permission(session, repo_id, login, found, clients.now)
        session.commit()
    return found


def at_least(found: str, needed: str) -> bool:
    """Say whether a permission is worth another; an unknown one is worth nothing."""
    return RANK.get(found, 0) >= RANK[needed]


def allows(who: Who, login: str, found: str, author: str, asked: Collection[str]) -> bool:
    """Say whether `login`, with permission `found`, may give a command that is for `who`: pure."""
    same = login.casefold()
    if who is Who.ANYONE:
        return True
    if who is Who.ASKED:
        return same in {one.casefold() for one in asked}
    if who in (Who.AUTHOR_OR_TRIAGE, Who.AUTHOR_OR_WRITE) and same == author.casefold():
        return True
    return at_least(found, NEEDED[who])
