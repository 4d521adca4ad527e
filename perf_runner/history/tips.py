"""Which nights held which commits: the last good and the first flagged night, and each suspect's place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True)
class Tip:
    """One night's commit, and whether its case failed (None: not measured)."""

    night: date
    sha: str
    failing: bool | None


@dataclass(frozen=True)
class Edge:
    """Where an episode began: what an A/B compares. `good` is None when no good night is known."""

    good: Tip | None
    flagged: Tip


def edge_of(tips: Sequence[Tip]) -> Edge | None:
    """Return the edge of the latest run of failing nights; None when the last measured night is good.

    Nights that were not measured neither end an episode nor count as good.
    """
    measured = [tip for tip in sorted(tips, key=lambda tip: tip.night) if tip.failing is not None]
    if not measured or not measured[-1].failing:
        return None
    flagged = measured[-1]
    for tip in reversed(measured):
        if not tip.failing:
            return Edge(tip, flagged)
        flagged = tip
    return Edge(None, flagged)


@dataclass(frozen=True)
class Suspect:
    """A commit and the nights that held it. `fits`: absent from every good night, in every failing one."""

    sha: str
    in_nights: tuple[date, ...]
    fits: bool


def place_suspects(
    tips: Sequence[Tip], suspects: Sequence[str], is_ancestor: Callable[[str, str], bool]
) -> list[Suspect]:
    """Return where each suspect stands; `is_ancestor(commit, tip)` answers from the repository."""
    found = []
    for sha in suspects:
        held = [tip for tip in tips if is_ancestor(sha, tip.sha)]
        measured = [tip for tip in tips if tip.failing is not None]
        fits = bool(measured) and all((tip in held) is tip.failing for tip in measured)
        found.append(Suspect(sha, tuple(sorted(tip.night for tip in held)), fits))
    return found
