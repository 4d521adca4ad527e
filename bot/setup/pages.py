"""`/setup`: a form that carries the manifest to GitHub, and the way back with the secrets, shown once."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

import httpx
from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import Response

from bot.dashboard.rendering import PageRoute, shared_pages
from bot.dashboard.security import policy
from bot.log import get_logger
from bot.settings import Settings
from bot.setup.manifest import NoApp, is_local, manifest, settings_file
from bot.setup.state import Setup, keep

log = get_logger(__name__)

LIMIT_S = 15.0
CODE = re.compile(r"[\w-]{1,200}")
Text = Annotated[str, Query(max_length=300)]
Owner = Annotated[str, Query(pattern=r"^[A-Za-z0-9-]{0,39}$")]


def create_setup_router(settings: Settings, setup: Setup) -> APIRouter:
    """Return the routes; they are there only while the service knows no identity on GitHub."""
    router = APIRouter(prefix="/setup", include_in_schema=False, route_class=PageRoute)

    @router.get("")
    def begin(request: Request, token: Text = "", owner: Owner = "") -> Response:
        """Show what will be made, and the way to GitHub."""
        if setup.done:
            raise HTTPException(410, "The App was made; start the service again with its settings.")
        if not setup.admits(token):
            raise HTTPException(403, "Open the address that `prgate serve` printed when it started.")
        asked = {**manifest(settings.public_url), "redirect_url": f"{settings.public_url}/setup/callback"}
        shown = {
            "token": token,
            "owner": owner,
            "action": f"{new_app_url(settings, owner)}?state={setup.begin()}",
            "manifest": json.dumps(asked),
            "asked": asked,
            "is_local": is_local(settings.public_url),
        }
        return secret_page(request, settings, "setup.html", shown)

    @router.get("/callback")
    def callback(request: Request, code: Text = "", state: Text = "") -> Response:
        """Take the App's secrets, and show or write them, once."""
        if not setup.comes_back(state):
            raise HTTPException(403, "This set-up was not begun here, or is over; begin again.")
        try:
            made = convert(settings, code)
            text = settings_file(made, settings)
        except NoApp as fault:
            raise HTTPException(502, f"{fault}. Nothing was set up; begin again.") from None
        setup.done = True
        shown = {**kept(settings, text), "install_url": install_url(made), "slug": str(made.get("slug", ""))}
        return secret_page(request, settings, "setup_done.html", shown)

    return router


def new_app_url(settings: Settings, owner: str) -> str:
    """Return GitHub's form for a new App of an organization, or of the visitor's own account."""
    whose = f"/organizations/{owner}" if owner else ""
    return f"{settings.github_web_url}{whose}/settings/apps/new"


def convert(settings: Settings, code: str) -> Mapping[str, Any]:
    """Return the new App with its secrets. NoApp where GitHub gives none."""
    if not CODE.fullmatch(code):
        raise NoApp("GitHub sent no code")
    url = f"{settings.github_api_url}/app-manifests/{code}/conversions"
    try:
        answer = httpx.post(url, headers={"Accept": "application/vnd.github+json"}, timeout=LIMIT_S)
        made = answer.json()
    except (httpx.HTTPError, ValueError):
        raise NoApp("GitHub did not answer as it should") from None
    if answer.status_code != 201 or not isinstance(made, dict):
        raise NoApp(f"GitHub answered {answer.status_code}: the code is too old or was used")
    return made


def kept(settings: Settings, text: str) -> dict[str, str]:
    """Write the settings where the server was told to; what the page shows of it."""
    if settings.setup_file is None:
        return {"text": text, "file": "", "fault": ""}
    try:
        keep(settings.setup_file, text)
    except OSError as error:
        log.warning("the settings of the new App could not be written", error=type(error).__name__)
        return {"text": text, "file": "", "fault": f"{settings.setup_file}: {error.strerror}"}
    return {"text": "", "file": str(settings.setup_file), "fault": ""}


def install_url(made: Mapping[str, Any]) -> str:
    """Return where the App is installed on repositories; empty where GitHub named no page of it."""
    page = str(made.get("html_url") or "")
    return f"{page}/installations/new" if page.startswith(("https://", "http://")) else ""


def secret_page(request: Request, settings: Settings, name: str, shown: Mapping[str, Any]) -> Response:
    """Return a page that no cache keeps, whose form may go to GitHub."""
    answer = shared_pages().render(request, name, "", shown)
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["Referrer-Policy"] = "no-referrer"
    answer.headers["Content-Security-Policy"] = policy(form_action=f"'self' {settings.github_web_url}")
    return answer
