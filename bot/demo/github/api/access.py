"""Who may what: the App, its installation and tokens, accounts, permissions, deliveries, limits."""

import json
from collections.abc import Iterator
from datetime import timedelta

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from bot.demo.github.api.frame import APP, Here, actor, number, paged
from bot.demo.github.hub import Hub, Refused
from bot.demo.github.shapes import Json, stamp
from bot.demo.github.state import APP_ID, INSTALLATION_ID, Attempt, Delivery, now

ROLES = {"admin": "admin", "maintain": "write", "write": "write", "triage": "read", "read": "read"}


router = APIRouter()

PERMISSIONS = {"checks": "write", "pull_requests": "write", "issues": "write", "contents": "read"}


@router.get("/app")
def app(hub: Here, request: Request) -> Json:
    """Answer `GET /app`."""
    if actor(request, hub) != APP:
        raise Refused(401, "A JSON web token could not be decoded")
    return {"id": APP_ID, "slug": hub.state.slug, "name": hub.state.slug, "permissions": PERMISSIONS}


def installation(hub: Hub) -> Json:
    """Return the one installation."""
    owner = hub.shapes.repository()["owner"]
    return {
        "id": INSTALLATION_ID,
        "app_id": APP_ID,
        "app_slug": hub.state.slug,
        "account": owner,
        "permissions": PERMISSIONS,
        "repository_selection": "selected",
        "access_tokens_url": f"{hub.shapes.url}/api/v3/app/installations/{INSTALLATION_ID}/access_tokens",
    }


@router.get("/app/installations")
def installations(hub: Here, request: Request) -> Response:
    """Answer `GET /app/installations`."""
    return paged(request, [installation(hub)])


@router.get("/app/installations/{number}")
def one_installation(hub: Here, number: int) -> Json:
    """Answer `GET /app/installations/{number}`."""
    return installation(hub)


@router.get("/repos/{org}/{repo}/installation")
def installation_of_repository(hub: Here) -> Json:
    """Answer `GET /repos/{org}/{repo}/installation`: 404 where the App is not installed."""
    if not hub.state.installed:
        raise Refused(404, "Not Found")
    return installation(hub)


@router.post("/app/installations/{number}/access_tokens", status_code=201)
def access_token(hub: Here, number: int, request: Request) -> Json:
    """Answer `POST /app/installations/{number}/access_tokens`."""
    if actor(request, hub) != APP:
        raise Refused(401, "A JSON web token could not be decoded")
    if number != INSTALLATION_ID:
        raise Refused(404, "Not Found")
    token = f"ghs_standin{hub.state.new_id()}"
    hub.state.tokens[token] = f"{hub.state.slug}[bot]"
    expires = now() + timedelta(hours=1)
    return {"token": token, "expires_at": stamp(expires), "permissions": PERMISSIONS}


@router.get("/installation/repositories")
def repositories(hub: Here, request: Request) -> Response:
    """Answer `GET /installation/repositories`."""
    return paged(request, [hub.shapes.repository()], "repositories")


@router.get("/user")
def user(hub: Here, request: Request) -> Json:
    """Answer `GET /user`."""
    return hub.shapes.user(actor(request, hub))


@router.get("/users/{login}")
def somebody(hub: Here, login: str) -> Json:
    """Answer `GET /users/{login}`."""
    if login not in hub.state.users:
        raise Refused(404, "Not Found")
    return hub.shapes.user(login)


@router.get("/rate_limit")
def rate_limit(hub: Here) -> Json:
    """Answer `GET /rate_limit`."""
    core = {"limit": 5000, "remaining": 4999, "reset": int(now().timestamp()) + 3600, "used": 1}
    return {"resources": {"core": core}, "rate": core}


@router.get("/app/hook/deliveries")
def deliveries(hub: Here, request: Request) -> Response:
    """Answer `GET /app/hook/deliveries`: every attempt, the newest first, paged by cursor."""
    if actor(request, hub) != APP:
        raise Refused(401, "A JSON web token could not be decoded")
    tries = [attempt for delivery in list(hub.state.deliveries) for attempt in attempts(delivery)]
    tries.sort(key=lambda one: one["id"], reverse=True)
    after = number(request, "cursor", 0)
    left = [one for one in tries if not after or one["id"] < after]
    size = min(max(number(request, "per_page", 30), 1), 100)
    answer = JSONResponse(left[:size])
    if len(left) > size:
        following = request.url.include_query_params(cursor=left[size - 1]["id"])
        answer.headers["Link"] = f'<{following}>; rel="next"'
    return answer


@router.get("/app/hook/deliveries/{number}")
def one_delivery(hub: Here, number: int) -> Json:
    """Answer `GET /app/hook/deliveries/{number}`: with what was sent."""
    found = delivery_of(hub, number)
    tried = next(one for one in attempts(found) if one["id"] == number)
    sent = {"headers": hub.hooks.headers(found), "payload": json.loads(found.body)}
    return {**tried, "request": sent, "response": {"headers": {}, "payload": ""}}


@router.post("/app/hook/deliveries/{number}/attempts", status_code=202)
def redeliver(hub: Here, number: int, request: Request) -> Json:
    """Answer `POST /app/hook/deliveries/{number}/attempts`."""
    if actor(request, hub) != APP:
        raise Refused(401, "A JSON web token could not be decoded")
    hub.hooks.redeliver(delivery_of(hub, number))
    return {}


@router.get("/repos/{org}/{repo}")
def repository(hub: Here) -> Json:
    """Answer `GET /repos/{org}/{repo}`."""
    return hub.shapes.repository()


@router.get("/repos/{org}/{repo}/collaborators/{login}/permission")
def permission(hub: Here, login: str) -> Json:
    """Answer `GET /repos/{org}/{repo}/collaborators/{login}/permission`."""
    known = hub.state.users.get(login)
    role = known.permission if known else "none"
    return {
        "permission": ROLES.get(role, "none"),
        "role_name": role if role != "none" else "",
        "user": hub.shapes.user(login) if known else None,
    }


@router.get("/repos/{org}/{repo}/collaborators/{login}")
def collaborator(hub: Here, login: str) -> Response:
    """Answer `GET /repos/{org}/{repo}/collaborators/{login}`."""
    known = hub.state.users.get(login)
    return Response(status_code=204 if known and known.permission != "none" else 404)


def delivery_of(hub: Hub, number: int) -> Delivery:
    """Return the delivery that one of its attempts names; Refused 404 for none."""
    for delivery in hub.state.deliveries:
        if any(one["id"] == number for one in attempts(delivery)):
            return delivery
    raise Refused(404, "Not Found")


def attempts(delivery: Delivery) -> Iterator[Json]:
    """Yield a delivery's attempts as the App's list tells them: each stands for itself, under one guid."""
    first = delivery.status_code if delivery.first_code is None else delivery.first_code
    yield attempt(delivery, Attempt(delivery.id, delivery.delivered_at, first), again=False)
    for one in delivery.again:
        yield attempt(delivery, one, again=True)


def attempt(delivery: Delivery, one: Attempt, *, again: bool) -> Json:
    """Return one attempt."""
    return {
        "id": one.id,
        "guid": delivery.guid,
        "event": delivery.event,
        "action": delivery.action or None,
        "status_code": one.status_code,
        "status": "OK" if 200 <= one.status_code < 300 else "Invalid HTTP Response",
        "delivered_at": stamp(one.at),
        "redelivery": again,
        "installation_id": INSTALLATION_ID,
    }
