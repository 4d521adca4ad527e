"""GitHub Actions: workflow runs and jobs of a commit as the snapshot's jobs.

Source: GitHub's REST API, "Workflow runs", "Workflow jobs" (logs are per attempt, gone after 90 days),
"Artifacts" and the annotations of "Check runs" (a job is the check run of the same id).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from bot.ci.providers.artifacts import junit_of, may_be_junit
from bot.ci.providers.buildkite import platform
from bot.ci.providers.fetch import Fetcher
from bot.ci.providers.reads import GitHubReads, Sighting, UnreadableError, Window
from bot.ci.snapshot import Job

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
OF_PULLS = frozenset({"pull_request", "pull_request_target", "pull_request_review"})
MOST_RUNS = 40  # of one query, for one verdict
MOST_ANNOTATIONS = 300
ARTIFACT_LIMIT = 20 * 1024**2

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Actions:
    """One repository's workflow runs.

    `required` holds the checks that the branch requires (None: not known); `token` reads logs, which come
    from another host; `most_runs` is how many runs one query may bring.
    """

    github: GitHubReads
    api_url: str
    token: str | None
    required: frozenset[str] | None
    fetcher: Fetcher
    most_runs: int = MOST_RUNS

    def parts(self) -> Iterator[tuple[str, "Actions"]]:
        """Yield itself: all workflows are read together."""
        yield "actions", self

    def on_commit(self, sha: str) -> Iterator[Sighting]:
        """Yield the ended jobs of every run of a commit."""
        for run in self._runs({"head_sha": sha}):
            yield from self._jobs(run)

    def on_branch(self, branch: str, window: Window) -> Iterator[Sighting]:
        """Yield the ended jobs of the branch's own runs.

        A fork's branch may have the same name: runs of pull requests and of other repositories are left out.
        """
        for run in self._runs({"branch": branch, "status": "completed", "created": span(window)}):
            if not self._is_for_pull(run):
                yield from self._jobs(run)

    def red_pulls(self, window: Window) -> Iterator[Sighting]:
        """Yield the ended jobs of failed runs of pull requests."""
        asked = {"event": "pull_request", "status": "failure", "created": span(window)}
        for run in self._runs(asked):
            yield from self._jobs(run)

    def log(self, seen: Sighting) -> str | None:
        """Return a job's log; where it has expired, its annotations that point at a line; None without."""
        text = self.fetcher.text(self._url(f"jobs/{seen.job.id}/logs"), self._headers())
        return text if text is not None else self._annotations(seen.job)

    def junit(self, seen: Sighting) -> str | None:
        """Return the JUnit report among the run's artifacts that is this attempt's; None where none is."""
        try:
            path = f"/actions/runs/{seen.job.build}/artifacts"
            found = [one for one in islice(self.github.pages(path, key="artifacts"), 100) if one]
        except UnreadableError:
            return None
        own = next((one for one in found if may_be_junit(one, seen.job)), None)
        if own is None or (own.get("size_in_bytes") or 0) > ARTIFACT_LIMIT:
            return None
        packed = self.fetcher.data(self._url(f"artifacts/{own['id']}/zip"), self._headers(), ARTIFACT_LIMIT)
        return None if packed is None else junit_of(packed)

    def _url(self, rest: str) -> str:
        return f"{self.api_url}/repos/{self.github.full_name}/actions/{rest}"

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def _runs(self, asked: Json) -> Iterator[Json]:
        try:
            for number, run in enumerate(self.github.pages("/actions/runs", asked, "workflow_runs")):
                if number >= self.most_runs:
                    self.fetcher.note_cut(
                        f"only the newest {self.most_runs} workflow runs of a query were read"
                    )
                    return
                yield run
        except UnreadableError as error:
            self._refused(error)

    def _jobs(self, run: Json) -> Iterator[Sighting]:
        try:
            raws = list(self.github.pages(f"/actions/runs/{run['id']}/jobs", {"filter": "all"}, "jobs"))
        except UnreadableError as error:
            self._refused(error)
            return
        latest: dict[str, int] = {}
        for raw in raws:
            latest[raw["name"]] = max(latest.get(raw["name"], 0), attempt_of(raw))
        for raw in raws:
            if raw.get("status") == "completed":
                replaced = attempt_of(raw) < latest[raw["name"]]
                yield sighting(raw, run, self.required, self._is_for_pull(run), replaced)

    def _is_for_pull(self, run: Json) -> bool:
        """Say whether a run tested what somebody proposes: by its event, or out of another repository."""
        home = (run.get("head_repository") or {}).get("full_name") or self.github.full_name
        return run.get("event") in OF_PULLS or home.casefold() != self.github.full_name.casefold()

    def _refused(self, error: UnreadableError) -> None:
        self.fetcher.note(f"GitHub Actions could not be read ({error.status}): `actions: read` is needed")

    def _annotations(self, job: Job) -> str | None:
        try:
            found = self.github.pages(f"/check-runs/{job.id}/annotations")
            return findings(islice(found, MOST_ANNOTATIONS))
        except UnreadableError:
            return None


def span(window: Window) -> str:
    """Return a time span as GitHub's queries write it."""
    return "..".join(
        moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for moment in (window.start, window.end)
    )


def attempt_of(raw: Json) -> int:
    """Return which attempt of its run a job belongs to."""
    return int(raw.get("run_attempt") or 1)


def sighting(
    raw: Json, run: Json, required: frozenset[str] | None, for_pull: bool, replaced: bool
) -> Sighting:
    """Return a job as it was seen in a run."""
    pulls: list[Json] = list(run.get("pull_requests") or ())
    return Sighting(
        job=job_of(raw, run, required),
        source=f"{run.get('workflow_id') or run.get('path') or run.get('name')}:{run.get('event')}",
        sha=str(run.get("head_sha") or ""),
        branch=str(run.get("head_branch") or ""),
        for_pull=for_pull,
        pull=pulls[0].get("number") if len(pulls) == 1 and for_pull else None,
        created_at=moment(run.get("created_at")),
        replaced=replaced,
    )


def moment(value: Any) -> datetime | None:
    """Return a time of GitHub's; None for none."""
    return Job.model_validate({"started_at": value}).started_at


def job_of(raw: Json, run: Json, required: frozenset[str] | None) -> Job:
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


def findings(annotations: Iterable[Json]) -> str | None:
    """Return failing annotations that point into a file, as a compiler writes errors; None for none.

    Others ("Process completed with exit code 1.") say nothing, and a text of them alone would look as if
    nothing had failed.
    """
    lines = []
    for one in annotations:
        message = re.sub(r"\s+", " ", str(one.get("message") or ""))[:600].strip()
        path = str(one.get("path") or "")
        if one.get("annotation_level") == "failure" and message and "." in path and path != ".github":
            lines.append(f"{path}:{one.get('start_line') or 1}: error: {message}")
    return "\n".join(lines) + "\n" if lines else None
