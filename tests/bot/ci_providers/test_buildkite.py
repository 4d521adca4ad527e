"""A red head as Buildkite tells it, over HTTP: what the snapshot holds, and what it leaves unknown."""

from datetime import timedelta

import httpx
import pytest

from bot.ci.collect import buildkite
from bot.ci.providers.fetch import Fetcher
from bot.config import CiConfig
from bot.head_checks import HeadChecks
from bot.settings import load_settings
from tests.bot.ci_providers.world import FAILED, NOON, PASSED, Ci, bk_job


def red_head(ci: Ci) -> None:
    """Open the pull request and let its required build fail."""
    ci.github.state.required = ("buildkite/omni",)
    ci.open()
    ci.build(10, "feature", bk_job(), bk_job("passed", PASSED, name="Lint"), branch="feature", pull=1)
    ci.status()


def test_the_snapshot_holds_the_head_its_base_and_the_history(ci: Ci) -> None:
    red_head(ci)
    ci.build(5, "base", bk_job("passed", PASSED), hours=47)
    found = ci.collect()
    snapshot = found.snapshot
    assert found.notes == ()
    assert (snapshot.pr.head_sha, snapshot.pr.merge_base_sha) == (ci.sha("feature"), ci.sha("base"))
    assert snapshot.pr.head_committed_at == NOON - timedelta(hours=6)
    assert [file.path for file in snapshot.pr.changed_files] == ["omni/rope.py"]
    unit, lint = sorted(snapshot.jobs, key=lambda job: job.name, reverse=True)
    assert (unit.conclusion, unit.required, unit.log) == ("failed", True, FAILED)
    assert (lint.conclusion, lint.log) == ("passed", None)
    (base,) = snapshot.base_runs
    assert base.is_merge_base
    assert [job.conclusion for job in base.jobs] == ["passed"]
    assert [(one.name, one.passed, one.failed) for one in snapshot.job_history] == [("Unit", 1, 0)]


def test_a_commit_of_main_that_is_younger_than_the_head_proves_nothing_whenever_it_was_built(ci: Ci) -> None:
    red_head(ci)
    ci.build(20, "main", bk_job(), hours=7)  # by the commit's own clock, it was built before it was made
    assert ci.snapshot().base_runs == ()


def test_the_merge_base_is_read_however_old_it_is(ci: Ci) -> None:
    ci.config = CiConfig(history_days=1)
    red_head(ci)
    ci.build(5, "base", bk_job("passed", PASSED), hours=47)
    assert [run.is_merge_base for run in ci.snapshot().base_runs] == [True]


def test_main_after_the_head_was_committed_proves_nothing(ci: Ci) -> None:
    red_head(ci)
    ci.build(20, "main", bk_job(), hours=0.5)
    assert ci.snapshot().base_runs == ()


def test_a_commit_from_the_future_does_not_reach_into_it(ci: Ci) -> None:
    ci.now = NOON - timedelta(hours=20)  # the head calls itself 14 hours younger than it can be
    red_head(ci)
    snapshot = ci.snapshot()
    assert snapshot.pr.head_committed_at == ci.now


def test_a_forks_branch_called_main_is_not_main(ci: Ci) -> None:
    red_head(ci)
    ci.build(6, "fork", bk_job(), branch="main", pull=7, hours=8)
    ci.build(7, "base", bk_job(), branch="main", pull=8, hours=8)
    assert ci.snapshot().base_runs == ()


def test_a_retry_stands_and_the_first_attempt_is_kept_beside_it(ci: Ci) -> None:
    red_head(ci)
    (build,) = [one for one in ci.buildkite.builds.values() if one.number == 10]
    again = ci.buildkite.retry(build, build.jobs[0])
    assert again is not None
    ci.buildkite.finish(build, again, "passed", PASSED)
    snapshot = ci.snapshot()
    standing = {job.name: (job.conclusion, job.attempt) for job in snapshot.jobs if job.provider}
    assert standing["Unit"] == ("passed", 2)
    assert [(job.conclusion, job.log) for job in snapshot.same_commit_runs] == [("failed", FAILED)]


def test_a_retry_that_still_runs_leaves_no_red_job_behind(ci: Ci) -> None:
    red_head(ci)
    (build,) = [one for one in ci.buildkite.builds.values() if one.number == 10]
    ci.buildkite.retry(build, build.jobs[0])
    ci.status("pending")
    snapshot = ci.snapshot()
    assert [job.name for job in snapshot.jobs if job.is_failure] == []
    assert [job.name for job in snapshot.same_commit_runs] == ["Unit"]


def test_a_later_build_that_runs_less_takes_nothing_back(ci: Ci) -> None:
    red_head(ci)
    ci.build(11, "feature", bk_job("passed", PASSED, name="Npu"), branch="feature", pull=1, hours=3)
    red = [job.name for job in ci.snapshot().jobs if job.is_failure]
    assert red == ["Unit"]


def test_a_red_status_whose_build_is_all_green_stays_red_and_unexplained(ci: Ci) -> None:
    red_head(ci)
    ci.build(11, "feature", bk_job("passed", PASSED), branch="feature", pull=1, hours=3)
    snapshot = ci.snapshot()
    (left,) = [job for job in snapshot.jobs if job.is_failure]
    assert (left.name, left.log, left.required) == ("buildkite/omni", None, True)
    assert [job.conclusion for job in snapshot.same_commit_runs] == ["failed"]


def test_without_a_token_nothing_is_known_and_nothing_is_forgotten(ci: Ci) -> None:
    red_head(ci)
    ci.buildkite_token = ""
    snapshot = ci.snapshot()
    (job,) = snapshot.jobs
    assert (job.name, job.conclusion, job.log) == ("buildkite/omni", "failed", None)
    assert snapshot.base_runs == ()


def test_a_wrong_token_is_said(ci: Ci) -> None:
    red_head(ci)
    ci.buildkite_token = "old"
    found = ci.collect()
    assert found.notes == ("127.0.0.1 refuses to be read (401): its token lacks a permission",)
    assert [job.log for job in found.snapshot.jobs] == [None]


def test_a_rate_limit_ends_as_not_known(ci: Ci) -> None:
    red_head(ci)
    ci.buildkite.limit(100)
    found = ci.collect()
    assert [job.name for job in found.snapshot.jobs] == ["buildkite/omni"]
    assert found.notes == ("127.0.0.1 limits how much may be read now; what is missing is not known",)


@pytest.mark.parametrize("log", [None, '{"message":"You have exceeded your API rate limit."}'])
def test_a_log_that_is_gone_is_not_known(ci: Ci, log: str | None) -> None:
    ci.open()
    ci.build(10, "feature", bk_job(log=log), branch="feature", pull=1)
    ci.status()
    (job,) = ci.snapshot().jobs
    assert (job.conclusion, job.log) == ("failed", None)


def test_a_log_is_read_once_and_then_kept(ci: Ci) -> None:
    red_head(ci)
    first = ci.snapshot()
    ci.buildkite.requests.clear()
    assert ci.snapshot().jobs == first.jobs
    assert [path for path in ci.buildkite.requests if path.endswith("/log.txt")] == []


def test_other_pull_requests_are_read_and_stacked_ones_are_named(ci: Ci) -> None:
    red_head(ci)
    ci.open(2, "other", "author-02")
    ci.open(3, "stacked", "author-03")
    ci.build(8, "other", bk_job(), branch="other", pull=2, hours=8)
    ci.build(9, "stacked", bk_job(), branch="stacked", pull=3, hours=6.5)
    ci.build(7, "fork", bk_job("passed", PASSED), branch="fork", pull=4, hours=9)
    others = {one.number: one for one in ci.snapshot().other_prs}
    assert set(others) == {2, 3}
    assert (others[2].author, others[2].stacked_on_this, others[3].stacked_on_this) == (
        "author-02",
        False,
        True,
    )
    assert [file.path for file in others[2].changed_files or ()] == ["omni/other.py"]
    assert [job.log for job in others[2].jobs] == [FAILED]


def test_a_build_of_another_pull_request_after_the_head_is_left_out(ci: Ci) -> None:
    red_head(ci)
    ci.open(2, "other", "author-02")
    ci.build(30, "other", bk_job(), branch="other", pull=2, hours=2)
    assert ci.snapshot().other_prs == ()


def test_a_step_that_is_required_by_its_own_context_is_told_from_one_that_is_not(ci: Ci) -> None:
    ci.github.state.required = ("buildkite/omni/pr/unit",)
    ci.open()
    ci.build(10, "feature", bk_job(), bk_job(name="Docs build"), branch="feature", pull=1)
    ci.status(context="buildkite/omni/pr/unit")
    assert {job.name: job.required for job in ci.snapshot().jobs} == {"Unit": True, "Docs build": False}


def test_rules_that_nobody_may_read_leave_required_unknown_unless_configured(ci: Ci) -> None:
    ci.github.state.required = None
    ci.github.state.protected = None
    ci.open()
    ci.build(10, "feature", bk_job(), branch="feature", pull=1)
    ci.status()
    assert [job.required for job in ci.snapshot().jobs] == [None]
    ci.config = CiConfig(required=("buildkite/omni",))
    assert [job.required for job in ci.snapshot().jobs] == [True]
    ci.github.state.protected = ("lint",)
    assert [job.required for job in ci.snapshot().jobs] == [False]


def test_issues_about_ci_are_known_by_their_label(ci: Ci) -> None:
    red_head(ci)
    ci.github.hub.open_issue(40, "[CI] test_size flakes", "AssertionError", "author-02", ("ci-failure",))
    ci.github.hub.open_issue(41, "A question", "How?", "author-02", ())
    (issue,) = ci.snapshot().known_issues
    assert (issue.number, issue.state, issue.labels) == (40, "open", ("ci-failure",))
    ci.config = CiConfig(issue_labels=("red board",))
    ci.github.hub.open_issue(42, "test_size again", "AssertionError", "author-02", ("red board",))
    assert [one.number for one in ci.snapshot().known_issues] == [42]


def test_soft_failures_and_cascades_are_told_as_such(ci: Ci) -> None:
    soft = bk_job(name="Soft")
    soft.soft_failed = True
    ci.open()
    ci.build(10, "feature", bk_job(), soft, bk_job("waiting_failed", None, name="After"), branch="feature")
    ci.status()
    jobs = {job.name: job for job in ci.snapshot().jobs}
    assert jobs["Soft"].soft_failed
    assert jobs["Soft"].log is None
    assert jobs["After"].is_cascade


def test_a_hundred_red_jobs_cost_no_more_than_one_verdict_may_read(ci: Ci) -> None:
    red_head(ci)
    ci.build(
        12, "feature", *(bk_job(name=f"Shard {n}") for n in range(100)), branch="feature", pull=1, hours=3
    )
    found = ci.collect()
    logs = [job.log for job in found.snapshot.jobs if job.is_failure]
    assert len(logs) == 101
    assert sum(log is not None for log in logs) == 80
    assert "more than 80 red jobs: the logs of the others were not read" in found.notes


def test_a_server_without_organisation_or_token_says_which_it_wants(ci: Ci) -> None:
    checks = HeadChecks({"buildkite/omni": "failed", "buildkite/../../admin/pr": "failed"})
    for given, expected, pipelines in (
        ({}, "no Buildkite organisation is configured (`[ci.buildkite]`), so no build was read", ()),
        ({"buildkite_org": "omni"}, "PRGATE_BUILDKITE_TOKEN", ("omni",)),
    ):
        with httpx.Client() as http:
            fetcher = Fetcher(frozenset(), http)
            found = buildkite(load_settings(given), ci.config, checks, fetcher)
        assert found.pipelines == pipelines
        (note,) = fetcher.notes
        assert expected in note


REPORT = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest" tests="2">
<testcase classname="tests.test_rope" name="test_size"><failure message="ValueError: {words}"/></testcase>
<testcase classname="tests.test_rope" name="test_other"/></testsuite></testsuites>
"""
LONG = "the sizes of the two rotary tables do not agree: 3 is not 2, which the layer above took for granted"


def red_with(ci: Ci, artifacts: dict[str, bytes]) -> None:
    """Let the head fail with a log that is cut at the terminal's width, and leave artifacts with it."""
    log = FAILED.replace("AssertionError: assert 3 == 2", f"ValueError: {LONG[:40]}...")
    job = bk_job(log=log)
    job.artifacts = artifacts
    ci.open()
    ci.build(10, "feature", job, branch="feature", pull=1)
    ci.status()


def said(ci: Ci) -> list[tuple[str | None, str]]:
    """Return what the head's failures are read as."""
    found = ci.collect()
    readings = [found.readings[job.key] for job in found.snapshot.jobs if job.is_failure]
    return [(one.test, one.message) for reading in readings for one in reading.failures]


def test_a_report_among_the_artifacts_says_more_than_the_log(ci: Ci) -> None:
    report = REPORT.format(words=LONG).encode()
    red_with(ci, {"out/junit.xml": report, "out/coverage.xml": b"<coverage/>", "dist/a.whl": b"PK"})
    assert said(ci) == [("tests/test_rope.py::test_size", LONG)]
    asked = [path for path in ci.buildkite.requests if path.endswith("/download")]
    assert len(asked) == 1
    assert said(ci) == [("tests/test_rope.py::test_size", LONG)]
    assert [path for path in ci.buildkite.requests if path.endswith("/download")] == asked


@pytest.mark.parametrize(
    "report",
    [
        b"<html/>",
        b"<testsuites>",
        b"\x1f\x8b\x00\xff",
        b"<testsuites>" + b" " * (16 * 1024**2) + b"</testsuites>",
        b"""<!DOCTYPE a [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
        <testsuites><testcase name="&b;"><failure message="&b;"/></testcase></testsuites>""",
    ],
)
def test_a_report_that_is_none_leaves_the_log_to_speak(ci: Ci, report: bytes) -> None:
    red_with(ci, {"junit.xml": report})
    assert said(ci) == [("tests/test_rope.py::test_size", f"{LONG[:40]}...")]


def test_reports_with_a_host_that_may_not_be_read_are_left_alone_without_a_word(ci: Ci) -> None:
    red_with(ci, {"junit.xml": REPORT.format(words=LONG).encode()})
    ci.buildkite.artifact_url = "https://bucket.example.org/files"
    assert said(ci) == [("tests/test_rope.py::test_size", f"{LONG[:40]}...")]
    assert [note for note in ci.collect().notes if "bucket" in note] == []


def test_on_the_first_day_the_note_names_what_would_fill_the_memory(ci: Ci) -> None:
    red_head(ci)
    assert ci.collect().notes == (
        "not all that ran on `main` lately is known here; "
        "`prgate backfill --days 14 --repo omni/omni` reads it",
    )
