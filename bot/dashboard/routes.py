"""The pages over HTTP: each also as JSON under the same path with `.json`."""

from fastapi import APIRouter

from bot.dashboard.pages import (
    accuracy,
    compare,
    kernels,
    owners,
    perf,
    pull,
    queue,
    red,
    run,
    series,
    workers,
)
from bot.dashboard.pages import help as help_page
from bot.dashboard.rendering import PageRoute, shared_pages, static_file
from bot.dashboard.site import Site
from bot.db.engine import Sessions

PAGES = (
    queue.add,
    pull.add,
    red.add,
    perf.add,
    series.add,
    compare.add,
    kernels.add,
    run.add,
    owners.add,
    workers.add,
    accuracy.add,
    help_page.add,
)


def create_router(sessions: Sessions, web_url: str) -> APIRouter:
    """Return the dashboard's routes; `sessions` only read, `web_url` is where GitHub shows pull requests."""
    return router_of(Site(sessions, shared_pages(), web_url))


def router_of(site: Site) -> APIRouter:
    """Return the routes of all pages."""
    router = APIRouter(include_in_schema=False, route_class=PageRoute)
    for add in PAGES:
        add(router, site)
    router.get("/static/{name}")(static_file)
    return router
