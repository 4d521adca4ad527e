"""Buildkite: builds and jobs of its REST API as the snapshot's jobs.

Source: Buildkite's REST API, "Builds" and "Jobs" (state, soft_failed, retried, exit_status, agent).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.ci.providers.fetch import Fetcher
from bot.ci.snapshot import Job

PAGE = 100
MOST_PAGES = 3
STATES = {
    "passed": "passed",
    "failed": "failed",
    "timed_out": "timed_out",
    "timing_out": "timed_out",
    "canceled": "canceled",
    "canceling": "canceled",
    "broken": "broken",
    "waiting_failed": "waiting_failed",
    "blocked_failed": "waiting_failed",
    "expired": "canceled",
    "skipped": "not_run",
}
PLATFORMS = (
    ("rocm", ("amd", "rocm", "mi300", "mi250")),
    ("xpu", ("intel", "xpu")),
    ("npu", ("npu", "ascend")),
    ("cuda", ("cuda", "gpu", "h100", "h200", "a100", "b200", "l4", "nvidia")),
    ("cpu", ("cpu",)),
)

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Buildkite:
    """One organisation's builds. Without a token Buildkite shows builds, and none of their jobs."""

    api_url: str
    token: str
    organization: str
    fetcher: Fetcher

    def builds(self, pipeline: str, asked: Mapping[str, str]) -> list[Json]:
        """Return builds, newest first, each with all its jobs and their earlier attempts."""
        url: str | None = f"{self.api_url}/v2/organizations/{self.organization}/pipelines/{pipeline}/builds"
        parameters: Mapping[str, Any] | None = {**asked, "per_page": PAGE, "include_retried_jobs": "true"}
        found: list[Json] = []
        for _ in range(MOST_PAGES):
            if url is None:
                break
            page, url = self.fetcher.json(url, self._headers(), parameters)
            parameters = None
            found.extend(item for item in page or () if isinstance(item, dict))
        return found

    def log(self, job: Job, pipeline: str) -> str | None:
        """Return a job's raw log; None where it cannot be read."""
        base = f"{self.api_url}/v2/organizations/{self.organization}/pipelines/{pipeline}"
        return self.fetcher.text(f"{base}/builds/{job.build}/jobs/{job.id}/log.txt", self._headers())

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def jobs_of(build: Json, required: bool | None, pipeline: str) -> Iterator[tuple[Job, bool]]:
    """Yield the jobs of a build that have ended, and whether each was replaced by a later attempt."""
    for raw in build.get("jobs") or ():
        if not isinstance(raw, dict) or raw.get("type") not in (None, "script"):
            continue
        conclusion = STATES.get(str(raw.get("state")))
        if conclusion is not None:
            yield job_of(raw, build, required, conclusion, pipeline), bool(raw.get("retried"))


def job_of(raw: Json, build: Json, required: bool | None, conclusion: str, pipeline: str) -> Job:
    """Return one job."""
    agent = raw.get("agent") or {}
    name = str(raw.get("name") or raw.get("step_key") or "unnamed step")
    return Job.model_validate(
        {
            "id": raw.get("id"),
            "provider": "buildkite",
            "build": build.get("number"),
            "name": name,
            "step_key": raw.get("step_key"),
            "required": required,
            "soft_failed": raw.get("soft_failed"),
            "platform": platform(f"{name} {pipeline}", agent.get("meta_data") or ()),
            "conclusion": conclusion,
            "exit_status": raw.get("exit_status"),
            "attempt": (raw.get("retries_count") or 0) + 1,
            "agent": agent.get("hostname"),
            "started_at": raw.get("started_at"),
            "finished_at": raw.get("finished_at"),
            "url": raw.get("web_url"),
        }
    )


def platform(name: str, tags: Sequence[Any]) -> str | None:
    """Return what a job runs on by its name, pipeline and its agent's tags; None where none says it."""
    for words in (name.casefold(), " ".join(str(tag) for tag in tags).casefold()):
        for found, signs in PLATFORMS:
            if any(sign in words for sign in signs):
                return found
    return None


def created(build: Json) -> datetime | None:
    """Return when a build was created."""
    return Job.model_validate({"started_at": build.get("created_at")}).started_at
