"""How flaky a test is, by what was seen of it."""

from datetime import timedelta

from bot.ci.flakes import Attempt, attempts_of, flake_rate
from tests.bot.ci_providers.test_buildkite import red_head
from tests.bot.ci_providers.world import NOON, PASSED, Ci, bk_job

TEST = "tests/test_rope.py::test_size"


def test_a_commit_counts_once_and_flickers_where_it_did_both() -> None:
    runs = [("a", True), ("a", False), ("a", True), ("b", True), ("b", True), ("c", False)]
    found = flake_rate([Attempt(sha, failed) for sha, failed in runs])
    assert (found.flickers, found.failing, found.commits) == (1, 1, 3)
    assert found.rate == 1 / 3
    assert flake_rate([]).rate is None


def test_passes_and_failures_are_found_in_what_was_seen(ci: Ci) -> None:
    red_head(ci)
    (build,) = [one for one in ci.buildkite.builds.values() if one.number == 10]
    again = ci.buildkite.retry(build, build.jobs[0])
    assert again is not None
    ci.buildkite.finish(build, again, "passed", PASSED)
    ci.build(5, "base", bk_job("passed", PASSED), hours=47)
    ci.build(6, "main~2", bk_job(), bk_job("canceled", None), hours=60)
    again = ci.buildkite.retry(build, again)
    assert again is not None
    ci.buildkite.finish(build, again, "failed", "", 1)
    ci.collect()
    with ci.sessions() as session:
        found = flake_rate(attempts_of(session, 1, TEST, NOON - timedelta(days=7)))
        assert attempts_of(session, 1, "tests/test_rope.py::test_other", NOON - timedelta(days=7)) == []
    assert (found.flickers, found.failing, found.commits) == (1, 1, 3)
