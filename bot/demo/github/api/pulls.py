"""Pull requests: their files, commits, reviews and review requests."""

from typing import Any

from fastapi import APIRouter, Request, Response

from bot.demo.github.api.frame import Here, actor, paged
from bot.demo.github.hub import Hub, Refused
from bot.demo.github.shapes import Json
from bot.demo.github.state import Pull

EVENTS = {"COMMENT": "COMMENTED", "APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED"}


router = APIRouter(prefix="/repos/{org}/{repo}/pulls")


def merge_base(hub: Hub, pull: Pull) -> str:
    """Return where a pull request left its base branch."""
    base = hub.git.resolve(pull.base_ref) or ""
    return hub.git.merge_base(base, pull.head_sha) or base


@router.get("")
def pulls(hub: Here, request: Request, head: str = "", base: str = "") -> Response:
    """Answer `GET /pulls`."""
    wanted = request.query_params.get("state", "open")
    branch = head.rpartition(":")[2]
    found = [
        hub.shapes.pull(pull)
        for pull in hub.state.pulls()
        if wanted in {"all", pull.state}
        and (not branch or pull.head_ref == branch)
        and (not base or pull.base_ref == base)
    ]
    return paged(request, found[::-1])


@router.get("/{number}")
def pull(hub: Here, number: int) -> Json:
    """Answer `GET /{number}`."""
    return hub.shapes.pull(hub.require_pull(number))


@router.get("/{number}/files")
def files(hub: Here, number: int, request: Request) -> Response:
    """Answer `GET /{number}/files`."""
    pull = hub.require_pull(number)
    found = hub.git.changed_files(merge_base(hub, pull), pull.head_sha)[:3000]
    return paged(request, [hub.shapes.file(item, pull.head_sha) for item in found])


@router.get("/{number}/commits")
def commits(hub: Here, number: int, request: Request) -> Response:
    """Answer `GET /{number}/commits`."""
    pull = hub.require_pull(number)
    found = hub.git.commits(merge_base(hub, pull), pull.head_sha)[:250]
    return paged(request, [hub.shapes.commit(item) for item in found])


@router.get("/{number}/reviews")
def reviews(hub: Here, number: int, request: Request) -> Response:
    """Answer `GET /{number}/reviews`."""
    hub.require_pull(number)
    found = [hub.shapes.review(review) for review in hub.state.reviews.values() if review.number == number]
    return paged(request, found)


@router.post("/{number}/reviews")
def submit(hub: Here, number: int, request: Request, body: dict[str, Any]) -> Json:
    """Answer `POST /{number}/reviews`."""
    said = EVENTS.get(body.get("event", "COMMENT"), "COMMENTED")
    who = actor(request, hub)
    hub.state.made.append(f"review {number} {(body.get('body') or '').partition(chr(10))[0]}")
    return hub.shapes.review(hub.review(number, who, said, body.get("body") or "", body.get("comments")))


@router.get("/{number}/comments")
def review_comments(hub: Here, number: int, request: Request) -> Response:
    """Answer `GET /{number}/comments`."""
    hub.require_pull(number)
    reviews = [review for review in hub.state.reviews.values() if review.number == number]
    return paged(request, [one for review in reviews for one in hub.shapes.remarks(review)])


@router.post("/{number}/comments", status_code=201)
def remark(hub: Here, number: int, request: Request, body: dict[str, Any]) -> Json:
    """Answer `POST /{number}/comments`."""
    return hub.remark(number, actor(request, hub), body["path"], int(body.get("line") or 0), body["body"])


@router.put("/{number}/merge")
def merge(hub: Here, number: int, request: Request) -> Json:
    """Answer `PUT /{number}/merge`; a person needs the permission to write."""
    who = actor(request, hub)
    if not who.endswith("[bot]") and hub.state.user(who).permission not in {"admin", "maintain", "write"}:
        raise Refused(403, "Resource not accessible")
    return {"sha": hub.merge(number, who), "merged": True, "message": "Pull Request successfully merged"}


@router.get("/{number}/requested_reviewers")
def requested(hub: Here, number: int) -> Json:
    """Answer `GET /{number}/requested_reviewers`."""
    asked = hub.require_pull(number).requested
    return {"users": [hub.shapes.user(login) for login in asked], "teams": []}


@router.post("/{number}/requested_reviewers", status_code=201)
def ask(hub: Here, number: int, request: Request, body: dict[str, Any]) -> Json:
    """Answer `POST /{number}/requested_reviewers`."""
    return hub.shapes.pull(hub.request_review(number, actor(request, hub), list(body.get("reviewers") or ())))


@router.delete("/{number}/requested_reviewers")
def take_back(hub: Here, number: int, request: Request, body: dict[str, Any]) -> Json:
    """Answer `DELETE /{number}/requested_reviewers`."""
    logins = list(body.get("reviewers") or ())
    return hub.shapes.pull(hub.unrequest_review(number, actor(request, hub), logins))
