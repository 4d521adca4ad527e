"""Finds a regression's first bad commit: pure search over verdicts that sequential A/Bs give.

Each probe is an experiment of the good commit against a commit between, with a margin inside the hunted
effect: "not slower by half of it" is good, "slower" is bad. Where noise forbids telling the two apart, the
search refuses instead of naming somebody.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from perf_runner.models import Decision, Outcome
from perf_runner.stats import inflation, mixture_radius, to_percent

INSIDE = 0.5  # of the hunted effect (in logs): the margin of a probe
LARGEST_MARGIN = 0.9
CAP_ALPHA = 0.05


class Side(StrEnum):
    """Which side of the regression a commit is on; `skip`: it cannot be built or measured."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"
    OPEN = "open"


@dataclass(frozen=True)
class Hunt:
    """A search in progress. `commits` run from the known good one to the known bad one, oldest first."""

    commits: tuple[str, ...]
    sides: Mapping[int, Side] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a range with nothing to search."""
        if len(self.commits) < 2:
            raise ValueError("the bad commit must come after the good one")

    @property
    def good(self) -> int:
        """The last place known to be good."""
        return max([place for place, side in self.sides.items() if side is Side.GOOD], default=0)

    @property
    def bad(self) -> int:
        """The first place known to be bad, after the last good one."""
        last = len(self.commits) - 1
        known = [place for place, side in self.sides.items() if side is Side.BAD and place > self.good]
        return min(known, default=last)

    @property
    def suspects(self) -> tuple[str, ...]:
        """The commits that may be the first bad one, oldest first."""
        return self.commits[self.good + 1 : self.bad + 1]

    def told(self, commit: str, side: Side) -> "Hunt":
        """Return the hunt after one more verdict; ValueError for a commit that is not in the range."""
        if commit not in self.commits:
            raise ValueError(f"{commit[:12]} is not between the good and the bad commit")
        return Hunt(self.commits, {**self.sides, self.commits.index(commit): side})


def next_probe(hunt: Hunt) -> str | None:
    """Return the commit to measure next: the untried one nearest to the middle; None at the end."""
    untried = [place for place in range(hunt.good + 1, hunt.bad) if place not in hunt.sides]
    if not untried:
        return None
    middle = (hunt.good + hunt.bad) / 2.0
    return hunt.commits[min(untried, key=lambda place: (abs(place - middle), place))]


def side_of(decision: Decision) -> Side:
    """Return the side that a probe's decision puts its commit on."""
    if decision.decision is Outcome.REGRESSION:
        return Side.BAD
    return Side.GOOD if decision.decision is Outcome.NO_REGRESSION else Side.OPEN


def hunted_effect(decision: Decision) -> float:
    """Return the slowdown between good and bad as a fraction; ValueError where there is none to hunt."""
    if decision.decision is not Outcome.REGRESSION or decision.change_pct is None:
        raise ValueError(f"there is no regression to hunt between the two commits: {decision.why}")
    return decision.change_pct / 100.0


def probe_margin(effect: float) -> float:
    """Return the margin of a probe as a fraction: half of the effect, in logs."""
    if effect <= 0:
        raise ValueError("the hunted effect must be a slowdown")
    return min(math.expm1(INSIDE * math.log1p(effect)), LARGEST_MARGIN)


def too_noisy(effect: float, sd: float, max_blocks: int, prior_df: float = 10.0) -> str | None:
    """Return why a bisect would not tell good from bad, None where it would.

    At the cap the interval must fit into the half of the effect on either side of the margin.
    """
    radius = inflation(CAP_ALPHA, prior_df + max_blocks - 1) * sd * mixture_radius(max_blocks, CAP_ALPHA)
    room = math.log1p(probe_margin(effect))
    if radius < room:
        return None
    wide = f"after {max_blocks} blocks the interval still reaches {to_percent(radius):.1f} % to each side"
    noise = f"block noise of {to_percent(sd):.1f} % forbids a bisect of {effect * 100:+.1f} %"
    return f"{noise}: {wide}; use a quieter case"


@dataclass(frozen=True)
class Found:
    """How a search ended: one culprit, several candidates, or none because it was refused."""

    culprit: str | None
    candidates: tuple[str, ...]
    says: str


def conclusion(hunt: Hunt) -> Found:
    """Return what the verdicts so far allow to say."""
    suspects = hunt.suspects
    if len(suspects) == 1:
        return Found(suspects[0], suspects, f"{suspects[0][:12]} is the first bad commit")
    if next_probe(hunt) is not None:
        return Found(None, suspects, f"{len(suspects)} commits are left to search")
    sides = {hunt.sides[place] for place in range(hunt.good + 1, hunt.bad) if place in hunt.sides}
    reason = "could not be measured" if sides == {Side.SKIP} else "did not come out clearly"
    return Found(None, suspects, f"one of {len(suspects)} commits: those between {reason}")
