"""GitHub Actions: workflow runs and jobs of a commit as the snapshot's jobs.

Source: GitHub's REST API, "Workflow runs", "Workflow jobs" (logs are per attempt, gone after 90 days).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bot.ci.providers.buildkite import platform
from bot.ci.providers.fetch import Fetcher
from bot.ci.snapshot import Job
from bot.github import RepoClient

CONCLUSIONS = {
    "success": "passed",
    "neutral": "passed",
    "failure": "failed",
    "timed_out": "timed_out",
    "startup_failure": "failed",
    "cancelled": "canceled",
    "skipped": "not_run",
    "stale": "canceled",
    "action_required": "waiting_failed",
}
MOST_RUNS = 40


@dataclass(frozen=True)
class Actions:
    """One repository's workflow runs; `token` reads logs, which come from another host."""

    client: RepoClient
    api_url: str
    token: str | None
    fetcher: Fetcher

    def jobs(self, sha: str, required: frozenset[str] | None) -> Iterator[tuple[Job, bool]]:
        """Yield the ended jobs of a commit, and whether each was replaced by a later attempt."""
        for number, run in enumerate(self.client.pages("/actions/runs", {"head_sha": sha}, "workflow_runs")):
            if number >= MOST_RUNS:
                self.fetcher.note("not all workflow runs of the commit were read")
                return
            latest: dict[str, int] = {}
            raws = list(self.client.pages(f"/actions/runs/{run['id']}/jobs", {"filter": "all"}, "jobs"))
            for raw in raws:
                latest[raw["name"]] = max(latest.get(raw["name"], 0), raw.get("run_attempt") or 1)
            for raw in raws:
                if raw.get("status") == "completed":
                    yield job_of(raw, run, required), (raw.get("run_attempt") or 1) < latest[raw["name"]]

    def log(self, job: Job) -> str | None:
        """Return a job's log; None where it has expired or cannot be read."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        url = f"{self.api_url}/repos/{self.client.full_name}/actions/jobs/{job.id}/logs"
        return self.fetcher.text(url, headers)


def job_of(raw: Mapping[str, Any], run: Mapping[str, Any], required: frozenset[str] | None) -> Job:
    """Return one job; its name carries the workflow's, as checks are named in rules by either."""
    name = str(raw.get("name") or "unnamed job")
    whole = f"{run.get('name') or ''} / {name}".strip(" /")
    needed = None if required is None else bool({name, whole} & required)
    return Job.model_validate(
        {
            "id": raw.get("id"),
            "provider": "github_actions",
            "build": run.get("id"),
            "name": whole,
            "required": needed,
            "platform": platform(whole, raw.get("labels") or ()),
            "conclusion": CONCLUSIONS.get(str(raw.get("conclusion")), "unknown"),
            "exit_status": None,
            "attempt": raw.get("run_attempt"),
            "agent": raw.get("runner_name"),
            "started_at": raw.get("started_at"),
            "finished_at": raw.get("completed_at"),
            "url": raw.get("html_url"),
        }
    )
