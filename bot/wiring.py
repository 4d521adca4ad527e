"""Puts the two halves together: how deliveries are read, who we are, how source is fetched, which pages."""

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass

from fastapi import APIRouter

from bot import dispatch, events
from bot.app import Wiring
from bot.clients import credentials
from bot.dashboard.auth.routes import create_auth_router
from bot.dashboard.changes.dead import create_dead_router
from bot.dashboard.changes.orders import create_orders_router
from bot.dashboard.live_routes import create_live_router
from bot.dashboard.rendering import shared_pages
from bot.dashboard.routes import router_of
from bot.dashboard.site import Site
from bot.dashboard.trees import service_trees
from bot.db.models import Repository
from bot.errors import one_line
from bot.github import Credentials, access_token, identity
from bot.log import get_logger
from bot.service import Parts, Service
from bot.settings import Settings
from bot.setup.pages import create_setup_router
from bot.webhook import Reading

log = get_logger(__name__)

ASK_AGAIN_S = 60.0


@dataclass
class OwnLogins:
    """The accounts that we write as, asked of GitHub in the background: no delivery waits for it.

    Until it is known nothing is left out; handlers ignore their own doings all the same.
    """

    login: Credentials
    known: tuple[str, ...] = ()
    _ask_at_s: float = 0.0

    def __call__(self) -> Collection[str]:
        """Return what is known; while nothing is, a call a minute starts the question."""
        if not self.known and time.monotonic() >= self._ask_at_s:
            self._ask_at_s = time.monotonic() + ASK_AGAIN_S
            threading.Thread(target=self._ask, name="own logins", daemon=True).start()
        return self.known

    def _ask(self) -> None:
        try:
            self.known = (identity(self.login).login,)
        except Exception as error:
            log.warning("GitHub does not say who we are; asking again later", error=one_line(error))


def standard_wiring(settings: Settings, parts: Parts | None = None) -> Wiring:
    """Return the wiring of a service."""
    login = credentials(settings)
    own_logins = OwnLogins(login)

    def fetch_token(repository: Repository) -> str | None:
        return access_token(login, repository.installation_id)

    reading = Reading(events.parse, dispatch.jobs_for, own_logins)
    return Wiring(reading, fetch_token, (pages, ways_in, changes), parts or Parts())


def pages(service: Service) -> APIRouter:
    """Return the pages, each showing what its visitor may read."""
    settings = service.settings
    trees = service_trees(settings, service.reading)
    site = Site(service.reading, shared_pages(), settings.github_web_url, service.access.scope, trees)
    return router_of(site)


def ways_in(service: Service) -> APIRouter:
    """Return sign-in, the stream that moves the pages, and set-up where there is no identity yet."""
    router = APIRouter()
    if service.setup is not None:
        router.include_router(create_setup_router(service.settings, service.setup))
    router.include_router(create_auth_router(service.access))
    router.include_router(create_live_router(service.live, service.access))
    return router


def changes(service: Service) -> APIRouter:
    """Return what maintainers may change."""
    router = APIRouter()
    router.include_router(create_orders_router(service.access, service.relay))
    router.include_router(create_dead_router(service.access, service.relay))
    return router
