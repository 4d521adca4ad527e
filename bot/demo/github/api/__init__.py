"""The REST API, one area a file: `/repos/…` and the App's own endpoints."""

from fastapi import FastAPI

from bot.demo.github.api import access, checks, commits, contents, graph, issues, pulls, workflows
from bot.demo.github.api.frame import Frame
from bot.demo.github.hub import Hub

AREAS = (access, contents, graph, commits, pulls, issues, checks, workflows)


def create_api(hub: Hub) -> FastAPI:
    """Return the API of one stand-in."""
    app = FastAPI(openapi_url=None)
    app.state.hub = hub
    for area in AREAS:
        app.include_router(area.router)
    Frame(hub).install(app)
    return app
