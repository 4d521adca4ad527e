"""Reds that nobody can explain, settled by running their tests; a job run again; a first bad commit found.

Everything is real but GitHub and Buildkite: signed webhooks, the worker, the runner lane and its sandbox.
"""

import os
from datetime import UTC, datetime

import pytest

from bot.demo.buildkite.state import Build, Job
from bot.demo.world import EmbeddedWorld
from tests.e2e.reading import answers, note

CONTEXT, PIPELINE, CI = "buildkite/omni-lite", "omni-lite", "buildkite[bot]"
FILE = "tests/settle/test_limits.py"
GUILTY, INNOCENT, FLAKY, GONE, SLOW = 8001, 8002, 8003, 8004, 8005
TESTS = """\
import os

from omni_lite.limits import LIMIT


def test_limit():
    assert LIMIT == 4, f"LIMIT is {LIMIT}"


def test_flickers():
    # Each sandbox has a user of its own, one number after the other.
    assert os.getuid() % 2, "the queue was full"
"""
BENCHMARK = """\
import json, sys, time
from omni_lite.pause import SECONDS

def request():
    started = time.perf_counter()
    time.sleep(SECONDS)
    return time.perf_counter() - started

print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    count = json.loads(line)["run"]
    latencies = [request() for _ in range(count)]
    found = {"latencies_s": latencies, "requested": count, "completed": count, "workload": {"size": 1}}
    print(json.dumps(found), flush=True)
"""
CASE = """
[[perf.cases]]
name = "sleepy"
target = "session"
command = ["python", "-m", "benchmarks.sleepy"]
harness = ["benchmarks"]
requests = 3
margin = 0.4
prior_sd = 0.05
"""


def log_of(test: str, message: str) -> str:
    """Return what CI printed of one failing test."""
    return "\n".join(
        [
            "~~~ Running commands",
            "============================= test session starts ==============================",
            "collected 40 items",
            "=================================== FAILURES ===================================",
            f"_______________________________ {test} ________________________________",
            "",
            f"{FILE}:7: in {test}",
            f"E   AssertionError: {message}",
            "",
            "=========================== short test summary info ============================",
            f"FAILED {FILE}::{test} - AssertionError: {message}",
            "========================= 1 failed, 39 passed in 2.31s =========================",
        ]
    )


def open_red(world: EmbeddedWorld, number: int, branch: str, test: str, message: str) -> Build:
    """Open a pull request and let its required build fail in one test."""
    hub = world.github.hub
    pull = hub.open_pull(number, branch, "author-01", title=f"Change {branch}")
    moment = datetime.now(UTC)
    job = Job(f"job-{number}", "Limits Test", "failed", moment, moment, log_of(test, message), exit_status=1)
    build = Build(PIPELINE, number, pull.head_sha, branch, number, moment, [job])
    world.buildkite.hub.publish(build)
    hub.set_status(pull.head_sha, CONTEXT, "failure", CI)
    return build


@pytest.fixture(scope="module")
def red(world: EmbeddedWorld) -> EmbeddedWorld:
    """A world with four reds, each open, and a pull request that got slower; CI never ran on their bases."""
    hub = world.github.hub
    config = hub.git.run("show", "main:.github/prgate.toml")
    start = {
        ".github/prgate.toml": config + CASE,
        FILE: TESTS,
        "omni_lite/limits.py": "LIMIT = 4\n",
        "omni_lite/pause.py": "SECONDS = 0.02\n",
        "benchmarks/sleepy.py": BENCHMARK,
    }
    good = hub.commit("main", start, "Test the limits", "owner-01")
    for branch, files in (
        ("raise-limit", {"omni_lite/limits.py": "LIMIT = 5\n"}),
        ("other-page", {"omni_lite/extra.py": "EXTRA = 1\n"}),
        ("gone", {"omni_lite/extra.py": "EXTRA = 2\n"}),
    ):
        hub.git.move_branch(branch, good)
        hub.git.commit_files(branch, files, "Change", "author-01")
    broken = hub.commit("main", {"omni_lite/limits.py": "LIMIT = 5\n"}, "Raise the limit", "owner-01")
    hub.git.move_branch("note-limit", broken)
    hub.git.commit_files(
        "note-limit", {"omni_lite/limits.py": "# A limit.\nLIMIT = 5\n"}, "Note", "author-01"
    )
    hub.git.move_branch("slow", good)
    for text in ("raise SystemExit(1)\n", "SECONDS = 0.02\n", "SECONDS = 0.05\n"):
        hub.git.commit_files("slow", {"omni_lite/pause.py": text}, f"Set {text.split()[0]}", "author-02")
    open_red(world, GUILTY, "raise-limit", "test_limit", "LIMIT is 5")
    open_red(world, INNOCENT, "note-limit", "test_limit", "LIMIT is 5")
    open_red(world, FLAKY, "other-page", "test_flickers", "the queue was full")
    open_red(world, GONE, "gone", "test_gone", "nothing is left")
    hub.open_pull(SLOW, "slow", "author-02", title="Pause")
    world.settle()
    return world


@pytest.fixture(scope="module")
def before(red: EmbeddedWorld) -> dict[int, str]:
    """What the CI notes said before anything was run on purpose."""
    return {number: note(red, number, "ci") for number in (GUILTY, INNOCENT, FLAKY, GONE)}


@pytest.fixture(scope="module")
def settled(red: EmbeddedWorld, before: dict[int, str]) -> EmbeddedWorld:
    """The same world after a maintainer's word on each, and after all runs."""
    for number in before:
        red.github.hub.comment(number, "owner-01", "@prgate settle")
    red.github.hub.comment(SLOW, "owner-01", "@prgate bisect sleepy")
    red.settle(300)
    return red


def test_before_it_all_four_are_open(before: dict[int, str]) -> None:
    assert all("0 yours, 0 unrelated, 1 unknown" in body for body in before.values()), before


def test_what_passes_on_the_base_and_fails_on_the_head_is_the_pull_requests(settled: EmbeddedWorld) -> None:
    assert "### Settled: 1 failing on the head alone" in note(settled, GUILTY, "settle")
    body = note(settled, GUILTY, "ci")
    assert "1 yours, 0 unrelated, 0 unknown" in body
    assert "passes on the merge base 3 times of 3 and fails on the head 3 times of 3" in body


def test_its_twin_whose_base_fails_too_is_nothing_to_fix(settled: EmbeddedWorld) -> None:
    assert "### Settled: 1 failing on the merge base too" in note(settled, INNOCENT, "settle")
    body = note(settled, INNOCENT, "ci")
    assert "0 yours, 1 unrelated, 0 unknown" in body
    assert "Nothing for you to fix" in body
    assert "main is broken" in body


@pytest.mark.skipif(
    os.geteuid() != 0, reason="the test flickers by the sandbox's user, which root alone sets"
)
def test_what_flickers_on_the_base_is_flaky_and_its_job_runs_again_once(settled: EmbeddedWorld) -> None:
    assert "### Settled: 1 flickering on the merge base" in note(settled, FLAKY, "settle")
    assert "flaky" in note(settled, FLAKY, "ci")
    hub = settled.github.hub
    hub.comment(FLAKY, "owner-01", "@prgate retry")
    settled.settle()
    assert "Asked to run again: `Limits Test`." in answers(settled, FLAKY)[-1]
    build = settled.buildkite.hub.builds[PIPELINE, FLAKY]
    _, again = build.jobs
    settled.buildkite.hub.finish(build, again, "passed", "39 passed in 2.2s\n")
    hub.set_status(build.commit, CONTEXT, "success", CI)
    settled.settle()
    assert "CI is green on this head" in note(settled, FLAKY, "ci")
    hub.comment(FLAKY, "owner-01", "@prgate retry")
    settled.settle()
    assert len(build.jobs) == 2


def test_a_test_that_is_not_there_stays_open_with_the_reason(settled: EmbeddedWorld) -> None:
    assert "### Settled: 1 not run on both" in note(settled, GONE, "settle")
    body = note(settled, GONE, "ci")
    assert "0 yours, 0 unrelated, 1 unknown" in body
    assert "did not run on the merge base" in body


def test_the_bisect_names_the_slow_commit_and_skips_the_broken_one(settled: EmbeddedWorld) -> None:
    slow = settled.github.hub.require_pull(SLOW).head_sha
    body = note(settled, SLOW, "bisect")
    assert f"### Bisect: `{slow[:12]}` is the first bad commit" in body, body
    assert "against its parent" in body
    assert "not measured, since they do not build or run" in body


def test_nothing_failed_on_the_way(settled: EmbeddedWorld) -> None:
    assert settled.dead_jobs() == []
    assert {one.status_code // 100 for one in settled.github.state.deliveries} == {2}
