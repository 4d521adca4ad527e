"""What was seen of CI is kept: the next verdict reads it from there, and counts nothing twice."""

from datetime import timedelta

from sqlalchemy import delete, select

from bot.ci.coverage import joined, rest_of, settled
from bot.ci.history import History
from bot.ci.providers.reads import Window
from bot.ci.verdict import judge
from bot.db.models import CiJob, Log, Outcome, Signature
from bot.retention import retain
from bot.settings import load_settings
from tests.bot.ci_providers.test_buildkite import red_head
from tests.bot.ci_providers.world import FAILED, NOON, PASSED, Ci, bk_job, gh_job, hours_before


def signatures(ci: Ci) -> list[Signature]:
    with ci.sessions() as session:
        return list(session.scalars(select(Signature).order_by(Signature.test)))


def broken_main(ci: Ci) -> None:
    """Let main fail as the head does, on its base and once before, and pass in between."""
    red_head(ci)
    ci.build(3, "main~2", bk_job(), hours=60)
    ci.build(4, "main~2", bk_job("passed", PASSED), hours=55)
    ci.build(5, "base", bk_job(), hours=47)


def test_a_failure_is_rolled_up_over_main_and_pull_requests(ci: Ci) -> None:
    broken_main(ci)
    ci.open(2, "other", "author-02")
    ci.build(8, "other", bk_job(), branch="other", pull=2, hours=8)
    ci.collect()
    (row,) = signatures(ci)
    assert (row.test, row.exception, row.message) == (
        "tests/test_rope.py::test_size",
        "AssertionError",
        "assert 3 == 2",
    )
    assert (row.times, row.times_on_main, row.pulls, row.commits, row.passes) == (4, 2, 2, 4, 1)
    assert (row.job, row.last_main_sha, row.last_main_at) == ("Unit", ci.sha("base"), hours_before(47))
    assert (row.first_at, row.last_at) == (hours_before(60), hours_before(5.5))


def test_the_same_builds_read_twice_count_once(ci: Ci) -> None:
    broken_main(ci)
    ci.collect()
    (first,) = signatures(ci)
    ci.collect()
    (second,) = signatures(ci)
    assert {key: value for key, value in vars(first).items() if key != "_sa_instance_state"} == {
        key: value for key, value in vars(second).items() if key != "_sa_instance_state"
    }


def test_a_later_pass_of_the_job_is_counted_beside_its_failures(ci: Ci) -> None:
    broken_main(ci)
    ci.collect()
    ci.build(12, "feature", bk_job("passed", PASSED), branch="feature", pull=1, hours=3)
    ci.collect()
    assert [row.passes for row in signatures(ci)] == [2]


def test_the_next_verdict_needs_neither_builds_of_main_nor_their_logs(ci: Ci) -> None:
    broken_main(ci)
    ci.now = NOON + timedelta(days=1)
    first = ci.collect()
    ci.buildkite.requests.clear()
    second = ci.collect()
    assert [path for path in ci.buildkite.requests if "/log" in path] == []
    assert len(ci.buildkite.requests) == 2  # what ran on the head and on its merge base is always asked
    before = judge(first.snapshot, known=first.readings)
    after = judge(second.snapshot, known=second.readings)
    assert after == before
    assert after.failures[0].kind == "broken_trunk"


def test_what_is_kept_outlives_the_logs_and_the_provider(ci: Ci) -> None:
    broken_main(ci)
    ci.now = NOON + timedelta(days=1)
    ci.collect()
    with ci.sessions.begin() as session:
        session.execute(delete(Log))
    for key in [key for key, build in ci.buildkite.builds.items() if build.branch == "main"]:
        del ci.buildkite.builds[key]
    found = ci.collect()
    assert judge(found.snapshot, known=found.readings).failures[0].kind == "broken_trunk"


def test_a_run_of_the_base_that_somebody_starts_to_settle_it_is_found(ci: Ci) -> None:
    red_head(ci)
    ci.now = NOON + timedelta(days=3)
    assert ci.snapshot().base_runs == ()
    ci.build(30, "base", bk_job(), hours=-60)
    found = ci.collect()
    assert judge(found.snapshot, known=found.readings).failures[0].kind == "broken_trunk"


def test_a_span_that_could_not_be_read_is_asked_for_again(ci: Ci) -> None:
    broken_main(ci)
    ci.now = NOON + timedelta(days=1)
    ci.buildkite_token = "old"
    ci.collect()
    ci.buildkite_token = "bk-token"
    assert [run.is_merge_base for run in ci.snapshot().base_runs] == [True, False]


def test_a_cut_list_covers_only_what_it_showed_and_backfill_is_named(ci: Ci) -> None:
    ci.github.state.required = ("unit",)
    ci.open()
    ci.run("feature", gh_job(ci), event="pull_request", branch="feature")
    ci.now = NOON + timedelta(days=1)
    for number in range(45):
        ci.run("base", gh_job(ci, "success", PASSED), hours=7 + number / 10)
    found = ci.collect()
    assert any("`prgate backfill --days 14 --repo omni/omni`" in note for note in found.notes)
    history = History(ci.sessions, 1, "main", ci.now)
    covered = history.covered("actions main")
    assert covered is not None
    assert covered.start == hours_before(7 + 39 / 10)


def test_a_job_that_was_replaced_later_is_known_as_replaced(ci: Ci) -> None:
    red_head(ci)
    build = ci.build(5, "base", bk_job(), hours=20)
    ci.collect()
    again = ci.buildkite.retry(build, build.jobs[0])
    assert again is not None
    ci.buildkite.finish(build, again, "passed", PASSED)
    (base,) = ci.snapshot().base_runs
    assert sorted(job.conclusion for job in base.jobs) == ["failed", "passed"]
    with ci.sessions() as session:
        kept = session.execute(select(CiJob.conclusion, CiJob.replaced).where(CiJob.branch == "main"))
        assert {tuple(row) for row in kept} == {("failed", True), ("passed", False)}


def test_a_log_that_comes_late_is_read_late(ci: Ci) -> None:
    red_head(ci)
    job = bk_job(log=None)
    ci.build(5, "base", job, hours=47)
    ci.now = NOON + timedelta(days=1)
    assert [one.log for one in ci.snapshot().base_runs[0].jobs] == [None]
    job.log = FAILED
    assert [one.log for one in ci.snapshot().base_runs[0].jobs] == [FAILED]
    with ci.sessions() as session:
        assert len(list(session.scalars(select(Outcome).where(Outcome.on_main)))) == 1


def test_what_is_long_past_is_forgotten_and_what_lasts_is_not(ci: Ci) -> None:
    broken_main(ci)
    ci.collect()
    settings = load_settings({"keep_log_days": 90})
    retain(ci.sessions, settings, NOON + timedelta(days=50))
    with ci.sessions() as session:
        assert list(session.scalars(select(CiJob))) == []
    assert [row.times for row in signatures(ci)] == [3]
    retain(ci.sessions, settings, NOON + timedelta(days=100))
    assert signatures(ci) == []


def test_spans_are_asked_for_in_one_piece() -> None:
    def span(start: float, end: float) -> Window:
        return Window(hours_before(start), hours_before(end))

    asked = span(100, 10)
    assert rest_of(asked, None) == asked
    assert rest_of(asked, span(120, 5)) is None
    assert rest_of(asked, span(120, 30)) == span(30, 10)
    assert rest_of(asked, span(50, 5)) == span(100, 50)
    assert rest_of(asked, span(60, 50)) == asked
    assert rest_of(asked, span(500, 400)) == asked
    assert joined(span(100, 50), span(50, 10)) == asked
    assert joined(span(100, 50), span(40, 10)) == span(40, 10)
    assert joined(span(40, 10), span(100, 50)) == span(40, 10)
    assert settled(asked, hours_before(-20)) == asked
    assert settled(asked, hours_before(-4)) == span(100, 20)
    assert settled(span(20, 10), hours_before(5)) is None
