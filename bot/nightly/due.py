"""Which night is due, and the runs that measure it: pure."""

import uuid
from collections.abc import Collection
from datetime import date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from bot.actions import EnqueueRun
from perf_runner.config import NightlyConfig, PerfConfig
from perf_runner.models import BenchmarkCase

BY_NIGHT = "nightly"
BY_DRIFT = "drift"
# So small that no block of a commit against itself meets it: a night always takes all its blocks.
NO_EARLY_END = 1e-6


def night_of(moment: datetime, config: NightlyConfig) -> date:
    """Return the night that a moment belongs to: its date in the configured zone."""
    return moment.astimezone(ZoneInfo(config.zone)).date()


def due_night(config: NightlyConfig, now: datetime) -> date | None:
    """Return tonight once its hour has come; None without cases, or before it."""
    local = now.astimezone(ZoneInfo(config.zone))
    begins = time.fromisoformat(config.at)
    return local.date() if config.cases and local.time() >= begins else None


def run_id(*parts: object) -> str:
    """Return the id of a run that is wanted once: the same for the same parts."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, "prgate:" + ":".join(map(str, parts))))


def night_runs(
    repo_id: int, config: PerfConfig, night: date, tip_sha: str, there: Collection[str]
) -> list[EnqueueRun]:
    """Return the runs of a night that are not there yet, one a case: the tip against itself."""
    cases = {case.name: case for case in config.cases}
    wanted = {run_id("night", repo_id, night, name): cases[name] for name in config.nightly.cases}
    return [night_run(known, config, case, tip_sha) for known, case in wanted.items() if known not in there]


def night_run(known: str, config: PerfConfig, case: BenchmarkCase, tip_sha: str) -> EnqueueRun:
    """Return the run of one case."""
    arms = [{"name": "base", "sha": tip_sha}, {"name": "head", "sha": tip_sha}]
    spec = run_spec(config, case, arms) | {
        "margins": {case.name: NO_EARLY_END},
        "max_blocks": config.nightly.blocks,
    }
    return EnqueueRun("experiment", config.queue, tip_sha, spec, BY_NIGHT, known, run_id=known)


def drift_run(
    repo_id: int, config: PerfConfig, case: BenchmarkCase, good_sha: str, flagged_sha: str
) -> EnqueueRun:
    """Return the A/B of last good and flagged commit; for two commits and a case there is one."""
    known = run_id("drift", repo_id, case.name, good_sha, flagged_sha)
    arms = [{"name": "base", "sha": good_sha}, {"name": "head", "sha": flagged_sha}]
    spec = run_spec(config, case, arms)
    return EnqueueRun("experiment", config.queue, good_sha, spec, BY_DRIFT, known, run_id=known)


def run_spec(config: PerfConfig, case: BenchmarkCase, arms: list[dict[str, str]]) -> dict[str, Any]:
    """Return what the runner is told. What is on the default branch was merged by someone who may."""
    return {
        "kind": "experiment",
        "arms": arms,
        "cases": [case.model_dump(mode="json")],
        "time_budget_s": config.time_budget_s,
        "alpha": config.alpha,
        "max_blocks": config.max_blocks,
        "allow_changed_lock": True,
    }


def case_for(config: PerfConfig, test: str, name: str) -> BenchmarkCase | None:
    """Return the configured case that a nightly row is of; reports print `bench=<name>, data=…`."""
    short = name.partition(",")[0].strip().removeprefix("bench=")
    for case in config.cases:
        same_test = not case.test_name or not test or case.test_name == test
        if case.name in (name, short) and same_test:
            return case
    return None
