"""Puts the two halves together: how deliveries are read, who we are, how source is fetched, which pages."""

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass

from fastapi import APIRouter

from bot import dispatch, events
from bot.app import Wiring
from bot.clients import credentials
from bot.dashboard.routes import create_router
from bot.db.models import Repository
from bot.errors import one_line
from bot.github import Credentials, access_token, identity
from bot.log import get_logger
from bot.service import Parts, Service
from bot.settings import Settings
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

    def pages(service: Service) -> APIRouter:
        return create_router(service.reading, settings.github_web_url)

    reading = Reading(events.parse, dispatch.jobs_for, own_logins)
    return Wiring(reading, fetch_token, (pages,), parts or Parts())
