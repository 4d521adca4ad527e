"""How often maintainers agreed: verdicts against their words, as precision and recall, and each disagreement.

Only where a maintainer spoke is anything known; silence counts for neither side.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Said = Literal["regression", "unrelated", "unknown"]
Told = Literal["regression", "unrelated"]
SAID: tuple[Said, ...] = ("regression", "unrelated", "unknown")
TOLD: tuple[Told, ...] = ("regression", "unrelated")
Key = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Call:
    """What was said of one job of a pull request's head, by itself; `reason` is its first evidence."""

    repo_id: int
    number: int
    job: str
    head_sha: str
    verdict: Said
    kind: str | None
    reason: str
    at: datetime

    @property
    def key(self) -> Key:
        """Return what it is about."""
        return self.repo_id, self.number, self.job


@dataclass(frozen=True, slots=True)
class Word:
    """What a maintainer said of that job."""

    repo_id: int
    number: int
    job: str
    verdict: Told
    by: str
    reason: str
    at: datetime

    @property
    def key(self) -> Key:
        """Return what it is about."""
        return self.repo_id, self.number, self.job


@dataclass(frozen=True, slots=True)
class Score:
    """One verdict: how often it was `said` and `told` where somebody spoke, and how often both, `right`."""

    verdict: Told
    said: int
    told: int
    right: int

    @property
    def precision(self) -> float | None:
        """Return the share of what was said that a maintainer confirmed, 0 to 1; None where nothing was."""
        return self.right / self.said if self.said else None

    @property
    def recall(self) -> float | None:
        """Return the share of what maintainers told that was said before them, 0 to 1."""
        return self.right / self.told if self.told else None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A verdict that a maintainer replaced by the opposite one."""

    call: Call
    word: Word


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The table. `counts[said][told]`; `unjudged` are words on jobs of which nothing had been said."""

    counts: Mapping[Said, Mapping[Told, int]]
    scores: tuple[Score, ...]
    disagreements: tuple[Disagreement, ...]
    unjudged: int

    @property
    def n(self) -> int:
        """Return how many verdicts a maintainer spoke about."""
        return sum(sum(row.values()) for row in self.counts.values())


def accuracy(calls: Iterable[Call], words: Iterable[Word]) -> Accuracy:
    """Return how verdicts stand against the last word of a maintainer on each job.

    A word is held against the last verdict before it. Disagreements come newest first.
    """
    by_job: dict[Key, list[Call]] = {}
    for call in calls:
        by_job.setdefault(call.key, []).append(call)
    last = {word.key: word for word in sorted(words, key=lambda one: one.at)}
    pairs = [(last_before(by_job.get(word.key, ()), word.at), word) for word in last.values()]
    judged = [(call, word) for call, word in pairs if call is not None]
    counts = {said: dict.fromkeys(TOLD, 0) for said in SAID}
    for call, word in judged:
        counts[call.verdict][word.verdict] += 1
    opposite = [Disagreement(call, word) for call, word in judged if is_opposite(call, word)]
    return Accuracy(
        counts=counts,
        scores=tuple(score_of(verdict, counts) for verdict in TOLD),
        disagreements=tuple(sorted(opposite, key=lambda one: one.word.at, reverse=True)),
        unjudged=len(pairs) - len(judged),
    )


def score_of(verdict: Told, counts: Mapping[Said, Mapping[Told, int]]) -> Score:
    """Return how one verdict did."""
    told = sum(row[verdict] for row in counts.values())
    return Score(verdict, sum(counts[verdict].values()), told, counts[verdict][verdict])


def is_opposite(call: Call, word: Word) -> bool:
    """Say whether a verdict was wrong by a maintainer's word; an unknown one was not."""
    return call.verdict != "unknown" and call.verdict != word.verdict


def last_before(calls: Sequence[Call], at: datetime) -> Call | None:
    """Return the last verdict that stood when a maintainer spoke."""
    return max((call for call in calls if call.at <= at), key=lambda one: one.at, default=None)


def calls_in(value: Mapping[str, Any], repo_id: int, number: int, head_sha: str, at: datetime) -> list[Call]:
    """Return the verdicts in the value of a `ci` decision; a maintainer's own word in it is none."""
    return [
        Call(
            repo_id=repo_id,
            number=number,
            job=str(job),
            head_sha=head_sha,
            verdict=group["ruling"],
            kind=group.get("kind"),
            reason=next((str(one.get("says", "")) for one in group.get("evidence") or ()), ""),
            at=at,
        )
        for group in value.get("groups") or ()
        if group.get("ruling") in SAID and not group.get("declared_by")
        for job in group.get("jobs") or ()
    ]


def word_of(verdict: str) -> Told:
    """Return an override's verdict as it is counted."""
    return "unrelated" if verdict == "unrelated" else "regression"
