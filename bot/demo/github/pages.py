"""The stand-in's pages: a pull request as people read it, with a comment box that does what GitHub's does."""

import html
import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

from bot.demo.github.hub import Hub, Refused
from bot.demo.github.state import Pull

# The HTML that GitHub lets through and that comments of ours use; all else is shown as text.
ALLOWED = re.compile(r"</?(?:details|summary|sub|br|kbd)>|<details open>", re.IGNORECASE)
REMARK = re.compile(r"<!--.*?-->", re.DOTALL)
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'",
    "Cache-Control": "no-store",
}
BODY_LIMIT = 400_000


Page = Callable[..., Response]


def page_maker(hub: Hub) -> Page:
    """Return what renders a template of the stand-in: `page(name, status=200, **shown)`."""
    environment = Environment(
        loader=PackageLoader("bot.demo.github", "templates"), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["markdown"] = markdown
    here = f"/{hub.state.full_name}"

    def page(name: str, status: int = 200, **shown: Any) -> Response:
        text = environment.get_template(name).render(hub=hub, here=here, **shown)
        return HTMLResponse(text, status_code=status, headers=HEADERS)

    return page


def create_pages(hub: Hub, page: Page) -> APIRouter:
    """Return the pages of one stand-in."""
    router = APIRouter()
    here = f"/{hub.state.full_name}"

    @router.get("/")
    def home() -> Response:
        return RedirectResponse(f"{here}/pulls")

    @router.get(f"{here}/pulls")
    def pulls() -> Response:
        return page("pulls.html", pulls=list(hub.state.pulls())[::-1])

    @router.get("/_standin/stats")
    def stats() -> dict[str, int]:
        """Return how often the API was asked, and how often it was told something."""
        writes = len(hub.state.writes())
        return {"reads": len(hub.state.requests) - writes, "writes": writes}

    @router.get(f"{here}/pull/{{number}}")
    def pull(number: int, watch: str = "") -> Response:
        found = hub.state.pull(number)
        if found is None:
            return page("missing.html", 404, number=number)
        return page("pull.html", pull=found, watching=bool(watch), **story(hub, found))

    @router.post(f"{here}/pull/{{number}}/comment")
    async def comment(number: int, request: Request) -> Response:
        fields = parse_qs((await request.body())[:BODY_LIMIT].decode("utf-8", errors="replace"))
        body = "".join(fields.get("body", [])).replace("\r\n", "\n")
        user = "".join(fields.get("user", []))
        if body.strip() and user in hub.state.users:
            try:
                hub.comment(number, user, body)
            except Refused as error:
                return page("missing.html", error.status, number=number)
        return RedirectResponse(f"{here}/pull/{number}?watch=1#end", status_code=303)

    return router


def story(hub: Hub, pull: Pull) -> dict[str, Any]:
    """Return what stands on a pull request's page: comments and reviews in time order, and the checks."""
    reviews = [review for review in hub.state.reviews.values() if review.number == pull.number]
    entries = [
        *(
            (comment.created_at, comment.id, "comment", comment)
            for comment in hub.state.comments_of(pull.number)
        ),
        *((review.submitted_at, review.id, "review", review) for review in reviews),
    ]
    people = [user.login for user in hub.state.users.values() if user.type == "User"]
    people.sort(key=lambda login: (hub.state.user(login).permission not in {"admin", "write"}, login))
    return {
        "entries": sorted(entries, key=lambda entry: entry[1]),
        "statuses": sorted(
            hub.state.latest_statuses(pull.head_sha).values(), key=lambda status: status.context
        ),
        "checks": hub.state.checks_of(pull.head_sha),
        "people": people,
    }


def markdown(text: str) -> Markup:
    """Render a comment as GitHub would, as far as comments of ours need it; hostile HTML stays text."""
    return Markup(PARSER.render(REMARK.sub("", text)))  # noqa: S704 - html_block and html_inline escape


def calm_html(_: RendererHTML, tokens: Sequence[Token], index: int, *__: Any) -> str:
    """Return raw HTML of a comment with everything but the allowed tags escaped."""
    content = tokens[index].content
    allowed = [match.span() for match in ALLOWED.finditer(content)]
    parts, position = [], 0
    for start, end in allowed:
        parts += [html.escape(content[position:start]), content[start:end]]
        position = end
    return "".join([*parts, html.escape(content[position:])])


def make_parser() -> MarkdownIt:
    """Return the parser of comments."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.add_render_rule("html_block", calm_html)
    parser.add_render_rule("html_inline", calm_html)
    return parser


PARSER = make_parser()
