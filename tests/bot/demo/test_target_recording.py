"""What was recorded beside the repository: texts with the facts, logs as a CI host sends them."""

from collections import Counter

import pytest

from bot.config import parse
from bot.demo.recorded import Recording, load
from bot.demo.recorded.noise import load_noise
from bot.demo.target import TargetRepository, build_target
from bot.demo.target.build import git
from perf_runner.gate import GateSettings, pair
from perf_runner.noise import prior_from, redraw


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> TargetRepository:
    return build_target(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def record(target: TargetRepository) -> Recording:
    return load(target)


def test_the_fix_carries_the_measured_facts_and_this_repositorys_commits(
    record: Recording, target: TargetRepository
) -> None:
    body = record.fix.body
    for fact in ("+10.9 %", "+2.3 %", "2.137", "2.370", "2.187", "L20X", "B*S >= 2048", "Fixes #7780"):
        assert fact in body
    assert target.parent[:10] in body
    assert target.culprit[:10] in body
    assert record.issue.labels == ("high priority", "ci-failure")


def test_the_head_is_red_on_cuda_and_rocm_and_green_on_intel(
    record: Recording, target: TargetRepository
) -> None:
    states = {build.pipeline: (build.number, build.state) for build in record.builds_of(target.fix_head)}
    assert states == {
        "omni-lite": (15934, "failed"),
        "omni-lite-amd": (12594, "failed"),
        "omni-lite-intel": (8801, "passed"),
    }
    (required,) = [build for build in record.builds_of(target.fix_head) if build.required]
    assert required.context == record.required[0]


def test_the_cuda_log_holds_six_tests_and_three_exceptions(
    record: Recording, target: TargetRepository
) -> None:
    cuda = record.builds_of(target.fix_head)[0].jobs[0]
    assert cuda.name == "Simple · Diffusion Test"
    assert "6 failed, 6543 passed" in cuda.log
    lines = [line.rpartition("\x07")[2] for line in cuda.log.split("\r\n")]
    summary = [line for line in lines if "FAILED" in line]
    assert len(summary) == 6
    kinds = Counter(line.rpartition(" - ")[2].partition(":")[0] for line in summary)
    assert kinds == {"KeyError": 2, "ImportError": 2, "AssertionError": 2}
    assert cuda.log.startswith("\x1b_bk;t=")


def test_the_four_shards_fail_the_six_tests_between_them(record: Recording, target: TargetRepository) -> None:
    rocm = record.builds_of(target.fix_head)[1]
    assert [job.state for job in rocm.jobs] == ["failed"] * 4
    named = [line.split(" - ")[0] for job in rocm.jobs for line in job.log.split("\r\n") if "FAILED" in line]
    assert len({name.rpartition("::")[2] for name in named}) == 6


def test_main_fails_the_same_unless_it_is_told_green(record: Recording, target: TargetRepository) -> None:
    assert [build.state for build in record.builds_of(target.main)] == ["failed", "failed", "passed"]
    green = load(target, main_green=True)
    assert {build.state for build in green.builds_of(target.main)} == {"passed"}
    assert green.builds_of(target.fix_head) == record.builds_of(target.fix_head)


def test_ids_are_unique_and_equal_at_every_load(record: Recording, target: TargetRepository) -> None:
    ids = [job.id for build in record.builds for job in build.jobs]
    assert len(set(ids)) == len(ids)
    assert load(target) == record


def test_steps_are_in_order_and_by_people_who_are_known(record: Recording) -> None:
    times = [step.at for step in record.steps]
    assert times == sorted(times)
    assert {step.author for step in record.steps if step.kind == "comment"} <= set(record.people)
    benches = [step for step in record.steps if step.body.startswith("@prgate bench")]
    assert {step.pull for step in benches} == {record.fix.number, record.culprit.number}
    assert all(record.people[step.author] in ("write", "admin") for step in benches)


def test_what_happened_on_a_commit_happened_after_it_was_made(
    record: Recording, target: TargetRepository
) -> None:
    for build in record.builds:
        made = int(git(target.path, "show", "-s", "--format=%ct", build.commit))
        assert build.created_at.timestamp() >= made, f"{build.pipeline} {build.number}"


def test_the_prior_of_the_cases_rests_on_recorded_blocks(target: TargetRepository) -> None:
    """It lies between what a shared and an overloaded machine gave, and no redraw of either accuses often."""
    record = load_noise()
    config = parse(git(target.path, "show", f"{target.main}:.github/prgate.toml"))
    (case,) = [case for case in config.perf.cases if case.name == record.case]
    for taken in record.sets:
        prior = prior_from([pair(block.base, block.head) for block in taken.blocks])
        assert prior.prior_sd == pytest.approx(taken.prior_sd, abs=2e-4)
        told = GateSettings(margin=case.margin or 0.0, prior_sd=case.prior_sd, prior_df=case.prior_df)
        rates = redraw([(block.base, block.head) for block in taken.blocks], told, trials=1000)
        assert rates.regression <= 1.0
        assert rates.no_regression >= 90.0
    assert case.prior_sd is not None
    assert min(taken.prior_sd for taken in record.sets) <= case.prior_sd
    assert case.prior_sd <= max(taken.prior_sd for taken in record.sets)
