"""The quantiles agree with SciPy's, and the boundary holds its promise over time."""

import math

import numpy as np
import pytest
import scipy.stats

from perf_runner.stats import (
    incomplete_beta,
    mixture_radius,
    normal_quantile,
    pooled_sd,
    spread_of_pairs,
    student_t_quantile,
    to_percent,
)


@pytest.mark.parametrize("probability", [0.5, 0.6, 0.9, 0.95, 0.97, 0.999])
@pytest.mark.parametrize("df", [0.5, 1.0, 2.0, 3.5, 10.0, 19.0, 1e5])
def test_students_quantile_agrees_with_scipy(probability: float, df: float) -> None:
    wanted = float(scipy.stats.t.ppf(probability, df))
    assert student_t_quantile(probability, df) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (5.0, 0.5), (2.0, 7.0)])
@pytest.mark.parametrize("x", [0.0, 1e-6, 0.3, 0.9, 1.0])
def test_the_incomplete_beta_function_agrees_with_scipy(x: float, a: float, b: float) -> None:
    assert incomplete_beta(x, a, b) == pytest.approx(float(scipy.stats.beta.cdf(x, a, b)), rel=1e-9)


def test_quantiles_outside_their_range_are_refused() -> None:
    with pytest.raises(ValueError, match="probability"):
        student_t_quantile(1.0, 3.0)
    with pytest.raises(ValueError, match="probability"):
        student_t_quantile(0.9, 0.0)
    assert normal_quantile(0.5) == pytest.approx(0.0)


def test_the_boundary_is_crossed_less_often_than_its_level_at_any_time() -> None:
    """Known variance, no change: the share of 4,000 walks that ever leave the boundary in 200 blocks."""
    alpha, chance = 0.05, np.random.default_rng(5)
    means = np.cumsum(chance.normal(size=(4000, 200)), axis=1) / np.arange(1, 201)
    radius = np.array([mixture_radius(n, alpha) for n in range(1, 201)])
    assert np.mean((means > radius).any(axis=1)) <= alpha


def test_the_boundary_shrinks_and_a_lower_level_is_wider() -> None:
    radii = [mixture_radius(n, 0.03) for n in range(1, 50)]
    assert radii == sorted(radii, reverse=True)
    assert mixture_radius(4, 0.01) > mixture_radius(4, 0.03)


def test_the_spread_of_pairs_ignores_one_outlier() -> None:
    chance = np.random.default_rng(8)
    gaps = list(chance.normal(0.0, 0.01 * math.sqrt(2), 400))
    assert spread_of_pairs(gaps) == pytest.approx(0.01, rel=0.15)
    assert spread_of_pairs([*gaps, 5.0]) == pytest.approx(spread_of_pairs(gaps), rel=0.05)
    assert spread_of_pairs([]) == 0.0


def test_the_pooled_sd_is_that_of_the_groups() -> None:
    sd, freedom = pooled_sd([[1.0, 3.0], [10.0, 12.0, 14.0], [5.0]])
    assert freedom == 3
    assert sd == pytest.approx(math.sqrt((2.0 + 8.0) / 3))
    assert pooled_sd([[1.0]]) == (0.0, 0.0)


def test_a_huge_ratio_stays_a_number() -> None:
    assert math.isfinite(to_percent(1e6))
    assert to_percent(math.log(1.1)) == pytest.approx(10.0)


def test_the_boundary_is_the_published_one() -> None:
    """By hand for a level of 3 % and four blocks: rho^2 = 1.87949, radius^2 = 0.283254 * 7.76894."""
    assert mixture_radius(4, 0.03) == pytest.approx(1.48344, abs=2e-5)
