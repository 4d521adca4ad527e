"""Nights on a live stand-in: an episode becomes one issue, its A/B blames code or host, a fix closes it."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from bot.db.models import Run, RunState
from bot.db.nightly import Alarm, Baseline, Episode, Nightly, NightlySeries
from bot.dispatch import JobSpec
from bot.nightly.due import BY_DRIFT, BY_NIGHT, night_of, run_id
from bot.nightly.queue import VERB, WHOLE, tick
from bot.nightly.store import keep
from perf_runner.config import NightlyConfig
from perf_runner.history.measurements import Measurement
from perf_runner.models import Arm, BenchmarkCase, Block, CaseResult, Decision, Machine, Outcome, Sample

CONFIG = """
mode = "{mode}"

[perf]
queue = "runner.cpu"

[perf.nightly]
cases = ["short"]
at = "00:00"
issues = true
issue_after_days = 2
labels = ["performance"]

[[perf.cases]]
name = "short"
command = ["python", "bench.py"]

[[perf.paths]]
glob = "omni/layers/**"
cases = ["short"]
"""
FIRST = date(2026, 9, 1)


def configure(world: Any, mode: str = "comment") -> None:
    """Put the nightly configuration on main, and let the worker read commits from the bare repository."""
    world.hub.commit("main", {".github/prgate.toml": CONFIG.format(mode=mode)}, "Measure nights", "owner-01")
    path = str(world.hub.git.folder)
    world.settings = world.settings.model_copy(update={"clone_url": path})


def values(world: Any, series: Sequence[tuple[str, float]], start: int = 0, case: str = "short") -> None:
    """Keep one night a (tip, seconds), as a result file would bring them."""
    found = [
        Measurement(
            test="",
            config=case,
            metric="latency_median",
            night=FIRST + timedelta(days=start + n),
            value=value,
            way="lower",
            source=f"result:{n + start}",
            sha=sha,
            hardware="H100",
            model="acme/image",
            unit="s",
            baseline=2.0,
        )
        for n, (sha, value) in enumerate(series)
    ]
    with world.sessions.begin() as session:
        keep(session, world.repo_id, found, datetime.now(UTC))


def look(world: Any) -> None:
    world.do(JobSpec(VERB, world.repo_id, WHOLE))
    assert world.errors == []


def issues(world: Any) -> list[Any]:
    return [one for one in world.github.state.issues.values() if one.user == "prgate[bot]"]


def stored(world: Any) -> Episode:
    with world.sessions() as session:
        row: Episode = session.scalars(select(Episode)).one()
    return row


def decided(outcome: Outcome, change: float, arms: tuple[str, str]) -> dict[str, Any]:
    """Return a lane's report of one case."""
    decision = Decision(
        decision=outcome,
        why="the lower bound is above 0",
        change_pct=change,
        low_pct=change - 1.0,
        high_pct=change + 1.0,
        margin_pct=2.0,
        alpha=0.03,
        blocks_used=2,
        blocks_vetoed=0,
        runs_used=8,
        improved=False,
    )
    result = CaseResult(
        case=BenchmarkCase(name="short"),
        arms=(Arm(name="base", sha=arms[0]), Arm(name="head", sha=arms[1])),
        decision=decision,
    )
    return {"results": [result.model_dump(mode="json")]}


@pytest.fixture
def slow(world: Any) -> Any:
    """Twelve good nights, then two after a commit that touches the case's layer, among others."""
    configure(world)
    world.good = world.hub.commit("main", {"README.md": "# omni 1\n"}, "Write words", "owner-01")
    world.culprit = world.hub.commit(
        "main", {"omni/layers/rope.py": "SLOW = 1\n"}, "Rope: <b>do</b> more @owner-02", "author-01"
    )
    world.flagged = world.hub.commit("main", {"README.md": "# omni 2\n"}, "Write more words", "owner-01")
    values(world, [(world.good, 2.0 + 0.01 * (n % 3)) for n in range(12)] + [(world.flagged, 2.4)] * 2)
    return world


def test_an_episode_becomes_one_issue_with_its_commits_and_an_experiment(slow: Any) -> None:
    look(slow)
    look(slow)
    (issue,) = issues(slow)
    assert issue.title == "[Nightly] acme/image: short \u221220.0 % on H100"
    assert issue.labels == ["performance"]
    assert "failing for 2 days" in issue.body
    assert slow.culprit[:12] in issue.body
    assert "2, of which 1 touch the case's paths" in issue.body
    assert "in every failing night and in no good one" in issue.body
    assert "@owner-02" not in issue.body.replace("@\u2060owner-02", "")
    assert "<b>" not in issue.body
    (run,) = slow.runs()
    assert [arm["sha"] for arm in run.spec["arms"]] == [slow.good, slow.flagged]
    assert (run.number, run.requested_by, run.kind) == (0, BY_DRIFT, "experiment")
    assert stored(slow).issue_number == issue.number


def test_an_issue_created_under_a_lost_answer_is_found_again(slow: Any) -> None:
    slow.github.faults.fail("POST", "/issues$", 502, after=True)
    look(slow)
    look(slow)
    assert len(issues(slow)) == 1


def test_somebody_elses_issue_with_our_marker_is_left_alone(slow: Any) -> None:
    look(slow)
    (issue,) = issues(slow)
    copy = slow.hub.open_issue(500, "Copy", issue.body, "stranger-01", ())
    with slow.sessions.begin() as session:
        session.scalars(select(Episode)).one().issue_number = 500
    look(slow)
    assert copy.title == "Copy"
    assert len(issues(slow)) == 1
    assert stored(slow).issue_number == issue.number


@pytest.mark.parametrize(
    ("outcome", "change", "says", "rest"),
    [
        (Outcome.REGRESSION, 15.0, "it is the code", "+4.3 % is host or baseline"),
        (Outcome.NO_REGRESSION, 0.2, "it is not the code", "+19.8 % is host or baseline"),
    ],
)
def test_the_experiment_says_code_or_host_and_splits_the_gap(
    slow: Any, outcome: Outcome, change: float, says: str, rest: str
) -> None:
    look(slow)
    (run,) = slow.runs()
    slow.finish(run.id, RunState.DONE, result=decided(outcome, change, (slow.good, slow.flagged)))
    look(slow)
    (issue,) = issues(slow)
    assert says in issue.body
    assert rest in issue.body
    row = stored(slow)
    assert (row.explained_pct, row.explained_low_pct, row.run_id) == (change, change - 1.0, run.id)
    assert len(slow.runs()) == 1


def test_a_fix_recovers_in_part_and_then_whole(slow: Any) -> None:
    look(slow)
    (issue,) = issues(slow)
    slow.hub.git.move_branch("fix", slow.flagged)
    slow.hub.commit("fix", {"omni/layers/rope.py": "SLOW = 0\n"}, "Undo", "author-01")
    slow.hub.open_pull(90, "fix", "author-01", title="[Perf] Undo", body=f"Fixes #{issue.number}")
    fixed = slow.hub.merge(90, "maintainer-01")
    assert issue.state == "closed"
    values(slow, [(fixed, 2.2), (fixed, 2.2)], start=14)
    look(slow)
    assert issue.state == "open"
    assert "#90 was merged, recovered in part" in issue.body
    assert stored(slow).state == "partly"
    values(slow, [(fixed, 2.0), (fixed, 2.0), (fixed, 2.01)], start=16)
    look(slow)
    assert issue.state == "closed"
    (comment,) = slow.github.bot_comments(issue.number)
    assert "**Recovered**" in comment.body
    slow.hub.edit_issue(issue.number, "maintainer-01", state="open")
    look(slow)
    assert issue.state == "open"  # what a person did after that stays


def test_an_episode_that_went_away_is_closed_without_a_fix(slow: Any) -> None:
    look(slow)
    (issue,) = issues(slow)
    values(slow, [(slow.flagged, 2.0)] * 3, start=14)
    look(slow)
    assert issue.state == "closed"
    assert "no fix is known, recovered" in issue.body
    values(slow, [(slow.flagged, 2.5)], start=17)
    look(slow)
    assert issue.state == "open"
    assert len(issues(slow)) == 1


def test_a_case_that_fails_later_joins(slow: Any) -> None:
    look(slow)
    values(slow, [(slow.good, 2.0)] * 13 + [(slow.flagged, 2.3)], case="long")
    look(slow)
    (issue,) = issues(slow)
    assert "(joined)" in issue.body
    assert issue.title.startswith("[Nightly] acme/image: short and 1 more")


def test_shadow_mode_posts_nothing_and_keeps_the_episode(slow: Any) -> None:
    text = CONFIG.format(mode="shadow")
    slow.hub.commit("main", {".github/prgate.toml": text}, "Be silent", "owner-01")
    writes = slow.writes()
    look(slow)
    assert slow.writes() == writes
    assert issues(slow) == []
    assert stored(slow).state == "open"
    assert len(slow.runs()) == 1


def test_an_alarm_without_a_baseline_starts_the_experiment_alone(world: Any) -> None:
    configure(world)
    good = world.hub.commit("main", {"README.md": "# omni 1\n"}, "Write words", "owner-01")
    bad = world.hub.commit("main", {"omni/layers/rope.py": "SLOW = 1\n"}, "Do more", "author-01")
    longer = [(good, 1.0 + 0.001 * (n % 3)) for n in range(12)] + [(bad, 1.05)] * 2
    found = [
        Measurement(
            "", "short", "latency_mean", FIRST + timedelta(days=n), value, "lower", f"result:{n}", sha
        )
        for n, (sha, value) in enumerate(longer)
    ]
    with world.sessions.begin() as session:
        keep(session, world.repo_id, found, datetime.now(UTC))
        raised = session.scalars(select(Alarm)).all()
    assert [alarm.night for alarm in raised if alarm.worse]
    look(world)
    assert issues(world) == []
    (run,) = world.runs()
    assert [arm["sha"] for arm in run.spec["arms"]] == [good, bad]
    world.finish(run.id, RunState.DONE, result=decided(Outcome.REGRESSION, 5.0, (good, bad)))
    look(world)
    (issue,) = issues(world)
    assert "the code got slower" in issue.body


def test_a_night_is_started_once_and_its_runs_become_rows(world: Any) -> None:
    configure(world)
    for _ in range(2):
        world.do(tick(world.repo_id))
    (run,) = world.runs()
    tip = world.hub.git.resolve("main")
    assert run.requested_by == BY_NIGHT
    assert {arm["sha"] for arm in run.spec["arms"]} == {tip}
    night = night_of(run.requested_at, NightlyConfig())
    assert run.id == run_id("night", world.repo_id, night, "short")
    chance = [0.998, 1.001, 1.003, 0.999, 1.002, 1.0, 1.001, 0.997]
    blocks = tuple(
        Block(
            arms={
                "base": (Sample(seconds=2 * chance[n]), Sample(seconds=2 * chance[n + 2])),
                "head": (Sample(seconds=2 * chance[n + 1]), Sample(seconds=2 * chance[n + 3])),
            },
            number=n,
        )
        for n in range(4)
    )
    machine = Machine(host_class="host-a", gpu_name="H100")
    arms = (Arm(name="base", sha=tip), Arm(name="head", sha=tip))
    result = CaseResult(case=BenchmarkCase(name="short"), arms=arms, blocks=blocks, machine=machine)
    world.finish(run.id, RunState.DONE, result={"results": [result.model_dump(mode="json")]})
    for _ in range(2):
        look(world)
    with world.sessions() as session:
        rows = {row.metric: row for row in session.scalars(select(NightlySeries))}
        kept = session.scalars(select(Nightly).order_by(Nightly.series_id)).all()
    assert set(rows) == {"latency_median", "aa_block_sd"}
    assert len(kept) == 2
    assert (kept[0].n, kept[0].run_id, kept[0].machine, kept[0].night) == (16, run.id, "host-a", night)
    assert rows["latency_median"].last_value == pytest.approx(2.0, rel=0.01)


def test_our_own_nights_get_a_baseline_that_their_data_meets(world: Any) -> None:
    found = [
        Measurement(
            "",
            "short",
            "latency_median",
            FIRST + timedelta(days=n),
            2.0 + 0.01 * (n % 2),
            "lower",
            f"run:{n}",
        )
        for n in range(9)
    ]
    with world.sessions.begin() as session:
        keep(session, world.repo_id, found, datetime.now(UTC))
        (baseline,) = session.scalars(select(Baseline)).all()
        later = session.scalars(select(Nightly).where(Nightly.night >= baseline.since)).all()
    assert (baseline.n, baseline.first_night, baseline.since) == (7, FIRST, FIRST + timedelta(days=7))
    assert baseline.value == pytest.approx(2.0)
    assert [row.baseline for row in later] == [baseline.value] * 2


def test_a_run_of_the_nights_looks_at_the_nights_alone(world: Any) -> None:
    from bot.runs import looks

    run = Run(id="x", repo_id=world.repo_id, number=0, kind="experiment")
    assert [(spec.verb, spec.number) for spec in looks(run)] == [(VERB, WHOLE)]


SUITE = """[
 {"test_name": "test_qwen_image_single_device", "server_params": {"model": "acme/image"},
  "benchmark_params": [{"name": "512x512_steps20", "num-prompts": 10, "max-concurrency": 1},
                       {"name": "1536x1536_steps35", "num-prompts": 10, "max-concurrency": 1}]},
 {"test_name": "test_qwen_image_ulysses2_cfg2_cache_dit", "server_params": {"model": "acme/image"},
  "benchmark_params": [{"name": "512x512_steps20", "num-prompts": 10, "max-concurrency": 1}]}
]"""


def test_a_repository_laid_out_as_vllm_omni_needs_no_cases_of_its_own(world: Any) -> None:
    files = {
        ".github/prgate.toml": "",
        "tests/dfx/perf/tests/test_qwen_image.json": SUITE,
        "tests/dfx/perf/tests/broken.json": "[{]",
        "vllm_omni/diffusion/layers/rope.py": "x = 1\n",
    }
    world.hub.commit("main", files, "Lay out", "owner-01")
    world.hub.git.move_branch("layer", world.hub.git.resolve("main"))
    world.hub.commit("layer", {"vllm_omni/diffusion/layers/rope.py": "x = 2\n"}, "Change", "author-01")
    world.open("layer")
    world.say("@prgate bench")
    (run,) = world.runs()
    assert [case["name"] for case in run.spec["cases"]] == [
        "test_qwen_image_single_device/512x512_steps20",
        "1536x1536_steps35",
    ]
    assert run.spec["cases"][0]["target"] == "serving"
