"""What every API request meets: authentication, planned faults, conditional answers, and being counted."""

import asyncio
import base64
import hashlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse

from bot.demo.github import state as states
from bot.demo.github.faults import Fault
from bot.demo.github.hub import Hub, Refused


def hub_of(request: Request) -> Hub:
    """Return the stand-in behind a request; Refused 404 for a repository that it has not."""
    hub: Hub = request.app.state.hub
    org, repo = request.path_params.get("org"), request.path_params.get("repo")
    if org is not None and f"{org}/{repo}".lower() != hub.state.full_name.lower():
        raise Refused(404, "Not Found")
    return hub


Here = Annotated[Hub, Depends(hub_of)]
Next = Callable[[Request], Awaitable[Response]]
APP = "app"
# What needs no login: GitHub's limits, and what lies behind the signed address that a redirect names.
OPEN = ("/rate_limit", "/logs.txt", "/archive.zip")


def actor(request: Request, hub: Hub) -> str:
    """Return who asks: a login, or `app` for the App itself. Refused 401 for an unknown token."""
    header = request.headers.get("authorization", "")
    token = header.partition(" ")[2].strip()
    if token.count(".") == 2:
        if not is_app_token(token):
            raise Refused(401, "A JSON web token could not be decoded")
        return APP
    for known in (hub.state.tokens, hub.state.accounts):
        if token in known:
            return known[token]
    raise Refused(401, "Bad credentials")


def paged(request: Request, items: list[Any], key: str = "") -> Response:
    """Return one page of a list, with a Link header where more follow; `key` wraps it as some lists are."""
    size = min(max(number(request, "per_page", 30), 1), 100)
    page = max(number(request, "page", 1), 1)
    part = items[(page - 1) * size : page * size]
    body: Any = {"total_count": len(items), key: part} if key else part
    answer = JSONResponse(body)
    last = max(-(-len(items) // size), 1)
    named = {"prev": page - 1, "next": page + 1, "last": last, "first": 1}
    links = [
        f'<{request.url.include_query_params(page=where)}>; rel="{name}"'
        for name, where in named.items()
        if 1 <= where <= last and where != page
    ]
    if links:
        answer.headers["Link"] = ", ".join(links)
    return answer


def number(request: Request, name: str, default: int) -> int:
    """Return a number of the query; the default where it is none."""
    given = request.query_params.get(name, "")
    return int(given) if given.isdecimal() and len(given) < 10 else default


def is_app_token(token: str) -> bool:
    """Say whether a JSON web token is the App's and good now; no key is known to check its signature."""
    try:
        packed = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
        lasts = int(claims["iat"]) <= time.time() < int(claims["exp"])
        return str(claims["iss"]) == str(states.APP_ID) and lasts
    except (ValueError, KeyError, TypeError):
        return False


class Frame:
    """The middleware around one stand-in's API."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def install(self, app: FastAPI) -> None:
        """Put the frame around an app."""
        app.middleware("http")(self.around)
        app.add_exception_handler(Refused, refused)

    async def around(self, request: Request, call_next: Next) -> Response:
        """Answer one request."""
        path = request.url.path
        fault = self.hub.faults.take(request.method, path)
        if self.hub.faults.slow_s:
            await asyncio.sleep(self.hub.faults.slow_s)
        if fault is not None and not fault.after:
            answer = broken(fault)
        else:
            answer = await self.answer(request, call_next)
            answer = broken(fault) if fault is not None else answer
        self.hub.state.requests.append(states.Request(request.method, path, answer.status_code))
        answer.headers["X-RateLimit-Limit"] = "5000"
        answer.headers.setdefault("X-RateLimit-Remaining", "4999")
        return answer

    async def answer(self, request: Request, call_next: Next) -> Response:
        """Answer a request that meets no fault; unchanged JSON is 304."""
        try:
            if not request.url.path.endswith(OPEN):
                actor(request, self.hub)
        except Refused as error:
            return await refused(request, error)
        answer = await call_next(request)
        if request.method != "GET" or answer.status_code != 200:
            return answer
        body = b"".join([part async for part in answer.body_iterator])  # type: ignore[attr-defined]
        tag = f'W/"{hashlib.sha256(body).hexdigest()}"'
        headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"ETag": tag})
        return Response(body, headers={**headers, "ETag": tag})


def broken(fault: Fault) -> Response:
    """Return the answer of a fault."""
    says = "You have exceeded a secondary rate limit" if fault.retry_after_s is not None else "Server Error"
    answer = JSONResponse({"message": says}, status_code=fault.status)
    if fault.retry_after_s is not None:
        answer.headers["Retry-After"] = str(fault.retry_after_s)
    return answer


async def refused(_: Request, error: Exception) -> Response:
    """Return a refusal in GitHub's form."""
    status = error.status if isinstance(error, Refused) else 500
    return JSONResponse({"message": str(error), "documentation_url": ""}, status_code=status)
