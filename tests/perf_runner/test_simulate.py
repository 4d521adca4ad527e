"""The simulation's gate is the gate; the bars that the gate must hold are held."""

from typing import Any

import numpy as np
import pytest

from perf_runner.gate import GateSettings, pair, replay
from perf_runner.models import Outcome
from perf_runner.noise import prior_from, redraw
from perf_runner.simulate import (
    Verdicts,
    World,
    decide_all,
    gate_rates,
    golden_rates,
    mann_whitney_rates,
    medians_rates,
    simulate_blocks,
)

NUMBER = {Outcome.REGRESSION: 1, Outcome.INCONCLUSIVE: 0, Outcome.NO_REGRESSION: -1}
WORLDS = [World.IID, World.DRIFT, World.OUTLIERS, World.NODE, World.ALL]
TRIALS = 4000


def one_by_one(base: np.ndarray, head: np.ndarray, told: GateSettings) -> list[tuple[Any, ...]]:
    """Return what the gate itself says of every trial: outcome, fed, accepted, change, low, high."""
    rows: list[tuple[Any, ...]] = []
    for trial in range(len(base)):
        gate = replay(zip(np.exp(base[trial]), np.exp(head[trial]), strict=True), told)
        d = gate.conclude("ended")
        rows.append(
            (NUMBER[d.decision], d.runs_used // 4, d.blocks_used, d.change_pct, d.low_pct, d.high_pct)
        )
    return rows


def agreed(rows: list[tuple[Any, ...]], verdicts: Verdicts) -> None:
    """Assert that both forms agree on every trial, bounds to 1e-9 per cent."""
    assert [row[0] for row in rows] == verdicts.outcome.tolist()
    assert [row[1] for row in rows] == verdicts.fed.tolist()
    assert [row[2] for row in rows] == verdicts.accepted.tolist()
    for column, name in ((3, "change"), (4, "low"), (5, "high")):
        known = [i for i, row in enumerate(rows) if row[column] is not None]
        wanted = np.expm1(getattr(verdicts, name)[known]) * 100
        np.testing.assert_allclose([rows[i][column] for i in known], wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("told", "trials"),
    [
        (GateSettings(prior_sd=0.01), 4000),
        (GateSettings(prior_sd=None), 3000),
        (GateSettings(prior_sd=0.004, prior_df=3.0, margin=0.03, alpha=0.01, max_blocks=4), 2000),
        (GateSettings(prior_sd=0.03, margin=0.05, max_blocks=7), 1000),
    ],
)
def test_both_forms_of_the_gate_agree_on_random_sequences(told: GateSettings, trials: int) -> None:
    for number, world in enumerate(World):
        share = trials // len(World) + (number < trials % len(World))
        effect = (0.0, 0.01, 0.02, 0.05)[number % 4]
        base, head = simulate_blocks(world, share, effect, sd=0.01, seed=number)
        agreed(one_by_one(base, head, told), decide_all(base, head, told))


def test_both_forms_agree_where_the_blocks_end_early() -> None:
    base, head = simulate_blocks(World.ALL, 200, 0.01, blocks=3)
    told = GateSettings(prior_sd=0.01)
    agreed(one_by_one(base, head, told), decide_all(base, head, told))


@pytest.mark.parametrize("world", WORLDS)
def test_an_unchanged_head_is_confirmed_and_hardly_ever_blamed(world: World) -> None:
    rates = gate_rates(world, TRIALS, 0.0, seed=11)
    assert rates.regression <= 0.5 + 0.15
    assert rates.no_regression >= 97.0
    assert rates.runs <= 20.0


@pytest.mark.parametrize("world", WORLDS)
def test_two_per_cent_is_found_and_seldom_passed(world: World) -> None:
    rates = gate_rates(world, TRIALS, 0.02, seed=11)
    assert rates.regression >= 96.5 - 0.5
    assert rates.no_regression <= 1.0 + 0.3


@pytest.mark.parametrize("effect", [0.05, 0.109])
@pytest.mark.parametrize("world", WORLDS)
def test_a_large_slowdown_is_found_fast_and_never_passed(world: World, effect: float) -> None:
    rates = gate_rates(world, TRIALS, effect, seed=11)
    assert rates.regression >= 99.0
    assert rates.no_regression <= 0.05
    assert rates.runs <= 10.5


def test_a_burst_over_both_head_runs_does_not_decide() -> None:
    assert gate_rates(World.BURSTS, TRIALS, 0.0, seed=3).regression <= 0.65


def test_another_host_fools_every_rule_that_compares_across_hosts() -> None:
    for rule in (golden_rates, medians_rates, mann_whitney_rates):
        assert rule(World.NODE, 1000, 0.0).regression > 40.0
    assert gate_rates(World.NODE, 1000, 0.0).regression < 1.5


def test_the_prior_of_simulated_blocks_is_their_noise() -> None:
    base, head = simulate_blocks(World.IID, 1, 0.0, sd=0.02, blocks=400)
    blocks = list(zip(np.exp(base[0]), np.exp(head[0]), strict=True))
    prior = prior_from([pair(list(b), list(h)) for b, h in blocks])
    assert prior.prior_sd == pytest.approx(0.02, rel=0.15)
    assert prior.margin == 0.05
    rates = redraw(blocks, GateSettings(margin=0.05, prior_sd=prior.prior_sd), trials=1000)
    assert rates.regression <= 1.0


def test_copies_are_no_noise_and_three_blocks_too_few() -> None:
    with pytest.raises(ValueError, match="copies"):
        prior_from([pair([1.0, 1.0], [1.0, 1.0])] * 5)
    with pytest.raises(ValueError, match="least"):
        prior_from([pair([1.0, 1.1], [1.0, 1.0])] * 3)
