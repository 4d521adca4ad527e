"""The checks of a head: which are required, and how each of them stands."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from bot.config import CiConfig
from bot.dispatch import OWN_CONTEXT
from bot.github import GitHubFault, RepoClient

Standing = Literal["passed", "failed", "pending"]
RED = frozenset({"failure", "error", "timed_out", "startup_failure", "action_required"})
OPEN = frozenset({"pending", "queued", "in_progress", "waiting", "requested"})


@dataclass(frozen=True, slots=True)
class HeadChecks:
    """`standing` by context or check name, ours left out; `required` None: which are required is unknown."""

    standing: Mapping[str, Standing]
    required: tuple[str, ...] | None = None

    @property
    def counted(self) -> tuple[str, ...]:
        """Return the checks that count: the required ones, or all of them where that is not known."""
        return tuple(self.standing) if self.required is None else self.required

    @property
    def red(self) -> tuple[str, ...]:
        """Return the checks that count and failed."""
        return tuple(name for name in self.counted if self.standing.get(name) == "failed")

    @property
    def finished(self) -> bool:
        """Say whether every check that counts passed or failed; none at all is not finished."""
        names = self.counted
        return bool(names) and all(self.standing.get(name, "pending") != "pending" for name in names)


def read_checks(client: RepoClient, sha: str, branch: str, config: CiConfig) -> HeadChecks:
    """Read statuses and check runs of a commit, and what the branch requires."""
    standing = {**statuses(client, sha), **check_runs(client, sha)}
    ours = {name: how for name, how in standing.items() if not name.startswith(OWN_CONTEXT)}
    required = required_checks(client, branch, config)
    return HeadChecks(
        ours, None if required is None else tuple(n for n in required if not n.startswith(OWN_CONTEXT))
    )


def statuses(client: RepoClient, sha: str) -> dict[str, Standing]:
    """Return the latest status of each context."""
    combined = client.get(f"/commits/{sha}/status") or {}
    return {one["context"]: standing_of(one.get("state"), None) for one in combined.get("statuses", ())}


def check_runs(client: RepoClient, sha: str) -> dict[str, Standing]:
    """Return the latest check run of each name."""
    runs = client.pages(f"/commits/{sha}/check-runs", {"filter": "latest"}, key="check_runs")
    return {run["name"]: standing_of(run.get("status"), run.get("conclusion")) for run in runs}


def standing_of(state: str | None, conclusion: str | None) -> Standing:
    """Return how a check stands; cancelled, skipped and neutral ones do not count as failed."""
    said = conclusion or state or "pending"
    if said in RED:
        return "failed"
    return "pending" if said in OPEN else "passed"


def required_checks(client: RepoClient, branch: str, config: CiConfig) -> tuple[str, ...] | None:
    """Return what the branch requires: by its rules, else by its protection, else by the configuration."""
    for read in (rules, protection):
        found = read(client, branch)
        if found:
            return tuple(dict.fromkeys(found))
    return config.required or None


def rules(client: RepoClient, branch: str) -> list[str]:
    """Return the checks that the branch's rulesets require; empty where they may not be read."""
    try:
        found = client.get(f"/rules/branches/{quote(branch, safe='')}")
    except GitHubFault as fault:
        if fault.passing:
            raise
        return []
    needed = [rule for rule in found or () if rule.get("type") == "required_status_checks"]
    return [
        name
        for rule in needed
        for name in contexts((rule.get("parameters") or {}).get("required_status_checks"))
    ]


def protection(client: RepoClient, branch: str) -> list[str]:
    """Return the checks that the branch's protection requires; empty where it may not be read."""
    try:
        found = client.get(f"/branches/{quote(branch, safe='')}/protection/required_status_checks")
    except GitHubFault as fault:
        if fault.passing:
            raise
        return []
    return [*contexts((found or {}).get("checks")), *((found or {}).get("contexts") or ())]


def contexts(checks: Iterable[Mapping[str, Any]] | None) -> list[str]:
    """Return the contexts of a list of required checks."""
    return [str(check["context"]) for check in checks or () if check.get("context")]
