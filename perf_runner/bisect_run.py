"""Carries out a bisect: measures good against bad, then probes, then the culprit against its own parent."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from perf_runner.bisect import (
    Found,
    Hunt,
    Side,
    conclusion,
    hunted_effect,
    next_probe,
    probe_margin,
    side_of,
    too_noisy,
)
from perf_runner.gate import pair
from perf_runner.models import CaseResult, Decision, Frozen
from perf_runner.stats import MAD_TO_SD

TRIES = 3  # a noisy spell of the host ends; three experiments in a row seldom all fall into one
Measure = Callable[[str, str, float | None], CaseResult]
Say = Callable[[str], None]
Sha = Annotated[str, Field(max_length=64)]
MOST_COMMITS = 10_000


class Probe(Frozen):
    """One experiment of a bisect: the commit, its side, and what was measured against the good commit."""

    sha: Sha
    side: Side
    change_pct: float | None = None
    low_pct: float | None = None
    high_pct: float | None = None
    runs_used: int = 0
    why: str = Field(default="", max_length=1000)


class BisectRecord(Frozen):
    """A bisect as far as it went: enough to go on from, and what `--json` prints.

    `hunted` is bad against good; `culprit_change` the culprit against its own parent.
    """

    good: Sha
    bad: Sha
    case: str = Field(max_length=200)
    hunted: Decision | None = None
    probes: tuple[Probe, ...] = Field(default=(), max_length=MOST_COMMITS)
    culprit: Sha | None = None
    culprit_change: Decision | None = None
    candidates: tuple[Sha, ...] = Field(default=(), max_length=MOST_COMMITS)
    skipped: tuple[Sha, ...] = Field(default=(), max_length=MOST_COMMITS)
    runs_used: int = 0
    refused: str | None = Field(default=None, max_length=2000)
    says: str = Field(default="", max_length=2000)


@dataclass(frozen=True)
class Steps:
    """What a bisect is driven with: how to measure two commits, where to keep the record, whom to tell."""

    measure: Measure
    keep: Callable[[BisectRecord], None]
    say: Say
    max_blocks: int


def run(commits: tuple[str, ...], record: BisectRecord, steps: Steps) -> BisectRecord:
    """Return the record at the end of the search over `commits` (good first, bad last).

    ValueError where nothing got slower between the two.
    """
    record, effect = with_hunted(record, steps)
    if record.refused:
        return record
    hunt = Hunt(commits)
    for probe in record.probes:
        hunt = hunt.told(probe.sha, probe.side)
    while (sha := next_probe(hunt)) is not None:
        steps.say(f"{len(hunt.suspects)} commits left; measuring {sha[:12]}")
        probe = take(record.good, sha, effect, steps)
        hunt = hunt.told(sha, probe.side)
        runs_used = record.runs_used + probe.runs_used
        record = record.model_copy(update={"probes": (*record.probes, probe), "runs_used": runs_used})
        steps.keep(record)
    return ended(record, hunt, conclusion(hunt), steps)


def with_hunted(record: BisectRecord, steps: Steps) -> tuple[BisectRecord, float]:
    """Return the record with bad measured against good, and the slowdown hunted (a fraction).

    The record is refused where noise forbids the search.
    """
    if record.hunted is not None:
        return record, hunted_effect(record.hunted)
    steps.say(f"measuring bad {record.bad[:12]} against good {record.good[:12]}")
    result = steps.measure(record.good, record.bad, None)
    if result.decision is None:
        raise ValueError(f"bad cannot be measured against good: {result.error}")
    effect = hunted_effect(result.decision)
    refused = too_noisy(effect, seen_noise(result), steps.max_blocks)
    runs_used = record.runs_used + result.decision.runs_used
    update = {"hunted": result.decision, "refused": refused, "says": refused or "", "runs_used": runs_used}
    record = record.model_copy(update=update)
    steps.keep(record)
    return record, effect


def seen_noise(result: CaseResult) -> float:
    """Return the larger of the case's noise prior and the spread of its same-arm runs here (log units)."""
    base, head = result.arms[0].name, result.arms[-1].name
    blocks = [pair(block.seconds(base), block.seconds(head)) for block in result.blocks]
    gaps = sorted(abs(gap) for block in blocks for gap in (block.base_difference, block.head_difference))
    seen = MAD_TO_SD * gaps[len(gaps) // 2] / 2.0**0.5 if gaps else 0.0
    return max(seen, result.case.prior_sd or 0.0)


def take(good: str, sha: str, effect: float, steps: Steps) -> Probe:
    """Return the probe of one commit against the good one; one that stays open is measured anew."""
    runs_used = 0
    for _ in range(TRIES):
        result = steps.measure(good, sha, probe_margin(effect))
        decision = result.decision
        if decision is None:
            return Probe(sha=sha, side=Side.SKIP, why=(result.error or "it could not be measured")[:400])
        runs_used += decision.runs_used
        probe = Probe(
            sha=sha,
            side=side_of(decision),
            change_pct=decision.change_pct,
            low_pct=decision.low_pct,
            high_pct=decision.high_pct,
            runs_used=runs_used,
            why=decision.why[:1000],
        )
        if probe.side is not Side.OPEN:
            break
        steps.say(f"{sha[:12]} stays open: {decision.why}")
    return probe


def ended(record: BisectRecord, hunt: Hunt, found: Found, steps: Steps) -> BisectRecord:
    """Return the record with its conclusion; a culprit is measured once more against its own parent."""
    skipped = tuple(hunt.commits[place] for place, side in sorted(hunt.sides.items()) if side is Side.SKIP)
    update: dict[str, object] = {"candidates": found.candidates, "skipped": skipped, "says": found.says}
    if found.culprit is not None:
        parent = hunt.commits[hunt.commits.index(found.culprit) - 1]
        steps.say(f"confirming {found.culprit[:12]} against its parent")
        decision = steps.measure(parent, found.culprit, None).decision
        update |= confirmed(found.culprit, decision)
        update["runs_used"] = record.runs_used + (decision.runs_used if decision else 0)
    record = record.model_copy(update=update)
    steps.keep(record)
    return record


def confirmed(culprit: str, decision: Decision | None) -> dict[str, object]:
    """Return what the A/B of culprit and parent adds: the commit is named only where it is slower itself."""
    if decision is not None and side_of(decision) is Side.BAD:
        interval = f"{decision.change_pct:+.1f} % ({decision.low_pct:+.1f} to {decision.high_pct:+.1f} %)"
        says = f"{culprit[:12]} is the first bad commit: {interval} against its parent"
        return {"culprit": culprit, "culprit_change": decision, "says": says}
    why = decision.why if decision else "it could not be measured"
    says = (
        f"the search ends at {culprit[:12]}, but against its own parent it is not shown to be slower: {why}"
    )
    return {"culprit": None, "culprit_change": decision, "says": says}


def stored(path: Path, wanted: BisectRecord) -> BisectRecord:
    """Return the record kept in a file, or `wanted` where there is none; ValueError for another search's."""
    if not path.exists():
        return wanted
    try:
        found = BisectRecord.model_validate_json(path.read_text(encoding="utf-8-sig", errors="replace"))
    except ValidationError as error:
        raise ValueError(f"{path}: no record of a bisect") from error
    if (found.good, found.bad, found.case) != (wanted.good, wanted.bad, wanted.case):
        raise ValueError(f"{path}: is the record of another bisect; name another file")
    return found
