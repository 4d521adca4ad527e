"""From a slowdown to the run that searches its first bad commit: which case, between which commits. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bot.actions import EnqueueRun, Target
from bot.escape import code
from bot.experiments import Arms, NoCases, choose_named, listed
from bot.store import digest
from perf_runner.config import PerfConfig

KIND: Literal["bisect"] = "bisect"
USAGE = "`bisect [CASE] [GOOD..BAD]`"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a command names: a case, the good and the bad revision; None: not named. `problem`: no sense."""

    case: str | None = None
    good: str | None = None
    bad: str | None = None
    problem: str | None = None

    @property
    def revisions(self) -> tuple[str, ...]:
        """Return the revisions that have to be looked up."""
        return tuple(one for one in (self.good, self.bad) if one)


def wanted(words: Sequence[str]) -> Wanted:
    """Return what the words after `bisect` name."""
    ranges = [word.partition("..") for word in words if ".." in word]
    names = [word for word in words if ".." not in word]
    if len(ranges) > 1 or len(names) > 1:
        said = code(" ".join(words))
        return Wanted(problem=f"{said}: one case and one range are taken, as in {USAGE}.")
    good, _, bad = ranges[0] if ranges else ("", "", "")
    return Wanted(next(iter(names), None), good or None, bad.removeprefix(".") or None)


def choose_case(config: PerfConfig, named: str | None, measured: Sequence[Mapping[str, Any]]) -> str:
    """Return the case to search with: the named one, else the one that was measured slower here.

    `measured` are the cases of the head's latest performance decision. NoCases where that names none.
    """
    known = [case.name for case in config.cases]
    if named is not None or len(known) <= 1:
        return choose_named(config, [named] if named is not None else known)[0]
    slower = [str(one["case"]) for one in measured if one.get("decision") == "regression"]
    found = [name for name in slower if name in known]
    if len(found) == 1:
        return found[0]
    why = "Several cases are slower here" if found else "No case was measured slower here"
    raise NoCases(f"{why}, so name the one to search with: {listed(found or known)}.")


def bisect_run(config: PerfConfig, case: str, arms: Arms, target: Target, by: str) -> EnqueueRun:
    """Return the run that searches between the arms with one case, as the base branch has it."""
    inline = [one.model_dump(mode="json") for one in config.cases if one.name == case]
    spec = {
        "kind": KIND,
        "arms": arms.listed(),
        "cases": inline,
        "time_budget_s": config.bisect_budget_s,
        "alpha": config.alpha,
        "max_blocks": config.max_blocks,
        "allow_changed_lock": True,
    }
    key = f"{KIND}:{target.repo_id}:{target.number}:{target.head_sha}:{digest([case, arms.listed()])[:16]}"
    return EnqueueRun(KIND, config.queue, arms.base_sha, spec, by, key)
