"""What every answer carries, and the wall in front of pages that need a sign-in. Plain ASGI: it streams."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.dashboard.auth.access import Access

POLICY: Mapping[str, str] = {
    "default-src": "'self'",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
# What machines ask, what a page consists of, and the way in: open without a sign-in whatever the setting.
OPEN = ("/webhooks/", "/runner/", "/auth/", "/setup", "/static/", "/healthz", "/readyz", "/metrics")
FOR_MACHINES = (".json", "/events")


def policy(**changes: str) -> str:
    """Return the content security policy; `form_action="…"` changes one of its directives."""
    changed = {name.replace("_", "-"): value for name, value in changes.items()}
    return "; ".join(f"{name} {value}" for name, value in {**POLICY, **changed}.items())


class Guard:
    """Middleware: tells each request who asks, and each answer how a browser must treat it."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        visitor = self.access.visitor(request)
        request.state.visitor = visitor
        signed_in = visitor.login is not None

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                harden(message, scope["path"], signed_in, self.access.cookie.secure)
            await send(message)

        walled = not self.access.public and not signed_in and not is_open(scope["path"])
        app: Any = way_in(request) if walled else self.app
        await app(scope, receive, guarded)


def is_open(path: str) -> bool:
    """Say whether a path needs no sign-in whatever the setting."""
    return path.startswith(OPEN)


def way_in(request: HTTPConnection) -> Response:
    """Return what a visitor gets who must sign in first: the way there, for a program the fact."""
    path = request.url.path
    if path.endswith(FOR_MACHINES):
        return JSONResponse({"error": "sign in to read this"}, 401)
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"/auth/sign-in?goes_on={quote(path + query, safe='')}", 303)


def harden(start: Message, path: str, signed_in: bool, secure: bool) -> None:
    """Add the headers that an answer lacks; what a person sees is kept by no cache."""
    headers = MutableHeaders(scope=start)
    for name, value in {**HEADERS, "Content-Security-Policy": policy()}.items():
        headers.setdefault(name, value)
    if secure:
        headers.setdefault("Strict-Transport-Security", "max-age=31536000")
    if path.startswith("/static/"):
        return
    headers.append("Vary", "Cookie")
    if signed_in:
        headers["Cache-Control"] = "private, no-store"
    else:
        headers.setdefault("Cache-Control", "no-cache")
