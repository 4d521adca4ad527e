"""Each text that prgate posts, as it stands in the thread."""

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from bot.ci_note import CiView, FailureGroup, ci_note, explain
from bot.comments import (
    DriftLine,
    EvidenceLine,
    Frame,
    ModuleLine,
    OwnerLine,
    PriorityView,
    RouteView,
    answer,
    help_text,
    misunderstanding,
    refusal,
    route_note,
    triage_note,
)
from bot.perf_note import PerfView, check_state, perf_note
from perf_runner.models import (
    Arm,
    BenchmarkCase,
    Block,
    CaseResult,
    Decision,
    Machine,
    Outcome,
    Recovery,
    Sample,
)

FRAME = Frame("prgate", "4d72f6802947c0ffee", "https://prgate.example/pr/org/name/1")
CASE = "512x512_steps20"

ROUTE = RouteView(
    author="author-01",
    owners=(
        OwnerLine("owner-01", True, ("module of the changed files (docs/m/models.md)", "CODEOWNERS line 12")),
        OwnerLine("owner-02", True, ("module of the changed files (docs/m/models.md)",)),
        OwnerLine("owner-03", False, ("module named in the description (docs/m/offloader.md)",)),
    ),
    modules=(ModuleLine("docs/m/models.md", 83), ModuleLine("docs/m/layers.md", 17)),
    also_touches=("docs/m/offloader.md",),
    drift=(DriftLine("omni/models/a.py", ("owner-01", "owner-02"), ("owner-01",)),),
    unowned=("omni/layers/norm.py",),
    self_review="wanted",
)


def sample(seconds: float, diffuse: float) -> Sample:
    return Sample(seconds=seconds, stages_s={"diffuse": diffuse, "decode": 0.18})


def result(change: float, low: float, high: float, outcome: Outcome, **more: object) -> CaseResult:
    head = 2.12 * (1 + change / 100)
    runs = {
        "base": (sample(2.12, 1.94), sample(2.13, 1.95)),
        "head": (sample(head, head - 0.18), sample(head + 0.01, head - 0.17)),
    }
    blocks = tuple(Block(arms=runs, order=("base", "head", "head", "base"), number=n) for n in (1, 2))
    decision = Decision(
        decision=outcome,
        why="the interval has left the margin"
        if outcome is Outcome.REGRESSION
        else "the interval is as it is",
        change_pct=change,
        low_pct=low,
        high_pct=high,
        margin_pct=2.0,
        alpha=0.03,
        blocks_used=2,
        blocks_vetoed=0,
        runs_used=8,
        improved=high < 0,
    )
    machine = Machine(
        host_class="cpu-2x-epyc",
        cpu_model="AMD EPYC 9B14",
        cpu_cores=2,
        noise_probe_pct=1.3,
        versions={"torch": "2"},
    )
    arms = (Arm(name="base", sha="a3dee6fdf000"), Arm(name="head", sha="4d72f6802947"))
    made = CaseResult(
        case=BenchmarkCase(name=CASE),
        arms=arms,
        blocks=blocks,
        decision=decision,
        machine=machine,
        wall_s=21.4,
    )
    return made.model_copy(update=more)


SLOWER = result(10.9, 9.8, 12.0, Outcome.REGRESSION)
PERF = PerfView("queued", (CASE,), "a3dee6fdf000", queue="runner.cpu", asked_by="maintainer-01", ahead=2)

GROUP = FailureGroup(
    ruling="unrelated",
    kind="broken_trunk",
    count=6,
    jobs=("Simple · Diffusion Test", "AMD: Simple Diffusion 1"),
    tests=tuple(f"tests/diffusion/test_wan_vae_fastpath_install.py::test_{n}" for n in range(6)),
    platforms=("cuda", "rocm"),
    exceptions=(
        "KeyError: 'WanRMS_norm'",
        "ImportError: cannot import name 'RMSNormVAE'",
        "AssertionError: False is True",
    ),
    evidence=(
        EvidenceLine(
            "The same six tests fail in the same way on main.", "https://ci.example/b/1", "5f25d9865aaa"
        ),
    ),
    urls=(("Simple · Diffusion Test", "https://ci.example/b/15934#1"),),
)
UNKNOWN = FailureGroup("unknown", None, 1, ("Docs",), would_settle_it="Run Docs on the merge base.")
MINE = FailureGroup(
    "regression",
    "caused_by_pr",
    2,
    ("Unit",),
    ("tests/test_a.py::test_b", "tests/test_a.py::test_c"),
    exceptions=("TypeError: forward() missing 1 argument",),
    evidence=(EvidenceLine("The traceback runs through omni/models/a.py, which this change edits."),),
)
RED = ("buildkite/omni",)

NOTES = {
    "route": route_note(ROUTE, FRAME),
    "route_nobody_asked": route_note(
        replace(
            ROUTE, owners=(replace(ROUTE.owners[0], asked=False),), waiting_for="it is a draft", drift=()
        ),
        FRAME,
    ),
    "route_approved_and_self_reviewed": route_note(
        replace(
            ROUTE,
            approved_by=("owner-01",),
            self_review="done",
            self_review_url="https://github.com/org/name/pull/1#issuecomment-4",
        ),
        FRAME,
    ),
    "route_no_owner": route_note(RouteView("author-01", (), unowned=("a.py",), files_complete=False), FRAME),
    "triage": triage_note(
        PriorityView("high", (("linked issue #7780 is high priority", 30), ("the title says bugfix", 10))),
        FRAME,
    ),
    "triage_set_by_hand": triage_note(PriorityView("low", (), "maintainer-01"), FRAME),
    "ci_nothing_to_fix": ci_note(CiView((GROUP,), RED, True, claim_by="author-01"), FRAME),
    "ci_yours_and_unknown": ci_note(
        CiView(
            (GROUP, UNKNOWN, MINE), RED, True, False, None, ("Without a Buildkite token no log was read.",)
        ),
        FRAME,
    ),
    "ci_nothing_known": ci_note(CiView((), RED, True), FRAME),
    "ci_green": ci_note(CiView((), (), True), FRAME),
    "ci_moved": ci_note(CiView((), (), False), FRAME),
    "ci_declared": ci_note(
        CiView((replace(MINE, ruling="unrelated", declared_by="maintainer-01"),), RED, True), FRAME
    ),
    "perf_queued": perf_note(PERF, FRAME),
    "perf_running": perf_note(replace(PERF, state="running", progress="Block 2 of at most 10"), FRAME),
    "perf_slower": perf_note(replace(PERF, state="done", results=(SLOWER,)), FRAME),
    "perf_no_regression": perf_note(
        replace(PERF, state="done", results=(result(0.2, -1.1, 1.4, Outcome.NO_REGRESSION),)), FRAME
    ),
    "perf_faster_with_third_arm": perf_note(
        replace(
            PERF,
            state="done",
            asked_by=None,
            results=(
                result(
                    -7.8,
                    -9.0,
                    -6.5,
                    Outcome.NO_REGRESSION,
                    recovery=Recovery(
                        recovered_pct=79,
                        recovered_low_pct=70,
                        recovered_high_pct=88,
                        residual_pct=2.3,
                        residual_low_pct=1.0,
                        residual_high_pct=3.6,
                    ),
                ),
            ),
        ),
        FRAME,
    ),
    "perf_inconclusive": perf_note(
        replace(
            PERF,
            state="done",
            results=(
                result(2.5, -1.0, 6.0, Outcome.INCONCLUSIVE, notes=("the change edits its own benchmark",)),
            ),
        ),
        FRAME,
    ),
    "perf_failed": perf_note(
        replace(PERF, state="failed", error="The benchmark ended with exit code 1."), FRAME
    ),
    "perf_stopped": perf_note(replace(PERF, state="canceled", error="A newer commit was pushed."), FRAME),
    "perf_void": perf_note(replace(PERF, state="void"), FRAME),
    "answer_help": answer("answer:7", FRAME, (help_text(FRAME),)),
    "answer_refusal": answer(
        "answer:7", FRAME, (refusal(FRAME, "bench", "someone with write permission", "read"),)
    ),
    "answer_did_you_mean": answer("answer:7", FRAME, (misunderstanding(FRAME, "bnech", "bench [case…]"),)),
    "answer_why": answer("answer:7", FRAME, explain((GROUP,), "@prgate")),
}


@pytest.mark.parametrize("name", NOTES)
def test_the_text_reads_as_agreed(name: str, markdown: SnapshotAssertion) -> None:
    assert NOTES[name] == markdown


def test_only_those_asked_are_mentioned() -> None:
    text = NOTES["route"]
    assert text.count("@owner-01") == text.count("@owner-02") == 1
    assert "@owner-03" not in text
    assert "@author-01" not in text
    assert text.split("\n")[1] == "Module owners: @owner-01 @owner-02 `owner-03`"
    assert "@owner" not in NOTES["route_nobody_asked"]


def test_the_first_line_is_the_marker_and_the_footer_names_the_commit() -> None:
    for name, text in NOTES.items():
        marker = "answer:7" if name.startswith("answer") else name.split("_")[0]
        assert text.startswith(f"<!-- prgate:{marker} -->\n"), name
        assert "`4d72f6802947`" in text.rstrip().split("\n")[-1], name


def test_an_innocent_author_reads_that_first_and_a_guilty_one_does_not() -> None:
    assert "Nothing for you to fix." in NOTES["ci_nothing_to_fix"].split("\n\n")[1]
    for name in ("ci_yours_and_unknown", "ci_nothing_known", "ci_moved"):
        assert "Nothing for you to fix" not in NOTES[name]


def test_the_check_run_follows_the_decision() -> None:
    done = replace(PERF, state="done")
    assert check_state(PERF) == ("queued", None)
    assert check_state(replace(PERF, state="running")) == ("in_progress", None)
    assert check_state(replace(done, results=(SLOWER,))) == ("completed", "failure")
    fine = result(0.1, -1, 1, Outcome.NO_REGRESSION)
    unsure = result(1, -3, 5, Outcome.INCONCLUSIVE)
    assert check_state(replace(done, results=(fine,))) == ("completed", "success")
    assert check_state(replace(done, results=(fine, unsure))) == ("completed", "neutral")
    assert check_state(replace(done, results=(fine, SLOWER))) == ("completed", "failure")
    assert (
        check_state(replace(done, results=(fine.model_copy(update={"decision": None}), fine)))[1] == "neutral"
    )
    assert check_state(replace(PERF, state="failed")) == ("completed", "neutral")
