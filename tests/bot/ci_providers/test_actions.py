"""A red head as GitHub Actions tells it, over HTTP."""

import io
import zipfile
from datetime import timedelta

import pytest

from bot.demo.github.state import Annotation, Artifact, CheckRun, WorkflowJob, WorkflowRun
from tests.bot.ci_providers.world import FAILED, PASSED, Ci, gh_job, hours_before

REPORT = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest" tests="1"><testcase classname="tests.test_rope" name="test_size">
<failure message="AssertionError: assert 3 == 2">x</failure></testcase></testsuite></testsuites>
"""


def red_head(ci: Ci, log: str | None = FAILED) -> tuple[WorkflowRun, WorkflowJob]:
    """Open the pull request and let its unit tests fail."""
    ci.github.state.required = ("unit",)
    ci.open()
    made = gh_job(ci, log=log)
    return ci.run("feature", made, event="pull_request", branch="feature"), made


def check_of(ci: Ci, job: WorkflowJob, *annotations: Annotation) -> None:
    """Keep the check run that GitHub makes of a job, under the same id."""
    at = hours_before(5.4)
    ci.github.state.check_runs[job.id] = CheckRun(
        id=job.id,
        name=job.name,
        head_sha=ci.sha("feature"),
        status="completed",
        conclusion="failure",
        external_id="",
        details_url=None,
        title="",
        summary="",
        app="github-actions",
        started_at=at,
        completed_at=at,
        annotations=list(annotations),
    )


def attach(ci: Ci, run: WorkflowRun, name: str, data: bytes, hours: float = 5.35) -> None:
    """Leave an artifact with a run."""
    run.artifacts.append(Artifact(ci.github.state.new_id(), name, hours_before(hours), data))


def packed(**files: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(f"{name}.xml", text)
    return made.getvalue()


def test_the_snapshot_holds_the_head_its_base_and_recent_main(ci: Ci) -> None:
    red_head(ci)
    ci.run("base", gh_job(ci, "success", PASSED), hours=47)
    ci.run("main~1", gh_job(ci, "failure"), hours=10)
    found = ci.collect()
    (job,) = found.snapshot.jobs
    assert (job.name, job.conclusion, job.required, job.log) == ("ci / unit", "failed", True, FAILED)
    assert found.notes == ()
    base = found.snapshot.base_runs[0]
    assert base.is_merge_base
    assert sorted(job.conclusion for job in base.jobs) == ["failed", "passed"]


def test_runs_of_the_branch_are_read_and_those_of_pull_requests_are_not(ci: Ci) -> None:
    red_head(ci)
    ci.run("fork", gh_job(ci), branch="main", event="pull_request", home="stranger/omni", hours=7)
    ci.run("other", gh_job(ci), branch="main", event="push", home="stranger/omni", hours=7)
    ci.run("base", gh_job(ci), branch="main", event="pull_request", hours=7)
    assert ci.snapshot().base_runs == ()
    ci.run("base", gh_job(ci), branch="main", event="schedule", hours=7)
    assert [run.sha for run in ci.snapshot().base_runs] == [ci.sha("base")]


def test_a_second_attempt_stands_and_the_first_is_kept_beside_it(ci: Ci) -> None:
    run, first = red_head(ci)
    again = gh_job(ci, "success", PASSED)
    again.run_attempt, again.run_id = 2, run.id
    run.jobs.append(again)
    snapshot = ci.snapshot()
    assert [(job.conclusion, job.attempt) for job in snapshot.jobs] == [("passed", 2)]
    assert [(job.id, job.log) for job in snapshot.same_commit_runs] == [(str(first.id), FAILED)]


def test_a_later_run_of_the_same_workflow_replaces_the_earlier_one(ci: Ci) -> None:
    red_head(ci)
    ci.run("feature", gh_job(ci, "success", PASSED), event="pull_request", branch="feature", hours=3)
    snapshot = ci.snapshot()
    assert [job.conclusion for job in snapshot.jobs] == ["passed"]
    assert [job.conclusion for job in snapshot.same_commit_runs] == ["failed"]


def test_a_run_for_another_event_stands_beside_it(ci: Ci) -> None:
    red_head(ci)
    ci.run("feature", gh_job(ci, "success", PASSED), event="push", branch="feature", hours=3)
    assert sorted(job.conclusion for job in ci.snapshot().jobs) == ["failed", "passed"]


def test_a_forks_red_run_belongs_to_the_pull_request_whose_head_it_ran(ci: Ci) -> None:
    red_head(ci)
    ci.open(2, "other", "author-02")
    ci.run("other", gh_job(ci), event="pull_request", branch="patch-1", home="author-02/omni", hours=8)
    ci.run("stacked", gh_job(ci), event="pull_request", branch="patch-1", home="nobody/omni", hours=7)
    (other,) = ci.snapshot().other_prs
    assert (other.number, other.author, other.stacked_on_this) == (2, "author-02", False)
    assert [job.log for job in other.jobs] == [FAILED]


def test_an_expired_log_is_not_known(ci: Ci) -> None:
    _, job = red_head(ci, log=None)
    assert [one.log for one in ci.snapshot().jobs] == [None]
    check_of(ci, job, Annotation(".github", 1, "failure", "Process completed with exit code 1."))
    assert [one.log for one in ci.snapshot().jobs] == [None]


def test_where_the_log_expired_annotations_that_point_at_a_line_still_tell(ci: Ci) -> None:
    _, job = red_head(ci, log=None)
    check_of(
        ci,
        job,
        Annotation("omni/rope.py", 1, "failure", "undefined name\n'SIZE'"),
        Annotation("omni/rope.py", 2, "warning", "unused import"),
    )
    assert [one.log for one in ci.snapshot().jobs] == ["omni/rope.py:1: error: undefined name 'SIZE'\n"]


def test_a_report_among_the_artifacts_is_read(ci: Ci) -> None:
    run, _ = red_head(ci)
    attach(ci, run, "unit-test-results", packed(junit=REPORT))
    (job,) = ci.snapshot().jobs
    assert job.junit is not None
    assert 'name="test_size"' in job.junit
    assert job.junit.count("<?xml") == 0


@pytest.mark.parametrize(
    ("name", "data", "hours"),
    [
        ("lint-test-results", packed(junit=REPORT), 5.35),  # another job's
        ("unit-wheel", packed(junit=REPORT), 5.35),  # no report
        ("unit-test-results", packed(junit=REPORT), 2.0),  # a later attempt's
        ("unit-test-results", b"PK but no archive", 5.35),
        ("unit-test-results", packed(junit="<html/>"), 5.35),
        ("unit-test-results", packed(junit="<testsuites>" + " " * (16 * 1024**2 + 1)), 5.35),
    ],
)
def test_what_is_not_this_jobs_report_is_not_taken_for_it(
    ci: Ci, name: str, data: bytes, hours: float
) -> None:
    run, _ = red_head(ci)
    attach(ci, run, name, data, hours)
    assert [job.junit for job in ci.snapshot().jobs] == [None]


def test_a_job_that_still_runs_says_nothing_yet(ci: Ci) -> None:
    run, _ = red_head(ci)
    open_job = gh_job(ci, name="slow")
    open_job.status, open_job.conclusion, open_job.completed_at = "in_progress", None, None
    run.jobs.append(open_job)
    assert [job.name for job in ci.snapshot().jobs] == ["ci / unit"]


def test_actions_that_may_not_be_read_are_said_and_their_red_check_is_not_forgotten(ci: Ci) -> None:
    _, job = red_head(ci)
    check_of(ci, job)
    ci.github.faults.fail("GET", "/actions/", 403, times=50)
    found = ci.collect()
    assert "GitHub Actions could not be read (403): `actions: read` is needed" in found.notes
    assert [(job.name, job.conclusion, job.log) for job in found.snapshot.jobs] == [("unit", "failed", None)]


def test_a_repository_with_a_very_long_history_is_read_in_part_and_says_so(ci: Ci) -> None:
    red_head(ci)
    for number in range(45):
        run = ci.run("base", gh_job(ci, "success", PASSED), hours=7 + number / 10)
        run.jobs[0].completed_at = hours_before(7) + timedelta(minutes=1)
    found = ci.collect()
    assert "only the newest 40 workflow runs of a query were read" in found.notes
    assert [run.is_merge_base for run in found.snapshot.base_runs] == [True]
