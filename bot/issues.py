"""Keeps one issue of a marker: found by marker and author, created once, edited in place, closed at last."""

from dataclasses import replace
from typing import Any

from bot.actions import Target, UpsertComment, UpsertIssue
from bot.clients import Clients
from bot.commenting import is_ours, upsert
from bot.comments import same
from bot.github import RepoClient


def upsert_issue(action: UpsertIssue, target: Target, clients: Clients) -> int | None:
    """Make the issue as said, with as few requests as that takes; return its number.

    None where it is not there and may not be created. An issue whose creation was answered with a fault is
    found by its marker the next time.
    """
    client = clients.github
    existing = known(client, action) or find(client, action.marker)
    if existing is None:
        if not action.create:
            return None
        body = {"title": action.title, "body": action.body, "labels": list(action.labels)}
        existing = client.write("POST", "/issues", body)
    number = int(existing["number"])
    if action.comment is not None:
        remark(action, number, target, clients)
    change = changes(action, existing)
    if change:
        client.write("PATCH", f"/issues/{number}", change)
    return number


def known(client: RepoClient, action: UpsertIssue) -> Any:
    """Return the issue that we remember, if it is still there and still ours."""
    found = client.get(f"/issues/{action.number}") if action.number else None
    return found if found and is_ours(found, client.who.login, action.marker) else None


def find(client: RepoClient, marker: str) -> Any:
    """Return our issue of a marker, or None; of several the oldest."""
    asked = {"state": "all", "creator": client.who.login, "sort": "created", "direction": "desc"}
    mine = [item for item in client.pages("/issues", asked) if is_ours(item, client.who.login, marker)]
    return min(mine, key=lambda item: int(item["number"]), default=None)


def changes(action: UpsertIssue, existing: Any) -> dict[str, Any]:
    """Return what differs: title, body, and the state where the action names one."""
    found: dict[str, Any] = {}
    if existing.get("title") != action.title:
        found["title"] = action.title
    if not same(existing.get("body") or "", action.body):
        found["body"] = action.body
    if action.state and existing.get("state") != action.state:
        found |= {"state": action.state}
        found |= {"state_reason": "completed"} if action.state == "closed" else {}
    return found


def remark(action: UpsertIssue, number: int, target: Target, clients: Clients) -> None:
    """Keep the comment below the issue that says what the nights after a fix say."""
    assert action.comment is not None
    comment = UpsertComment(f"{action.marker}-after", action.comment)
    upsert(comment, replace(target, number=number), clients)
