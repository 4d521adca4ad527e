"""A backup is taken and restored with the commands of the operations page: everything is there, ids go on."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select

from bot.db.engine import open_engine
from bot.db.migrate import current_revision, newest_revision, upgrade
from bot.db.models import Base, Job
from tests.bot.dashboard.filling import NOW, Size, fill
from tests.postgres import Postgres, binaries

ROOT = Path(__file__).parents[2]
SMALL = Size(pulls=20, failures=200, cases=10, nights=20)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.stop()


def flags(program: str) -> list[str]:
    """Return the options that the operations page gives a program."""
    page = (ROOT / "deploy/docs/operations.md").read_text(encoding="utf-8")
    (line,) = re.findall(rf"(?m)^{program} (.*)$", page)
    return [word for word in line.split() if word.startswith("--")]


def run(program: str, *arguments: str) -> None:
    finished = subprocess.run(
        [str(binaries() / program), *arguments], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr


def counts(url: str) -> dict[str, int]:
    engine = open_engine(url)
    with engine.connect() as connection:
        tables = Base.metadata.sorted_tables
        found = {one.name: connection.scalar(select(func.count()).select_from(one)) or 0 for one in tables}
    engine.dispose()
    return found


def test_what_was_backed_up_is_there_again(postgres: Postgres, tmp_path: Path) -> None:
    old, new = postgres.new_database(), postgres.new_database()
    engine = open_engine(old)
    upgrade(engine)
    fill(engine, SMALL)
    engine.dispose()
    dump = tmp_path / "prgate.dump"
    given = [one.replace("prgate.dump", str(dump)) for one in flags("pg_dump")]
    run("pg_dump", *given, old)
    restore = [one for one in flags("pg_restore") if not one.startswith("--dbname")]
    run("pg_restore", *restore, f"--dbname={new}", str(dump))
    assert counts(new) == counts(old)
    assert sum(counts(new).values()) > 500
    engine = open_engine(new)
    assert current_revision(engine) == newest_revision()
    upgrade(engine)
    with engine.begin() as connection:
        before = connection.scalar(select(func.max(Job.id))) or 0
        job = insert(Job).values(
            verb="route", repo_id=1, created_at=NOW, state="queued", attempts=0, subject=""
        )
        (number,) = connection.execute(job.returning(Job.id)).one()
    engine.dispose()
    assert number > before
