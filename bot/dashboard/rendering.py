"""How a view becomes an answer: templates, JSON, static files, and a page in words for what went wrong."""

import hashlib
import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, Response
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from bot.dashboard import charts
from bot.dashboard.auth.visitor import Visitor
from bot.dashboard.views import View, age

STATIC = Path(__file__).parent / "static"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
FOR_EVER = "public, max-age=31536000, immutable"
TITLES = {404: "Not found", 422: "This address has a part that cannot be read"}


class Pages:
    """Renders templates; autoescaped, and a name that is missing is an error."""

    def __init__(self) -> None:
        loader = PackageLoader("bot", "templates")
        self.environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
        self.environment.trim_blocks = self.environment.lstrip_blocks = True
        self.environment.filters["age"] = ago
        self.environment.filters["moment"] = moment
        self.environment.filters["web"] = web_url
        self.environment.filters["coded"] = coded
        self.environment.globals["charts"] = charts
        self.environment.globals["static"] = static_url
        self.environment.globals["root"] = ""
        self.environment.globals["now_s"] = lambda: int(time.time())
        self.environment.globals["version"] = version("prgate")

    def render(
        self, request: Request, name: str, json_url: str, shown: Mapping[str, Any], status: int = 200
    ) -> HTMLResponse:
        """Return the page `name` with the values it shows."""
        template = self.environment.get_template(f"pages/{name}")
        visitor = getattr(request.state, "visitor", Visitor())
        told = {"request": request, "visitor": visitor, "path": request.url.path, "json_url": json_url}
        html = template.render({**told, **shown})
        return HTMLResponse(html, status_code=status, headers=HEADERS)


class PageRoute(APIRoute):
    """A route whose refusals are pages for people, and JSON for programs (paths that end with `.json`)."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler with the refusals around it."""
        handle = super().get_route_handler()

        async def told(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                return problem(request, 422, first_fault(error))
            except HTTPException as error:
                return problem(request, error.status_code, str(error.detail))

        return told


def first_fault(error: RequestValidationError) -> str:
    """Return the first thing that is wrong with a request, without repeating what was sent."""
    fault = error.errors()[0]
    return f"{fault['loc'][-1]}: {fault['msg']}"


def problem(request: Request, status: int, says: str) -> Response:
    """Return what went wrong, as a page or as JSON."""
    if request.url.path.endswith(".json"):
        return Response(
            Problem(error=says).model_dump_json(), status, media_type="application/json", headers=HEADERS
        )
    title = TITLES.get(status, "This page cannot be shown")
    return shared_pages().render(request, "problem.html", "", {"title": title, "says": says}, status)


class Problem(View):
    """What went wrong, for programs."""

    error: str


@cache
def shared_pages() -> Pages:
    """Return the templates of this process, compiled once."""
    return Pages()


def as_json(view: View) -> Response:
    """Return a view as JSON with its schema number."""
    return Response(view.model_dump_json(by_alias=True), media_type="application/json", headers=HEADERS)


def moment(value: datetime) -> str:
    """Return a time as people read it; UTC, which the page's foot says."""
    return value.strftime("%Y-%m-%d %H:%M")


def ago(since: datetime) -> str:
    """Return how long ago a time was, on one line."""
    return age(since, datetime.now(UTC)).replace(" ", "\N{NO-BREAK SPACE}")


def coded(text: str) -> Markup:
    """Return a sentence as HTML: what stands between backticks is code, and all of it is text."""
    parts = str(text).split("`")
    paired = len(parts) - 1 if len(parts) % 2 == 0 else len(parts)  # a last, lone backtick is one
    shown = [
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts[:paired])
    ]
    return Markup("").join([*shown, *("`" + escape(part) for part in parts[paired:])])


def web_url(value: object) -> str:
    """Return an address that a link may lead to; empty for anything but http and https."""
    text = str(value or "")
    return text if text.startswith(("https://", "http://")) else ""


@cache
def static_url(name: str) -> str:
    """Return the address of a file of ours; it changes with the content, so a browser may keep it."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


def static_file(name: str, v: str = "") -> FileResponse:
    """Return a style sheet, script or picture of ours; 404 for any other name."""
    if name not in {path.name for path in STATIC.iterdir()}:
        raise HTTPException(404, f"there is no {name[:100]}")
    kept = FOR_EVER if v else "no-cache"
    return FileResponse(STATIC / name, headers={**HEADERS, "Cache-Control": kept})
