"""The web application: webhooks, the runner lane, health, metrics, and the pages that are handed in."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from bot import buildkite_hook, health, runner_api, webhook
from bot.dashboard.security import Guard
from bot.db.models import Repository
from bot.errors import PayloadRejected, incident_id
from bot.log import get_logger
from bot.service import Parts, Service
from bot.settings import Settings, secret_list
from bot.version import VERSION

log = get_logger(__name__)


@dataclass(frozen=True)
class Wiring:
    """What the transport half is told about the rest: how deliveries are read, how source is fetched, which
    pages there are. Each builder of routers gets the running service."""

    reading: webhook.Reading
    fetch_token: Callable[[Repository], str | None]
    routers: Sequence[Callable[[Service], APIRouter]] = ()
    parts: Parts = field(default_factory=Parts)


def create_app(settings: Settings, wiring: Wiring | None = None) -> FastAPI:
    """Return the application; its parts start and drain with it. `app.state.service` is the `Service`."""
    if wiring is None:
        from bot.wiring import standard_wiring

        wiring = standard_wiring(settings)
    service = Service(settings, wiring.parts)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        try:
            yield
        finally:
            service.stop()

    app = FastAPI(title="prgate", version=VERSION, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.service = service
    app.add_middleware(Guard, access=service.access)
    app.add_exception_handler(PayloadRejected, refuse)
    app.add_exception_handler(Exception, fail)
    include_routers(app, service, wiring)
    return app


def include_routers(app: FastAPI, service: Service, wiring: Wiring) -> None:
    """Add every route: first our own, then the pages."""
    settings = service.settings
    limit = settings.max_body_bytes
    secrets = secret_list(settings.webhook_secrets)
    app.include_router(webhook.router(secrets, limit, wiring.reading, service.inbox))
    secret = settings.buildkite_webhook_secret.get_secret_value()
    app.include_router(buildkite_hook.router(secret, limit, service.sessions, service.inbox))
    api = runner_api.RunnerApi(service.sessions, settings, wiring.fetch_token)
    app.include_router(runner_api.router(api))
    app.include_router(health.router(service))
    for build in wiring.routers:
        app.include_router(build(service))


async def refuse(request: Request, error: Exception) -> Response:
    """Answer a refused request with one line."""
    if not isinstance(error, PayloadRejected):
        raise error
    log.info("request refused", path=request.url.path[:200], status=error.status, says=error.says)
    headers = {"Retry-After": "5"} if error.status == 503 else {}
    headers |= {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    return JSONResponse({"error": error.says}, status_code=error.status, headers=headers)


async def fail(request: Request, error: Exception) -> Response:
    """Answer an internal fault with an id that is in the log too."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, status_code=error.status_code)
    incident = incident_id()
    log.error("request failed", path=request.url.path[:200], incident=incident, exc_info=error)
    return JSONResponse({"error": f"internal error {incident}"}, status_code=500)
