"""Keeps one comment of a marker: found by marker and author, created once, edited in place."""

from collections.abc import Sequence
from typing import Any

from bot import store
from bot.actions import Target, UpsertComment
from bot.clients import Clients
from bot.comments import has_marker, same
from bot.github import GitHubFault, RepoClient
from bot.pulls import login_of

EDITS = 3


def upsert(action: UpsertComment, target: Target, clients: Clients) -> None:
    """Make the comment equal to `action.body`, with as few requests as that takes."""
    with clients.sessions() as session:
        row = store.comment_row(session, target, action.marker)
    if row is not None and row.body_hash == store.digest(action.body):
        return
    existing = known(clients.github, row.comment_id, action.marker) if row else None
    if existing is None:
        existing = find(clients.github, target.number, action.marker)
    if existing is None and action.only_edit:
        return
    comment_id = write(clients.github, target.number, existing, action.body)
    with clients.sessions() as session:
        store.remember_comment(session, target, action.marker, comment_id, action.body, clients.now)
        clients.keep(session)


def write(client: RepoClient, number: int, existing: Any, body: str) -> int:
    """Create or edit the comment and return its id; an equal one is left alone."""
    if existing is None:
        return int(client.write("POST", f"/issues/{number}/comments", {"body": body})["id"])
    edit(client, existing, body)
    return int(existing["id"])


def edit(client: RepoClient, comment: Any, body: str) -> None:
    """Edit a comment; after a fault of GitHub's it is read again first, for the edit may be done."""
    path = f"/issues/comments/{comment['id']}"
    for left in reversed(range(EDITS)):
        if same(comment.get("body") or "", body):
            return
        try:
            client.write("PATCH", path, {"body": body})
        except GitHubFault as fault:
            if not left or not fault.passing:
                raise
        else:
            return
        comment = client.get(path) or comment


def known(client: RepoClient, comment_id: int, marker: str) -> Any:
    """Return the comment that we remember, if it is still there and still ours."""
    found = client.get(f"/issues/comments/{comment_id}")
    return found if found and is_ours(found, client.who.login, marker) else None


def find(client: RepoClient, number: int, marker: str) -> Any:
    """Return our comment of a marker, or None; of several the oldest, and the others are deleted."""
    pages = client.pages(f"/issues/{number}/comments")
    mine = [item for item in pages if is_ours(item, client.who.login, marker)]
    remove(client, mine[1:])
    return mine[0] if mine else None


def is_ours(item: Any, own_login: str, marker: str) -> bool:
    """Say whether we wrote it: anybody can paste a marker, so the author counts as well."""
    return login_of(item).casefold() == own_login.casefold() and has_marker(item.get("body") or "", marker)


def remove(client: RepoClient, doubles: Sequence[Any]) -> None:
    """Delete comments that should not be there; one that is gone already is as well."""
    for item in doubles:
        try:
            client.write("DELETE", f"/issues/comments/{item['id']}")
        except GitHubFault as fault:
            if fault.status != 404:
                raise
