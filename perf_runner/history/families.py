"""One finding for what fails together: the episodes of one model on one hardware over the same nights."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from perf_runner.history.episodes import LOOKBACK, Episode


@dataclass(frozen=True)
class Family:
    """Episodes of several cases that are one finding; the first case is the one that failed first."""

    name: str
    hardware: str
    cases: tuple[Episode, ...]
    first_night: date
    last_night: date

    @property
    def worst_pct(self) -> float:
        """Return the worst change of any case, improvement-positive."""
        return min(case.worst_pct for case in self.cases)

    @property
    def days_failing(self) -> int:
        """Return the longest streak of any case that still failed on the last night."""
        return max(case.days_failing for case in self.cases if case.last_night == self.last_night)

    @property
    def joined(self) -> tuple[Episode, ...]:
        """Return the cases that failed later than the first."""
        return tuple(case for case in self.cases if case.first_night and case.first_night > self.first_night)


def families(found: Iterable[Episode]) -> list[Family]:
    """Return dated episodes as families, the latest first.

    Cases of one model and hardware belong together where one fails no later than the lookback after another.
    Tests without a model, and cases without a test, are families of their own: what they share is not known.
    """
    groups: dict[tuple[str, str], list[Episode]] = {}
    for one in found:
        if one.first_night is not None and one.last_night is not None:
            groups.setdefault((one.model or one.test or one.config, one.hardware), []).append(one)
    made = [
        family(name, hardware, part)
        for (name, hardware), same in groups.items()
        for part in parted(sorted(same, key=place))
    ]
    return sorted(made, key=lambda one: (one.last_night, one.name), reverse=True)


def place(case: Episode) -> tuple[date, float, str, str]:
    """Return what cases are ordered by: the first night, then the worst."""
    return case.first_night or date.min, case.worst_pct, case.test, case.config


def parted(ordered: Sequence[Episode]) -> list[list[Episode]]:
    """Return episodes, ordered by their first night, parted where nothing failed for the lookback."""
    parts: list[list[Episode]] = []
    end = date.min
    for one in ordered:
        assert one.first_night is not None
        assert one.last_night is not None
        if parts and one.first_night - end <= LOOKBACK:
            parts[-1].append(one)
        else:
            parts.append([one])
            end = one.last_night
        end = max(end, one.last_night)
    return parts


def family(name: str, hardware: str, cases: Sequence[Episode]) -> Family:
    """Return one family of at least one episode."""
    first = min(case.first_night for case in cases if case.first_night)
    last = max(case.last_night for case in cases if case.last_night)
    return Family(name, hardware, tuple(cases), first, last)


def continues(made: Family, first_night: date, last_night: date) -> bool:
    """Say whether a family is the episode that is known from `first_night` to `last_night`."""
    return made.first_night - last_night <= LOOKBACK and first_night - made.last_night <= LOOKBACK
