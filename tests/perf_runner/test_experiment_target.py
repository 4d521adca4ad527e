"""The recorded repository, measured for real: the culprit is caught, a revision against itself is not."""

import pytest

from perf_runner.checkout import import_repository
from perf_runner.measure import measure_case
from perf_runner.models import Outcome
from perf_runner.plan import GateOverrides
from perf_runner.workspace import Request, Workspace

pytest.importorskip("torch")
CASE = "512x512_steps20"


@pytest.fixture(scope="module")
def measure(tmp_path_factory):
    from bot.demo.target import build_target
    from perf_runner.sandbox import find_sandbox

    folder = tmp_path_factory.mktemp("target")
    target = build_target(folder / "repository")
    repository = import_repository(target.path, folder / "git")
    workspace = Workspace(repository, folder, find_sandbox())

    def run(base, head, max_blocks):
        arms = (("base", target.shas[base]), ("head", target.shas[head]))
        return measure_case(workspace, Request(arms, CASE, GateOverrides(max_blocks=max_blocks)))

    return run


def test_the_culprit_is_a_regression_against_its_parent(measure):
    result = measure("parent", "culprit", max_blocks=6)
    assert result.error is None
    assert result.decision.decision is Outcome.REGRESSION
    assert result.decision.change_pct > 50
    assert "The arms took different kernel paths (base: eager; head: fused)." in result.notes


def test_a_revision_against_itself_is_never_a_regression(measure):
    result = measure("parent", "parent", max_blocks=3)
    assert result.error is None
    assert result.decision.decision is not Outcome.REGRESSION
