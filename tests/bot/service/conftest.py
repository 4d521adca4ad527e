"""One Redis and, where wanted, one PostgreSQL for all tests of this folder; a world of its own for each."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis
from sqlalchemy import text

from bot.db.engine import Sessions, open_engine, open_sessions
from bot.db.migrate import upgrade
from bot.db.models import Base
from bot.demo.redis_child import RedisChild
from bot.log import configure
from tests.bot.service.world import World
from tests.postgres import Postgres, running


@pytest.fixture(scope="session", autouse=True)
def quiet_logs() -> Iterator[None]:
    """Log as the service does: structlog's own default draws tracebacks for seconds."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    configure("CRITICAL")
    yield
    logging.captureWarnings(False)
    root.handlers, root.level = handlers, level


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisChild]:
    with RedisChild() as child:
        yield child


@pytest.fixture
def make_world(tmp_path: Path, redis: RedisChild) -> Iterator[Callable[..., World]]:
    with Redis.from_url(redis.redis_url) as client:
        client.flushall()
    made: list[World] = []

    def make(database_url: str | None = None, **extra: str) -> World:
        url = database_url or f"sqlite:///{tmp_path / 'prgate.db'}"
        made.append(World(tmp_path, redis, url, extra))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture(scope="session")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A service that runs for all tests which kill nothing; each speaks of pull requests of its own."""
    folder = tmp_path_factory.mktemp("standing")
    with RedisChild() as own_redis:
        clone_url = f"file://{folder}/git/{{full_name}}.git"
        made = World(folder, own_redis, f"sqlite:///{folder / 'prgate.db'}", {"CLONE_URL": clone_url})
        made.start_web()
        made.start_worker(3)
        yield made
        made.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def migrated(postgres: Postgres) -> str:
    """The URL of a PostgreSQL database with all tables."""
    url = postgres.new_database()
    engine = open_engine(url)
    upgrade(engine)
    engine.dispose()
    return url


def empty_tables(url: str) -> None:
    """Empty every table and start its numbers anew: much cheaper than a database for each test."""
    engine = open_engine(url)
    names = ", ".join(table.name for table in Base.metadata.sorted_tables)
    with engine.begin() as connection:
        connection.execute(text(f"TRUNCATE {names} RESTART IDENTITY"))
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    return str(request.getfixturevalue("postgres").new_database())


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store with all tables on each of the two databases."""
    if request.param == "postgresql":
        shared: str = request.getfixturevalue("migrated")
        empty_tables(shared)
        return shared
    url = f"sqlite:///{tmp_path / 'store.db'}"
    engine = open_engine(url)
    upgrade(engine)
    engine.dispose()
    return url


@pytest.fixture
def sessions(database_url: str) -> Iterator[Sessions]:
    engine = open_engine(database_url)
    yield open_sessions(engine)
    engine.dispose()
