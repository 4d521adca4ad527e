"""What a reader sees of an experiment: tables, the stage that moved, a well-formed and harmless plot."""

import math

import pytest
from defusedxml.ElementTree import fromstring

from perf_runner.gate import GateSettings
from perf_runner.history.signs import GpuTelemetry
from perf_runner.models import Arm, BenchmarkCase, Block, CaseResult, Sample
from perf_runner.report import (
    bound_sentence,
    markdown,
    plot_columns,
    runs_svg,
    runs_table,
    stage_table,
    stage_that_moved,
    summary_table,
)
from perf_runner.three_arms import recovery

SVG = "{http://www.w3.org/2000/svg}"


def sample(seconds: float) -> Sample:
    """Return a run whose diffuse stage holds all but 0.2 s."""
    stages = {"text_encoder.forward": 0.04, "diffuse": seconds - 0.2}
    return Sample(seconds=seconds, latencies_s=(seconds,) * 10, stages_s=stages, path_log={"fused": 20})


def block(number: int, *, base: float, head: float, middle: float | None = None) -> Block:
    """Return a block whose runs lie 1 ms around their arm's time."""
    times = {"base": base, "head": head} | ({"parent": middle} if middle else {})
    arms = {name: (sample(t - 0.001), sample(t + 0.001)) for name, t in times.items()}
    return Block(arms=arms, order=(*arms, *reversed(arms)), number=number)


def result(name: str = "512x512_steps20") -> CaseResult:
    """Return an experiment of two blocks with the published means of parent and culprit."""
    return CaseResult(
        case=BenchmarkCase(name=name),
        arms=(Arm(name="base", sha="a" * 40), Arm(name="head", sha="b" * 40)),
        blocks=(block(0, base=2.137, head=2.370), block(1, base=2.135, head=2.368)),
    )


def test_the_summary_has_a_row_an_arm_with_its_change() -> None:
    frame = summary_table(result())
    assert list(frame["arm"]) == ["base", "head"]
    assert list(frame["runs"]) == [4, 4]
    assert list(frame["change_pct"]) == [0.0, pytest.approx(10.9, abs=0.05)]
    text = markdown(frame, {"median_s": 3, "min_s": 3, "max_s": 3, "change_pct": 1})
    assert "| head | bbbbbbbbbbbb | 4 | 2.369 | 2.367 | 2.371 | 10.9 |" in text


def test_every_run_is_in_the_table_in_its_order() -> None:
    frame = runs_table(result())
    assert list(frame["arm"]) == ["base", "head", "head", "base"] * 2
    assert list(frame["place"]) == [1, 2, 3, 4] * 2
    assert set(frame["paths"]) == {"fused 20"}


def test_the_stage_that_moved_is_named() -> None:
    move = stage_that_moved(result())
    assert move is not None
    assert move.stage == "diffuse"
    assert move.share == pytest.approx(1.0)
    frame = stage_table(result())
    assert dict(zip(frame["stage"], frame["change_s"].round(3), strict=True)) == {
        "text_encoder.forward": 0.0,
        "diffuse": 0.233,
    }


def test_a_table_cannot_be_broken_by_what_it_shows() -> None:
    frame = runs_table(result())
    frame["paths"] = "a|b\n| c"
    assert all(line.count("|") == 7 for line in markdown(frame).splitlines())


def test_the_plot_shows_every_run_and_escapes_names() -> None:
    svg = runs_svg(result('<script>alert("x")</script>'))
    tree = fromstring(svg)
    dots = [dot for dot in tree.iter(f"{SVG}circle") if (dot.findtext(f"{SVG}title") or "").endswith(" s")]
    assert len(dots) == 8
    assert not list(tree.iter(f"{SVG}script"))
    assert tree.get("aria-label") == '<script>alert("x")</script>: seconds of each run, in order'
    numbers, base, head = plot_columns(result())
    assert numbers == [float(n) for n in range(1, 9)]
    assert [(b is None) != (h is None) for b, h in zip(base, head, strict=True)] == [True] * 8


def test_an_experiment_without_blocks_has_an_empty_plot() -> None:
    empty = result().model_copy(update={"blocks": ()})
    assert "no runs" in runs_svg(empty)
    assert len(summary_table(empty)) == 0
    assert stage_that_moved(empty) is None


def test_equal_times_still_plot() -> None:
    same = Block(
        arms={"base": (sample(1.0),) * 2, "head": (sample(1.0),) * 2}, order=("base", "head", "head", "base")
    )
    svg = runs_svg(result().model_copy(update={"blocks": (same,)}))
    assert "nan" not in svg.lower()


def test_the_bound_is_said_with_its_numbers() -> None:
    text = bound_sentence(GpuTelemetry(clock_ratio=1.0, busy_pct=60.0))
    assert text == "host-bound (GPU busy 60 %, clock at 100 % of its maximum)"
    assert "power" in bound_sentence(GpuTelemetry(0.8, 99.0, ("sw_power_cap",)))


def test_a_fix_gets_its_recovered_share_and_its_residual() -> None:
    """The published figures: +10.9 % became +2.3 %, so 78 % came back."""
    blocks = [block(n, base=2.370, head=2.187, middle=2.137) for n in range(4)]
    found = recovery(blocks, ("parent", "base", "head"), GateSettings(prior_sd=0.002))
    assert found is not None
    assert found.residual_pct == pytest.approx(2.34, abs=0.02)
    assert found.recovered_pct == pytest.approx(77.7, abs=0.5)
    assert found.recovered_low_pct < found.recovered_pct < found.recovered_high_pct
    assert found.residual_low_pct < found.residual_pct < found.residual_high_pct
    assert math.isfinite(found.recovered_low_pct)


def test_nothing_is_recovered_where_nothing_was_lost() -> None:
    blocks = [block(n, base=2.137, head=2.137, middle=2.137) for n in range(4)]
    assert recovery(blocks, ("parent", "base", "head"), GateSettings(prior_sd=0.01)) is None
