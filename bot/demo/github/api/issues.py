"""Issues (pull requests are issues too): comments, reactions and labels."""

import re
from typing import Any
from urllib.parse import unquote

from fastapi import APIRouter, Request, Response

from bot.demo.github.api.frame import Here, actor, paged
from bot.demo.github.shapes import Json

router = APIRouter(prefix="/repos/{org}/{repo}")


@router.get("/issues")
def issues(hub: Here, request: Request, labels: str = "") -> Response:
    """Answer `GET /issues`."""
    wanted = {name for name in labels.split(",") if name}
    which = request.query_params.get("state", "open")
    creator = request.query_params.get("creator")
    found = [
        hub.shapes.issue(issue)
        for issue in hub.state.issues.values()
        if wanted <= set(issue.labels) and which in {"all", issue.state} and creator in {None, issue.user}
    ]
    return paged(request, found[::-1])


@router.get("/issues/comments/{comment_id}")
def comment(hub: Here, comment_id: int) -> Json:
    """Answer `GET /issues/comments/{comment_id}`."""
    return hub.shapes.comment(hub.require_comment(comment_id))


@router.patch("/issues/comments/{comment_id}")
def edit_comment(hub: Here, comment_id: int, request: Request, body: dict[str, Any]) -> Json:
    """Answer `PATCH /issues/comments/{comment_id}`."""
    if hub.require_comment(comment_id).body == body["body"]:
        hub.state.made.append(f"edit without a change {comment_id}")
    return hub.shapes.comment(hub.edit_comment(comment_id, actor(request, hub), body["body"]))


@router.delete("/issues/comments/{comment_id}")
def delete_comment(hub: Here, comment_id: int, request: Request) -> Response:
    """Answer `DELETE /issues/comments/{comment_id}`."""
    hub.delete_comment(comment_id, actor(request, hub))
    return Response(status_code=204)


@router.get("/issues/comments/{comment_id}/reactions")
def reactions(hub: Here, comment_id: int, request: Request) -> Response:
    """Answer `GET /issues/comments/{comment_id}/reactions`."""
    found = hub.require_comment(comment_id).reactions
    shown = [{"id": n, "user": hub.shapes.user(who), "content": what} for n, (who, what) in enumerate(found)]
    return paged(request, shown)


@router.post("/issues/comments/{comment_id}/reactions")
def react(hub: Here, comment_id: int, request: Request, body: dict[str, Any], response: Response) -> Json:
    """Answer `POST /issues/comments/{comment_id}/reactions`."""
    who = actor(request, hub)
    response.status_code = 201 if hub.react(comment_id, who, body["content"]) else 200
    return {"id": comment_id, "user": hub.shapes.user(who), "content": body["content"]}


@router.get("/issues/{number}")
def issue(hub: Here, number: int) -> Json:
    """Answer `GET /issues/{number}`."""
    return hub.shapes.issue(hub.require_issue(number))


@router.post("/issues", status_code=201)
def open_issue(hub: Here, request: Request, body: dict[str, Any]) -> Json:
    """Answer `POST /issues`."""
    labels = tuple(str(name) for name in body.get("labels") or ())
    number = max(hub.state.issues, default=0) + 1
    made = hub.open_issue(number, body["title"], body.get("body") or "", actor(request, hub), labels)
    return hub.shapes.issue(made)


@router.patch("/issues/{number}")
def edit_issue(hub: Here, number: int, request: Request, body: dict[str, Any]) -> Json:
    """Answer `PATCH /issues/{number}`."""
    changes = {name: body[name] for name in ("title", "body", "state") if name in body}
    return hub.shapes.issue(hub.edit_issue(number, actor(request, hub), **changes))


@router.get("/issues/{number}/timeline")
def timeline(hub: Here, number: int, request: Request) -> Response:
    """Answer `GET /issues/{number}/timeline`: the pull requests that name the issue."""
    hub.require_issue(number)
    naming = [pull for pull in hub.state.pulls() if re.search(rf"#{number}\b", f"{pull.title} {pull.body}")]
    found = [
        {"event": "cross-referenced", "source": {"type": "issue", "issue": hub.shapes.issue(pull)}}
        for pull in naming
    ]
    return paged(request, found)


@router.get("/issues/{number}/comments")
def comments(hub: Here, number: int, request: Request) -> Response:
    """Answer `GET /issues/{number}/comments`."""
    hub.require_issue(number)
    return paged(request, [hub.shapes.comment(item) for item in hub.state.comments_of(number)])


@router.post("/issues/{number}/comments", status_code=201)
def add_comment(hub: Here, number: int, request: Request, body: dict[str, Any]) -> Json:
    """Answer `POST /issues/{number}/comments`."""
    hub.state.made.append(f"comment {number} {body['body'].partition(chr(10))[0]}")
    return hub.shapes.comment(hub.comment(number, actor(request, hub), body["body"]))


@router.get("/issues/{number}/labels")
def labels(hub: Here, number: int, request: Request) -> Response:
    """Answer `GET /issues/{number}/labels`."""
    return paged(request, [hub.shapes.label(name) for name in hub.require_issue(number).labels])


@router.post("/issues/{number}/labels")
def add_labels(hub: Here, number: int, request: Request, body: dict[str, Any]) -> list[Json]:
    """Answer `POST /issues/{number}/labels`."""
    issue = hub.label(number, actor(request, hub), list(body["labels"]))
    return [hub.shapes.label(name) for name in issue.labels]


@router.delete("/issues/{number}/labels/{name:path}")
def remove_label(hub: Here, number: int, name: str, request: Request) -> list[Json]:
    """Answer `DELETE /issues/{number}/labels/{name:path}`."""
    issue = hub.unlabel(number, actor(request, hub), unquote(name))
    return [hub.shapes.label(label) for label in issue.labels]


@router.get("/labels")
def all_labels(hub: Here, request: Request) -> Response:
    """Answer `GET /labels`."""
    return paged(request, [hub.shapes.label(name) for name in sorted(hub.state.labels)])
