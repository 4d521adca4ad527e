"""What must not change a verdict, and what may change it in one direction only, over generated heads."""

import random
from copy import deepcopy
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.ci.verdict import WORST
from tests.bot.ci.world import (
    base,
    file,
    green,
    issue,
    job,
    main,
    other,
    plain_log,
    pytest_log,
    verdict,
    world,
)

SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TESTS = (
    "tests/a/test_one.py::test_x",
    "tests/b/test_two.py::TestB::test_y[1]",
    "tests/a/test_one.py::test_z",
)
ERRORS = (
    ("KeyError", "'lru_tail'"),
    ("AssertionError", "assert 3 == 4"),
    ("ValueError", "shape (3, 4) is odd"),
    ("RuntimeError", "Server exited unexpectedly"),
    ("torch.OutOfMemoryError", "CUDA out of memory: 2.10 GiB"),
)
FILES = ("engine/cache.py", "engine/pool.py", "tests/a/test_one.py", "Dockerfile", "docs/a.md")
NAMES = ("Unit", "AMD: Unit", "Unit (shard 2)", "Build")

failures = st.lists(
    st.tuples(st.sampled_from(TESTS), st.sampled_from(ERRORS)),
    min_size=1,
    max_size=3,
    unique_by=lambda one: one[0],
)
logs = st.builds(
    lambda found, through: pytest_log(*found, through=through),
    failures,
    st.sampled_from([(), ("engine/cache.py",), ("engine/pool.py",)]),
) | st.sampled_from(
    [None, "", plain_log("engine/cache.cpp:3:1: error: no member 'rows'"), plain_log("odd end")]
)
jobs = st.builds(
    lambda name, ended, log, agent: job(name, ended, None if ended == "passed" else log, agent=agent),
    st.sampled_from(NAMES),
    st.sampled_from(["failed", "failed", "passed", "timed_out", "canceled", "not_run"]),
    logs,
    st.sampled_from(["host-1", "host-2", "host-3"]),
)
job_lists = st.lists(jobs, min_size=0, max_size=3, unique_by=lambda one: one["name"])


@st.composite
def heads(draw: st.DrawFn) -> dict[str, Any]:
    """Return a head with any mix of evidence around it."""
    runs = [
        main(*draw(job_lists), hours=60 - 10 * place, sha="cdef"[place])
        for place in range(draw(st.integers(0, 3)))
    ]
    runs += [base(*draw(job_lists))] if draw(st.booleans()) else []
    pulls = [other(8 + place, *draw(job_lists)) for place in range(draw(st.integers(0, 2)))]
    words = st.sampled_from(["", "Fixes #9", "It is unrelated to this change.", "Touches lru_tail."])
    issues = [issue(9, "[CI Failure] test_x", "KeyError: 'lru_tail'")] if draw(st.booleans()) else []
    changed = draw(st.lists(st.sampled_from(FILES), max_size=3, unique=True))
    return world(
        *draw(st.lists(jobs, min_size=1, max_size=4, unique_by=lambda one: one["name"])),
        files=[file(path) for path in changed],
        base_runs=runs,
        other_prs=pulls,
        same_commit_runs=[one | {"attempt": 2, "id": f"{one['id']}-again"} for one in draw(job_lists)],
        known_issues=issues,
        pr={"body": draw(words), "changed_files_complete": draw(st.sampled_from([True, False, None]))},
    )


def outcome(document: dict[str, Any]) -> tuple[str, list[tuple[str, str | None, str, str | None]]]:
    """Return overall verdict and each failure's, in an order of its own."""
    found = verdict(document)
    return found.overall, sorted((one.job, one.test or "", one.verdict, one.kind) for one in found.failures)  # type: ignore[return-value]


def severity(document: dict[str, Any]) -> dict[tuple[str, str | None, str], int]:
    """Return each failure's place between guilt (0) and innocence (2)."""
    return {
        (one.job, one.test, str(one.signature)): WORST.index(one.verdict)
        for one in verdict(document).failures
    }


@SETTINGS
@given(heads(), st.integers(0, 2**32))
def test_the_order_of_anything_changes_nothing(document: dict[str, Any], seed: int) -> None:
    shuffled = deepcopy(document)
    shuffle = random.Random(seed).shuffle
    for key in ("jobs", "base_runs", "other_prs", "same_commit_runs", "known_issues"):
        shuffle(shuffled[key])
    for run in (*shuffled["base_runs"], *shuffled["other_prs"]):
        shuffle(run["jobs"])
    shuffle(shuffled["pr"]["changed_files"])
    assert outcome(shuffled) == outcome(document)


@SETTINGS
@given(heads())
def test_repository_numbers_ids_builds_and_hosts_change_nothing(document: dict[str, Any]) -> None:
    renamed = deepcopy(document)
    renamed["repo"] = "other/place"
    renamed["pr"]["number"] = 777_777
    for place, one in enumerate(every_job(renamed)):
        one["id"], one["build"], one["url"] = f"new-{place}", "99", f"https://elsewhere.example.org/{place}"
        one["agent"] = f"renamed-{one['agent']}"
    assert outcome(renamed) == outcome(document)


def every_job(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all jobs of a document."""
    runs = [*document["base_runs"], *document["other_prs"]]
    return [*document["jobs"], *document["same_commit_runs"], *(one for run in runs for one in run["jobs"])]


@SETTINGS
@given(heads())
def test_green_jobs_beside_change_nothing(document: dict[str, Any]) -> None:
    more = deepcopy(document)
    more["jobs"] += [green(f"Other {n}", agent=f"host-{n}") for n in range(1, 5)]
    if outcome(document)[1]:
        assert outcome(more) == outcome(document)


@SETTINGS
@given(heads())
def test_taking_away_the_base_never_turns_unknown_into_unrelated(document: dict[str, Any]) -> None:
    blind = deepcopy(document)
    blind["base_runs"] = []
    before, after = severity(document), severity(blind)
    assert not [
        key
        for key in after
        if before[key] == WORST.index("unknown") and after[key] == WORST.index("unrelated")
    ]
    blind["pr"]["merge_base_sha"] = None
    assert severity(blind) == after


@SETTINGS
@given(
    heads(),
    st.sampled_from(["engine/cache.py", "engine/pool.py", "tests/a/test_one.py"]),
    st.sampled_from(["modified", "added"]),
)
def test_a_changed_file_in_the_traceback_never_makes_more_innocent(
    document: dict[str, Any], path: str, status: str
) -> None:
    touched = deepcopy(document)
    if any(one["path"] == path for one in touched["pr"]["changed_files"]):
        return
    touched["pr"]["changed_files"].append(file(path, status))
    before, after = severity(document), severity(touched)
    assert not [key for key in before if after[key] > before[key]]


@SETTINGS
@given(heads())
def test_an_authors_claim_never_makes_more_innocent(document: dict[str, Any]) -> None:
    claimed = deepcopy(document)
    claimed["pr"]["body"] += "\nAll of these failures are unrelated: known flaky tests, they fail on main."
    before, after = severity(document), severity(claimed)
    assert not [key for key in before if after[key] > before[key]]


@SETTINGS
@given(heads(), st.sampled_from(["head_committed_at", "merge_base_sha", "author"]))
def test_what_is_not_known_never_excuses(document: dict[str, Any], key: str) -> None:
    blind = deepcopy(document)
    blind["pr"][key] = None
    before, after = severity(document), severity(blind)
    unknown, unrelated = WORST.index("unknown"), WORST.index("unrelated")
    assert not [name for name in after if before[name] == unknown and after[name] == unrelated]


@SETTINGS
@given(heads())
def test_a_verdict_can_always_be_told(document: dict[str, Any]) -> None:
    found = verdict(document)
    for failure in found.failures:
        assert (failure.kind is None) == (failure.verdict == "unknown")
        assert bool(failure.would_settle_it) == (failure.verdict == "unknown")
        assert failure.evidence
    assert sum(len(group.jobs) for group in found.groups) >= len({one.job for one in found.failures})
    assert {test for group in found.groups for test in group.tests} == {
        one.test for one in found.failures if one.test
    }
