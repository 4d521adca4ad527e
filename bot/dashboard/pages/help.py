"""The page of commands, read from the code."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from bot.commands import SPECS
from bot.dashboard.rendering import as_json
from bot.dashboard.site import Site
from bot.dashboard.views import Page, View


class CommandRow(View):
    """One command."""

    usage: str
    says: str
    who: str


class HelpPage(Page):
    """All commands."""

    items: tuple[CommandRow, ...]
    next: None = None


def read() -> HelpPage:
    """Return all commands."""
    return HelpPage(
        items=tuple(CommandRow(usage=spec.usage, says=spec.says, who=spec.who.value) for spec in SPECS)
    )


def add(router: APIRouter, site: Site) -> None:
    """Add the page."""

    @router.get("/help")
    def help_html(request: Request) -> HTMLResponse:
        """Show all commands."""
        return site.pages.render(request, "help.html", "/help.json", {"page": read()})

    @router.get("/help.json")
    def help_json() -> Response:
        """Return all commands as JSON."""
        return as_json(read())
