"""From a wish to measure to the run that is queued for it: which cases, which arms. Pure."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from bot.actions import EnqueueRun, Target
from bot.escape import code
from bot.facts import PullFacts
from bot.store import digest
from perf_runner.cases import cases_for_paths
from perf_runner.config import PerfConfig

# Without a path rule that matches, and without a name, more cases than these are not measured unasked.
MOST_UNNAMED = 3
BY_PATHS = "paths"


@dataclass(frozen=True, slots=True)
class Arms:
    """The commits of an experiment; `third` is one more to compare with: as it was named, and its sha."""

    base_sha: str
    head_sha: str
    third: tuple[str, str] | None = None

    def listed(self) -> list[dict[str, str]]:
        """Return the arms in the runner's order: the base first, the head last."""
        between = [{"name": "parent", "sha": self.third[1], "label": self.third[0]}] if self.third else []
        return [{"name": "base", "sha": self.base_sha}, *between, {"name": "head", "sha": self.head_sha}]


class NoCases(ValueError):  # noqa: N818 - an answer to a person
    """Nothing can be measured as asked; the text (Markdown) says why and what could be."""


def wanted_by_paths(config: PerfConfig, facts: PullFacts) -> tuple[str, ...]:
    """Return the cases that the changed files call for."""
    paths = [path for one in facts.files for path in (one.path, one.previous_path) if path]
    return tuple(cases_for_paths(config, paths))


def choose_cases(config: PerfConfig, named: Sequence[str], facts: PullFacts) -> tuple[str, ...]:
    """Return the cases to measure: those named, else those of the changed paths. NoCases without any."""
    known = [case.name for case in config.cases]
    if named or not known:
        return choose_named(config, named)
    chosen = wanted_by_paths(config, facts) or (tuple(known) if len(known) <= MOST_UNNAMED else ())
    if not chosen:
        raise NoCases(f"No path rule names a case for these files. Name one: {listed(known)}.")
    return chosen


def choose_named(config: PerfConfig, named: Sequence[str]) -> tuple[str, ...]:
    """Return the named cases. NoCases where one is not there, or no case is configured at all."""
    known = [case.name for case in config.cases]
    if not known:
        raise NoCases("This repository's configuration has no benchmark cases (`[[perf.cases]]`).")
    for name in named:
        if name not in known:
            raise NoCases(unknown_case(name, known))
    return tuple(dict.fromkeys(named))


def unknown_case(name: str, known: Sequence[str]) -> str:
    """Return what is said about a case that is not there."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {code(near[0])}?" if near else ""
    return f"There is no case {code(name)}.{hint} There is {listed(known)}."


def listed(names: Sequence[str]) -> str:
    """Return names as code, at most twenty."""
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(code(name) for name in names[:20]) + more


def experiment(config: PerfConfig, cases: Sequence[str], arms: Arms, target: Target, by: str) -> EnqueueRun:
    """Return the run that measures `cases`; its cases are the base branch's own, whole."""
    inline = [case.model_dump(mode="json") for case in config.cases if case.name in cases]
    spec = {
        "kind": "experiment",
        "arms": arms.listed(),
        "cases": inline,
        "time_budget_s": config.time_budget_s,
        "alpha": config.alpha,
        "max_blocks": config.max_blocks,
        # A maintainer's word about this very head covers its changed lock file; a path rule does not.
        "allow_changed_lock": by != BY_PATHS,
    }
    what = digest([sorted(cases), arms.listed()])[:16]
    key = f"experiment:{target.repo_id}:{target.number}:{target.head_sha}:{what}"
    return EnqueueRun("experiment", config.queue, arms.base_sha, spec, by, key)
