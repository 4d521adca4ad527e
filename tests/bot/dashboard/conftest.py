"""A store with all tables in a file, and the pages over it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy import Engine
from starlette.testclient import TestClient

from bot.dashboard.rendering import shared_pages
from bot.dashboard.routes import router_of
from bot.dashboard.site import Site
from bot.db.engine import Sessions, open_engine, open_reading_sessions, open_sessions
from bot.db.models import Base
from tests.bot.dashboard.filling import Size, fill


def pages_over(engine: Engine, **told: object) -> FastAPI:
    app = FastAPI()
    site = Site(open_reading_sessions(engine), shared_pages(), "https://github.example", **told)  # type: ignore[arg-type]
    app.include_router(router_of(site))
    return app


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path}/db.sqlite")
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def sessions(engine: Engine) -> Sessions:
    return open_sessions(engine)


@pytest.fixture
def client(engine: Engine) -> Iterator[TestClient]:
    with TestClient(pages_over(engine)) as client:
        yield client


@pytest.fixture(scope="session")
def year(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A small repository after a year; nobody writes to it."""
    engine = open_engine(f"sqlite:///{tmp_path_factory.mktemp('year')}/db.sqlite")
    Base.metadata.create_all(engine)
    fill(engine, Size(pulls=120, failures=1_500, cases=4))
    yield engine
    engine.dispose()


@pytest.fixture(scope="session")
def filled(year: Engine) -> Iterator[TestClient]:
    with TestClient(pages_over(year)) as client:
        yield client
