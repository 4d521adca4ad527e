"""The mathematics under the gate: quantiles, the mixture boundary, robust spread. Standard library only.

A GPU host has no SciPy, and loading it takes a second; the quantiles here agree with it to 1e-9 (tests).
Formulas and sources: deploy/docs/math.md.
"""

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache

MAD_TO_SD = 1.4826  # 1 / Phi^-1(3/4): makes the median absolute deviation estimate a normal sd
EXPONENT_LIMIT = 700.0  # exp() overflows just above 709


def normal_quantile(probability: float) -> float:
    """Return the standard normal quantile; ValueError outside (0, 1)."""
    return statistics.NormalDist().inv_cdf(probability)


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by Lentz's continued fraction."""
    if x <= 0.0 or x >= 1.0:
        return min(max(x, 0.0), 1.0)
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - incomplete_beta(1.0 - x, b, a)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    return front / a * beta_fraction(x, a, b)


def beta_fraction(x: float, a: float, b: float) -> float:
    """Return the incomplete beta function's continued fraction by the modified Lentz method."""
    tiny, value, c, d = 1e-300, 1.0, 1.0, 0.0
    for step in range(400):
        half = step // 2
        if step == 0:
            numerator = 1.0
        elif step % 2 == 0:
            numerator = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        else:
            numerator = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        d = 1.0 / nonzero(1.0 + numerator * d, tiny)
        c = nonzero(1.0 + numerator / c, tiny)
        value *= c * d
        if step > 0 and abs(1.0 - c * d) < 1e-15:
            break
    return value - 1.0


def nonzero(value: float, tiny: float) -> float:
    """Return `value`, or `tiny` where it vanishes (Lentz's guard)."""
    return tiny if abs(value) < tiny else value


def student_t_upper_tail(t: float, df: float) -> float:
    """Return P(T > t) for t >= 0 and `df` degrees of freedom."""
    return 0.5 * incomplete_beta(df / (df + t * t), df / 2.0, 0.5)


@lru_cache(maxsize=4096)
def student_t_quantile(probability: float, df: float) -> float:
    """Return Student's t quantile for `probability` in [0.5, 1), by bisection on its tail."""
    if not 0.5 <= probability < 1.0 or df <= 0:
        raise ValueError("needs a probability in [0.5, 1) and degrees of freedom above 0")
    tail, low, high = 1.0 - probability, 0.0, 1.0
    while student_t_upper_tail(high, df) > tail:
        low, high = high, high * 2.0
    while high - low > 1e-13 * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if student_t_upper_tail(middle, df) > tail else (low, middle)
    return (low + high) / 2.0


def mixture_radius(n: int, alpha: float, tuned_to: float = 4.0) -> float:
    """Return the radius, in block standard deviations, of the normal-mixture sequence after `n` blocks.

    Robbins' boundary as in Howard, Ramdas, McAuliffe and Sekhon (2021): one-sided level `alpha`, valid at all
    n at once, tightest near `tuned_to` blocks.
    """
    two_sided = 2.0 * alpha
    log_level = -2.0 * math.log(two_sided)
    rho2 = (log_level + math.log(log_level + 1.0)) / tuned_to
    spread = 1.0 + n * rho2
    return math.sqrt(spread / (n * n * rho2) * math.log(spread / two_sided**2))


@lru_cache(maxsize=4096)
def inflation(alpha: float, df: float) -> float:
    """Return by how much an estimated sd widens a bound: t quantile over normal quantile."""
    return student_t_quantile(1.0 - alpha, df) / normal_quantile(1.0 - alpha)


def spread_of_pairs(differences: Sequence[float]) -> float:
    """Return the sd of one run, robustly, from log differences of two runs of one arm (0 for none)."""
    if not differences:
        return 0.0
    return MAD_TO_SD * statistics.median([abs(value) for value in differences]) / math.sqrt(2.0)


def to_percent(log_ratio: float) -> float:
    """Return a log ratio as a change in per cent."""
    return math.expm1(min(log_ratio, EXPONENT_LIMIT)) * 100.0


def pooled_sd(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the sd within groups and its degrees of freedom, pooled over `groups`; (0, 0) for none."""
    usable = [list(group) for group in groups if len(group) > 1]
    freedom = sum(len(group) - 1 for group in usable)
    if freedom == 0:
        return 0.0, 0.0
    squares = sum((len(group) - 1) * statistics.variance(group) for group in usable)
    return math.sqrt(squares / freedom), float(freedom)
