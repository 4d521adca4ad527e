"""The gate decides on blocks as deploy/docs/math.md says, and refuses what is no measurement."""

import json
import math
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf_runner.gate import (
    GateSettings,
    SequentialGate,
    look_at,
    margin_for,
    pair,
    replay,
)
from perf_runner.models import Decision, Outcome
from perf_runner.stats import inflation, mixture_radius

PRGATE = [sys.executable, "-c", "import bot.cli; bot.cli.main()"]
BAD_TIMES = [math.nan, math.inf, -math.inf, 0.0, -1.0, "1.0", None, True, 10**400]


def decide(blocks: list[tuple[list[float], list[float]]], **told: float) -> Decision:
    """Return the decision over `blocks`; the blocks given must be enough."""
    gate = SequentialGate(**{"prior_sd": 0.01, **told})  # type: ignore[arg-type]
    for base, head in blocks:
        decision = gate.update(base, head)
        if decision is not None:
            return decision
    raise AssertionError("not decided")


def test_ten_per_cent_in_two_blocks_is_a_regression() -> None:
    gate = SequentialGate(prior_sd=0.01)
    assert gate.update([2.13, 2.14], [2.37, 2.36]) is None
    decision = gate.update([2.14, 2.13], [2.36, 2.37])
    assert decision is not None
    assert decision.decision is Outcome.REGRESSION
    assert decision.change_pct == pytest.approx(10.8, abs=0.1)
    assert decision.change_pct is not None
    assert decision.low_pct is not None
    assert decision.high_pct is not None
    assert 0 < decision.low_pct < decision.change_pct < decision.high_pct
    assert (decision.blocks_used, decision.runs_used, decision.blocks_vetoed) == (2, 8, 0)
    assert not decision.improved


def test_equal_arms_are_confirmed_below_the_margin() -> None:
    decision = decide([([1.0, 1.001], [1.0, 1.001])] * 10)
    assert decision.decision is Outcome.NO_REGRESSION
    assert decision.high_pct is not None
    assert decision.high_pct < decision.margin_pct == pytest.approx(2.0)
    assert not decision.improved


def test_a_faster_head_is_said_to_be_one() -> None:
    decision = decide([([1.0, 1.001], [0.9, 0.901])] * 10)
    assert decision.decision is Outcome.NO_REGRESSION
    assert decision.improved
    assert "faster" in decision.why


def test_a_small_true_slowdown_below_the_margin_passes() -> None:
    decision = decide([([1.0, 1.0001], [1.005, 1.0051])] * 10, prior_sd=0.001)
    assert decision.decision is Outcome.NO_REGRESSION
    assert decision.low_pct is not None
    assert decision.low_pct > 0


def test_one_disturbed_block_alone_never_decides() -> None:
    """Both head runs of the first block are hit by something; the second block shows nothing."""
    gate = SequentialGate(prior_sd=0.01)
    assert gate.update([1.0, 1.001], [1.15, 1.151]) is None
    assert gate.update([1.0, 1.001], [1.0, 1.001]) is None


def test_a_block_whose_arm_disagrees_with_itself_does_not_count() -> None:
    gate = SequentialGate(prior_sd=0.01)
    gate.update([1.0, 1.3], [1.0, 1.0])
    decision = gate.conclude("ended")
    assert (decision.blocks_used, decision.blocks_vetoed, decision.runs_used) == (0, 1, 4)
    assert decision.change_pct is None


def test_the_veto_is_blind_to_the_arm() -> None:
    blocks = [([1.0, 1.2], [1.0, 1.0]), ([1.0, 1.0], [1.0, 1.2])]
    look = look_at([pair(*block) for block in blocks], GateSettings(prior_sd=0.01))
    assert look.accepted == 0
    assert look.vetoed_by == {"base": 1, "head": 1}


def test_a_noisy_host_ends_inconclusive_and_names_the_unstable_arm() -> None:
    decision = decide([([1.0, 1.001], [1.0, 1.2])] * 20)
    assert decision.decision is Outcome.INCONCLUSIVE
    assert "noisy host" in decision.why
    assert "head" in decision.why
    assert decision.blocks_vetoed == 8


def test_the_cap_ends_inconclusive_and_more_blocks_go_on_from_there() -> None:
    blocks = [([1.0, 1.001], [1.012, 1.008])] * 30
    first = replay(blocks, GateSettings(prior_sd=0.02, max_blocks=3))
    assert first.decision is not None
    assert first.decision.decision is Outcome.INCONCLUSIVE
    assert first.decision.blocks_used == 3
    longer = replay(blocks, GateSettings(prior_sd=0.02, max_blocks=30)).decision
    assert longer is not None
    assert longer.blocks_used > 3
    assert longer.decision is not Outcome.INCONCLUSIVE


def test_at_most_twice_the_cap_is_fed() -> None:
    gate = SequentialGate(prior_sd=0.01, max_blocks=2)
    vetoed = [gate.update([1.0, 1.5], [1.0, 1.0]) for _ in range(4)]
    assert vetoed[:3] == [None, None, None]
    assert vetoed[3] is not None
    with pytest.raises(ValueError, match="decided"):
        gate.update([1.0, 1.0], [1.0, 1.0])


def test_the_bounds_are_those_of_the_page() -> None:
    """Two accepted blocks, prior with 10 degrees of freedom: the formula written out once more."""
    blocks = [pair([1.0, 1.002], [1.03, 1.031]), pair([1.0, 1.001], [1.05, 1.049])]
    look = look_at(blocks, GateSettings(prior_sd=0.01))
    changes = [block.change for block in blocks]
    mean = sum(changes) / 2
    variance = (10 * 0.01**2 + sum((change - mean) ** 2 for change in changes)) / 11
    assert look.low == pytest.approx(
        mean - inflation(0.03, 11) * math.sqrt(variance) * mixture_radius(2, 0.03)
    )
    assert look.high == pytest.approx(
        mean + inflation(0.05, 11) * math.sqrt(variance) * mixture_radius(2, 0.05)
    )


def test_without_a_prior_the_spread_of_the_blocks_decides() -> None:
    chance = random.Random(3)

    def two(mean: float) -> list[float]:
        return [mean + chance.gauss(0, 0.002), mean + chance.gauss(0, 0.002)]

    decision = decide([(two(1.0), two(1.02)) for _ in range(10)], prior_sd=None)  # type: ignore[arg-type]
    assert decision.decision is Outcome.REGRESSION
    assert decision.blocks_used > 2


@pytest.mark.parametrize("bad", BAD_TIMES)
@pytest.mark.parametrize("place", range(4))
def test_a_time_that_is_none_is_refused_and_changes_nothing(bad: object, place: int) -> None:
    gate = SequentialGate(prior_sd=0.01)
    times: list[object] = [1.0, 1.0, 1.0, 1.0]
    times[place] = bad
    with pytest.raises(ValueError, match="finite number above 0"):
        gate.update(times[:2], times[2:])  # type: ignore[arg-type]
    assert gate.blocks == []


@pytest.mark.parametrize(("base", "head"), [([1.0], [1.0, 1.0]), ([1.0, 1.0], []), ([1.0] * 3, [1.0] * 3)])
def test_unequal_blocks_are_refused(base: list[float], head: list[float]) -> None:
    with pytest.raises(ValueError, match="two of base and two of head"):
        SequentialGate().update(base, head)


@pytest.mark.parametrize(
    "told",
    [
        {"margin": 0.0},
        {"margin": 1.5},
        {"margin": math.nan},
        {"alpha": 0.0},
        {"alpha": 0.5},
        {"max_blocks": 0},
        {"max_blocks": 2.5},
        {"max_blocks": True},
        {"prior_sd": 0.0},
        {"prior_sd": math.inf},
        {"prior_df": -1.0},
    ],
)
def test_settings_without_meaning_are_refused(told: dict[str, float]) -> None:
    (name,) = told
    with pytest.raises(ValueError, match=name):
        SequentialGate(**told)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sd", "margin"), [(0.003, 0.02), (0.01, 0.02), (0.012, 0.03), (0.03, 0.05), (0.04, 0.08)]
)
def test_the_margin_follows_the_noise(sd: float, margin: float) -> None:
    assert margin_for(sd) == margin


TIMES = st.floats(min_value=0.5, max_value=2.0)
BLOCK = st.tuples(st.lists(TIMES, min_size=2, max_size=2), st.lists(TIMES, min_size=2, max_size=2))


@settings(max_examples=150, deadline=None)
@given(st.lists(BLOCK, min_size=20, max_size=20), st.floats(0.1, 1000.0))
def test_the_unit_of_time_does_not_matter(blocks: list[tuple[list[float], list[float]]], unit: float) -> None:
    told = GateSettings(prior_sd=0.2, margin=0.3)
    scaled = [([t * unit for t in base], [t * unit for t in head]) for base, head in blocks]
    one, other = replay(blocks, told).decision, replay(scaled, told).decision
    assert one is not None
    assert other is not None
    assert one.decision is other.decision
    assert one.change_pct == (None if other.change_pct is None else pytest.approx(other.change_pct, abs=1e-6))


@settings(max_examples=150, deadline=None)
@given(st.lists(BLOCK, min_size=20, max_size=20))
def test_a_slower_head_is_never_judged_better(blocks: list[tuple[list[float], list[float]]]) -> None:
    """Slowing every head run by 50 % never turns a regression into a pass."""
    told = GateSettings(prior_sd=0.2, margin=0.3)
    slower = [(base, [t * 1.5 for t in head]) for base, head in blocks]
    one, other = replay(blocks, told).decision, replay(slower, told).decision
    assert one is not None
    assert other is not None
    if one.decision is Outcome.REGRESSION:
        assert other.decision is not Outcome.NO_REGRESSION


def run_cli(text: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Run `prgate gate -` on `text`."""
    command = [*PRGATE, "gate", "-", "--json", *options]
    return subprocess.run(command, input=text, capture_output=True, check=False)


def test_the_command_prints_one_document_and_its_exit_code_says_it_too() -> None:
    slow = (
        b'\xef\xbb\xbf{"prior_sd": 0.01, "prior_df": 10}\n'
        + b'{"base": [1, 1.01], "head": [1.1, 1.11]}\n' * 4
    )
    done = run_cli(slow)
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert document["decision"] == "regression"
    assert document["blocks_used"] == 2
    assert set(document) == set(Decision.model_fields)
    same = run_cli(slow.replace(b"1.1, 1.11", b"1.01, 1"))
    assert json.loads(same.stdout)["decision"] == "no_regression"
    assert same.returncode == 0


def test_a_file_that_ends_early_is_inconclusive() -> None:
    done = run_cli(b'{"prior_sd": 0.01}\n{"base": [1, 1], "head": [1.1, 1.1]}\n')
    document = json.loads(done.stdout)
    assert (done.returncode, document["decision"]) == (1, "inconclusive")
    assert "ended before a decision" in document["why"]


def test_the_margin_is_chosen_by_the_prior_unless_given() -> None:
    noisy = b'{"prior_sd": 0.02}\n' + b'{"base": [1, 1.01], "head": [1.01, 1]}\n' * 20
    assert json.loads(run_cli(noisy).stdout)["margin_pct"] == pytest.approx(5.0)
    assert json.loads(run_cli(noisy, "--margin", "0.1").stdout)["margin_pct"] == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "empty"),
        (b"not json", "no valid JSON"),
        (b'{"base": [1, 1], "head": [1, 1', "truncated"),
        (b'{"base": [1, NaN], "head": [1, 1]}', "NaN"),
        (b'{"base": [0, 0], "head": [0, 0]}', "above 0"),
        (b'{"base": [1, 1]}', "'head'"),
        (b"[1, 2]", "object"),
        (b'{"prior_sd": "x"}', "prior_sd"),
        (b'{"base": [1, 1], "head": [1, 1]}\n{"prior_sd": 0.1}', "first line"),
        (b"{}", "neither"),
        (b"[" * 100_000, "nested"),
    ],
)
def test_what_is_no_blocks_file_is_one_clear_line(text: bytes, says: str) -> None:
    done = run_cli(text)
    assert done.returncode == 2, done.stderr
    assert done.stdout == b""
    assert says in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    command = [*PRGATE, "gate", str(tmp_path / "absent.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "absent.jsonl" in done.stderr
