"""The pages over HTTP: each also as JSON under the same path with `.json`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse, HTMLResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from bot.commands import SPECS
from bot.dashboard import queries
from bot.dashboard.views import View, age
from bot.db.engine import Sessions

STATIC = Path(__file__).parent / "static"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
Text = Annotated[str, Query(max_length=200)]
Number = Annotated[int, PathParameter(ge=1, le=2**31 - 1)]


def create_router(sessions: Sessions, web_url: str) -> APIRouter:
    """Return the dashboard's routes; `sessions` only read, `web_url` is where GitHub shows pull requests."""
    router = APIRouter(include_in_schema=False)
    pages = Pages()

    def queue_page(repo: str, text: str, priority: str, ci: str, after: str) -> Any:
        with sessions() as session:
            return queries.queue(session, queries.Filters(repo, text, priority, ci), after)

    def pull_page(owner: str, name: str, number: int) -> Any:
        with sessions() as session:
            found = queries.pull(session, f"{owner}/{name}", number, web_url)
        if found is None:
            raise HTTPException(404, f"{owner}/{name}#{number} is not known here")
        return found

    @router.get("/queue.json")
    def queue_json(
        repo: Text = "", text: Text = "", priority: Text = "", ci: Text = "", after: Text = ""
    ) -> Response:
        """Return a page of the queue as JSON."""
        return as_json(queue_page(repo, text, priority, ci, after))

    @router.get("/")
    def queue_html(
        request: Request,
        repo: Text = "",
        text: Text = "",
        priority: Text = "",
        ci: Text = "",
        after: Text = "",
    ) -> HTMLResponse:
        """Show a page of the queue."""
        page = queue_page(repo, text, priority, ci, after)
        filters = queries.Filters(repo, text, priority, ci)
        asked = {"repo": repo, "text": text, "priority": priority, "ci": ci}
        next_url = f"?{urlencode({**asked, 'after': page.next or ''})}"
        shown = {"page": page, "filters": filters, "filtered": filters.any, "next_url": next_url}
        return pages.render(request, "queue.html", f"queue.json?{urlencode(asked)}", shown)

    @router.get("/pr/{owner}/{name}/{number}.json")
    def pull_json(owner: str, name: str, number: Number) -> Response:
        """Return the story of a pull request as JSON."""
        return as_json(pull_page(owner, name, number))

    @router.get("/pr/{owner}/{name}/{number}")
    def pull_html(request: Request, owner: str, name: str, number: Number) -> HTMLResponse:
        """Show the story of a pull request."""
        page = pull_page(owner, name, number)
        return pages.render(request, "pull.html", f"{number}.json", {"page": page})

    add_help(router, pages)
    router.get("/static/{name}")(static_file)
    return router


def add_help(router: APIRouter, pages: "Pages") -> None:
    """Add the page of commands."""

    @router.get("/help")
    def help_html(request: Request) -> HTMLResponse:
        """Show all commands, read from the code."""
        return pages.render(request, "help.html", "help.json", {"specs": SPECS})

    @router.get("/help.json")
    def help_json() -> dict[str, Any]:
        """Return all commands as JSON."""
        items = [{"usage": spec.usage, "says": spec.says, "who": spec.who.value} for spec in SPECS]
        return {"schema": 1, "items": items}


def static_file(name: str) -> FileResponse:
    """Return a style sheet, script or picture of ours; 404 for any other name."""
    if name not in {path.name for path in STATIC.iterdir()}:
        raise HTTPException(404, f"there is no {name[:100]}")
    return FileResponse(STATIC / name, headers={**HEADERS, "Cache-Control": "max-age=3600"})


def as_json(view: View) -> Response:
    """Return a view as JSON with its schema number."""
    return Response(view.model_dump_json(by_alias=True), media_type="application/json", headers=HEADERS)


class Pages:
    """Renders templates; autoescaped, and a name that is missing is an error."""

    def __init__(self) -> None:
        loader = PackageLoader("bot", "templates")
        self.environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
        self.environment.filters["age"] = lambda since: age(since, datetime.now(UTC))
        self.environment.globals["static"] = lambda name: f"/static/{name}"
        self.environment.globals["root"] = ""
        self.environment.globals["version"] = version("prgate")

    def render(
        self, request: Request, name: str, json_url: str, shown: Mapping[str, Any], status: int = 200
    ) -> HTMLResponse:
        """Return the page `name` with the values it shows."""
        template = self.environment.get_template(f"pages/{name}")
        html = template.render(request=request, json_url=json_url, **shown)
        return HTMLResponse(html, status_code=status, headers=HEADERS)
