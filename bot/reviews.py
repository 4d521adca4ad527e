"""Review requests, labels and submitted reviews: sets, of which only the difference is written."""

from collections.abc import Sequence
from urllib.parse import quote

from bot.actions import LineComment, SetLabels, SubmitReview, Target
from bot.comments import has_marker
from bot.escape import code, fit
from bot.github import GitHubFault, RepoClient
from bot.pulls import login_of, requested

MOST_REVIEWERS = 15
MOST_LINE_COMMENTS = 10


def request(logins: Sequence[str], target: Target, client: RepoClient) -> None:
    """Request reviews from those not yet asked; one whom GitHub refuses does not spoil it for the others."""
    pull = client.pull(target.number) or {}
    asked = {name.casefold().removeprefix("team:") for name in requested(pull)}
    author = login_of(pull).casefold()
    left = [name for name in logins if slug(name).casefold() not in asked and name.casefold() != author]
    if not left:
        return
    try:
        send_request(left[:MOST_REVIEWERS], target, client)
    except GitHubFault as fault:
        if fault.status != 422:
            raise
        request_singly(left[:MOST_REVIEWERS], target, client)


def request_singly(logins: Sequence[str], target: Target, client: RepoClient) -> None:
    """Request one by one, leaving out whom GitHub refuses (422): one refusal fails the whole call."""
    for name in logins if len(logins) > 1 else ():
        try:
            send_request([name], target, client)
        except GitHubFault as fault:
            if fault.status != 422:
                raise


def send_request(logins: Sequence[str], target: Target, client: RepoClient) -> None:
    """Send one request for people and teams (`org/team`)."""
    people = [name for name in logins if "/" not in name]
    teams = [slug(name) for name in logins if "/" in name]
    path = f"/pulls/{target.number}/requested_reviewers"
    client.write("POST", path, {"reviewers": people, "team_reviewers": teams})


def withdraw(logins: Sequence[str], target: Target, client: RepoClient) -> None:
    """Take back the requests that are still open."""
    asked = {name.casefold() for name in requested(client.pull(target.number) or {})}
    people = [name for name in logins if name.casefold() in asked]
    if people:
        path = f"/pulls/{target.number}/requested_reviewers"
        client.write("DELETE", path, {"reviewers": people})


def slug(name: str) -> str:
    """Return a team's slug, or the login."""
    return name.rsplit("/", 1)[-1]


def set_labels(action: SetLabels, target: Target, client: RepoClient) -> None:
    """Add and remove labels; what is as it should be is left alone."""
    path = f"/issues/{target.number}/labels"
    there = {label["name"].casefold() for label in client.pages(path)}
    add = [name for name in action.add if name.casefold() not in there]
    if add:
        client.write("POST", path, {"labels": add})
    for name in action.remove:
        if name.casefold() in there:
            remove_label(f"{path}/{quote(name, safe='')}", client)


def remove_label(path: str, client: RepoClient) -> None:
    """Remove a label; one that is gone already is gone."""
    try:
        client.write("DELETE", path)
    except GitHubFault as fault:
        if fault.status != 404:
            raise


def submit(action: SubmitReview, target: Target, client: RepoClient) -> None:
    """Submit a review of the head once; lines that GitHub does not take are folded into its text."""
    for review in client.pages(f"/pulls/{target.number}/reviews"):
        ours = login_of(review).casefold() == client.who.login.casefold()
        if (
            ours
            and review.get("commit_id") == target.head_sha
            and has_marker(review.get("body") or "", action.marker)
        ):
            return
    lines = action.line_comments[:MOST_LINE_COMMENTS]
    try:
        send_review(action.body, lines, target, client)
    except GitHubFault as fault:
        if fault.status != 422 or not lines:
            raise
        send_review(fit(action.body + folded(lines)), (), target, client)


def send_review(body: str, lines: Sequence[LineComment], target: Target, client: RepoClient) -> None:
    """Send one review that neither approves nor blocks."""
    comments = [{"path": one.path, "line": one.line, "side": "RIGHT", "body": one.body} for one in lines]
    sent = {"commit_id": target.head_sha, "event": "COMMENT", "body": body, "comments": comments}
    client.write("POST", f"/pulls/{target.number}/reviews", sent)


def folded(lines: Sequence[LineComment]) -> str:
    """Return line comments as a list."""
    return "".join(f"\n- {code(f'{one.path}:{one.line}')}: {one.body}" for one in lines) + "\n"
