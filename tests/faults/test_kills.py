"""A seeded dozen of kills in the middle of a replay; `make faults` does two hundred and other troubles."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.kills import KILLED, RECOVERY_LIMIT_S
from tests.faults.oracle import Outcome
from tests.faults.rounds import Plan, play
from tests.postgres import Postgres, running

PULLS = 1


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def undisturbed(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    result = play(Plan("undisturbed", 0, pulls=PULLS), tmp_path_factory.mktemp("undisturbed"), postgres)
    assert result.faults == ()
    assert len(result.outcome.comments) > 5
    return result.outcome


def test_a_dozen_kills_lose_double_and_change_nothing(
    postgres: Postgres, undisturbed: Outcome, tmp_path: Path
) -> None:
    plan = Plan("kills", seed=7, kills=12, pulls=PULLS, targets=KILLED, disturb="duplicates")
    result = play(plan, tmp_path, postgres, undisturbed)
    assert result.faults == ()
    assert len(result.kills) == 12
    assert max(kill.recovered_s for kill in result.kills) < RECOVERY_LIMIT_S
