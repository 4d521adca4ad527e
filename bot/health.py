"""`/healthz`, `/readyz` and `/metrics`."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Literal

import httpx
from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from pydantic import BaseModel
from sqlalchemy import text

from bot.db.migrate import current_revision, newest_revision
from bot.errors import one_line
from bot.metrics import registry_with
from bot.service import Service

CHECK_LIMIT_S = 5.0


class Check(BaseModel):
    """One thing the service depends on; `says` is empty where all is well."""

    ok: bool
    says: str = ""


class Readiness(BaseModel):
    """What `/readyz` answers. `degraded` still takes deliveries: SQL keeps them until the rest is back."""

    schema_: Literal[1] = 1
    status: Literal["ready", "degraded", "not ready"]
    checks: Mapping[str, Check]


# Without these no delivery can be kept, so no request shall come here. Broker and GitHub may be away for a
# while: a balancer that took the service out for that would lose deliveries, which GitHub sends once only.
NEEDED = ("database", "migrations")


def check_database(service: Service) -> None:
    """Raise where the database does not answer."""
    with service.reading() as session:
        session.execute(text("SELECT 1"))


def check_migrations(service: Service) -> None:
    """Raise where the schema is another one than this version's."""
    here, wanted = current_revision(service.engine), newest_revision()
    if here != wanted:
        raise RuntimeError(f"the schema is at {here}, this version wants {wanted}")


def check_broker(service: Service) -> None:
    """Raise where the broker does not answer."""
    service.bell.waiting()


def check_github(service: Service) -> None:
    """Raise where GitHub's API does not answer (what it answers does not matter)."""
    httpx.get(f"{service.settings.github_api_url}/rate_limit", timeout=CHECK_LIMIT_S - 1)


CHECKS: Mapping[str, Callable[[Service], None]] = {
    "database": check_database,
    "migrations": check_migrations,
    "broker": check_broker,
    "github": check_github,
}


async def run_check(name: str, service: Service) -> Check:
    """Run one check within its time."""
    try:
        await asyncio.wait_for(run_in_threadpool(CHECKS[name], service), CHECK_LIMIT_S)
    except TimeoutError:
        return Check(ok=False, says=f"no answer within {CHECK_LIMIT_S:.0f} s")
    except Exception as error:
        return Check(ok=False, says=type(error).__name__ if name != "migrations" else one_line(error))
    return Check(ok=True)


async def readiness(service: Service) -> Readiness:
    """Return what of the service's surroundings is well."""
    results = await asyncio.gather(*(run_check(name, service) for name in CHECKS))
    checks = dict(zip(CHECKS, results, strict=True))
    if not all(checks[name].ok for name in NEEDED):
        return Readiness(status="not ready", checks=checks)
    return Readiness(status="ready" if all(one.ok for one in results) else "degraded", checks=checks)


def router(service: Service) -> APIRouter:
    """Return the routes."""
    made = APIRouter(tags=["health"])
    gauges = registry_with(service.reading)

    @made.get("/healthz", summary="The process answers")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @made.get("/readyz", summary="What of its surroundings is well")
    async def readyz() -> JSONResponse:
        found = await readiness(service)
        body = {("schema" if key == "schema_" else key): value for key, value in found.model_dump().items()}
        return JSONResponse(body, status_code=503 if found.status == "not ready" else 200)

    @made.get("/metrics", summary="Prometheus metrics")
    def metrics() -> Response:
        body = generate_latest(REGISTRY) + generate_latest(gauges)
        return Response(body, media_type=CONTENT_TYPE_LATEST)

    return made
