"""Buildkite: builds and jobs of its REST API as the snapshot's jobs.

Source: Buildkite's REST API, "Builds" and "Jobs" (state, soft_failed, retried, exit_status, agent).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from bot.ci.providers.artifacts import MEMBER_LIMIT, is_report, joined, text_of
from bot.ci.providers.fetch import Fetcher
from bot.ci.providers.reads import Sighting, Window
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
SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")  # a status context names it: nothing else reaches a URL
ERROR_LIMIT = 1_000
MOST_NAMED = 2_000
MOST_REPORTS = 5  # of one job

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Buildkite:
    """Some pipelines of one organisation.

    `required` holds the contexts that the branch requires (None: not known). Without a token Buildkite shows
    builds, and none of their jobs. `most_pages` is how many pages of builds one query may bring.
    """

    api_url: str
    token: str
    organization: str
    pipelines: tuple[str, ...]
    required: tuple[str, ...] | None
    fetcher: Fetcher
    most_pages: int = MOST_PAGES

    def parts(self) -> Iterator[tuple[str, "Buildkite"]]:
        """Yield each pipeline by itself; without a name where there is no token, for jobs may be hidden."""
        for pipeline in self.pipelines:
            name = f"buildkite/{self.organization}/{pipeline}" if self.token else ""
            yield name, replace(self, pipelines=(pipeline,))

    def on_commit(self, sha: str) -> Iterator[Sighting]:
        """Yield the ended jobs of every build of a commit."""
        yield from self._sightings({"commit": sha})

    def on_branch(self, branch: str, window: Window) -> Iterator[Sighting]:
        """Yield the ended jobs of the branch's own builds.

        A fork's branch may have the same name: its builds belong to a pull request, and are left out.
        """
        found = self._sightings({"branch": branch, **created_in(window)})
        yield from (one for one in found if not one.for_pull)

    def red_pulls(self, window: Window) -> Iterator[Sighting]:
        """Yield the ended jobs of red builds of pull requests."""
        found = self._sightings({"state": "failed", **created_in(window)})
        yield from (one for one in found if one.for_pull)

    def log(self, seen: Sighting) -> str | None:
        """Return a job's raw log; None where it cannot be read."""
        url = f"{self._builds(seen.source)}/{quote(seen.job.build or '', safe='')}"
        text = self.fetcher.text(f"{url}/jobs/{quote(seen.job.id or '', safe='')}/log.txt", self._headers())
        if text is not None and is_error(text):
            self.fetcher.note(
                "Buildkite answered with an error in place of a log; what it hides is not known"
            )
            return None
        return text

    def junit(self, seen: Sighting) -> str | None:
        """Return the JUnit reports among a job's artifacts; None where none can be read.

        The scope `read_artifacts` is not needed: without it, or where the files lie with a host that may not
        be read, the log tells alone.
        """
        url = f"{self._builds(seen.source)}/{quote(seen.job.build or '', safe='')}"
        url = f"{url}/jobs/{quote(seen.job.id or '', safe='')}/artifacts"
        with self.fetcher.optional() as may_read:
            listed, _ = (
                self.fetcher.json(url, self._headers(), {"per_page": PAGE}) if may_read else (None, None)
            )
            found = [one for one in listed or () if isinstance(one, dict)] if isinstance(listed, list) else []
            ids = [str(one.get("id")) for one in found if is_report(*path_and_size(one))]
            reads = (
                self.fetcher.data(f"{url}/{quote(one, safe='')}/download", self._headers(), MEMBER_LIMIT)
                for one in ids[:MOST_REPORTS]
            )
            return joined([text for raw in reads if raw is not None and (text := text_of(raw))])

    def _builds(self, pipeline: str) -> str:
        return f"{self.api_url}/v2/organizations/{self.organization}/pipelines/{pipeline}/builds"

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def _sightings(self, asked: Mapping[str, str]) -> Iterator[Sighting]:
        for pipeline in self.pipelines:
            for build in self._read(pipeline, asked):
                yield from sightings(build, pipeline, self.required)

    def _read(self, pipeline: str, asked: Mapping[str, str]) -> Iterator[Json]:
        """Yield builds, newest first, each with all its jobs and their earlier attempts."""
        url: str | None = self._builds(pipeline)
        parameters: Mapping[str, Any] | None = {**asked, "per_page": PAGE, "include_retried_jobs": "true"}
        for _ in range(self.most_pages):
            if url is None:
                return
            page, url = self.fetcher.json(url, self._headers(), parameters)
            parameters = None
            yield from (item for item in page or () if isinstance(item, dict))
        if url is not None:
            self.fetcher.note_cut(
                f"only the newest {self.most_pages * PAGE} builds of `{pipeline}` were read"
            )


def path_and_size(artifact: Json) -> tuple[str, int]:
    """Return an artifact's path and size in bytes; 0 where it was not uploaded to its end."""
    size = artifact.get("file_size")
    whole = artifact.get("state") == "finished" and isinstance(size, int)
    return str(artifact.get("path") or ""), size if whole and size is not None else 0


def created_in(window: Window) -> dict[str, str]:
    """Return the query for builds created in a time span."""
    return {"created_from": window.start.isoformat(), "created_to": window.end.isoformat()}


def is_error(text: str) -> bool:
    """Say whether Buildkite wrote an error document where a log should be."""
    return len(text) < ERROR_LIMIT and text.lstrip().startswith('{"message"')


def sightings(build: Json, pipeline: str, contexts: Sequence[str] | None) -> Iterator[Sighting]:
    """Yield the jobs of a build that have ended."""
    proposed = build.get("pull_request")
    pull = str(proposed.get("id") or "") if isinstance(proposed, dict) else ""
    for raw in build.get("jobs") or ():
        if not isinstance(raw, dict) or raw.get("type") not in (None, "script"):
            continue
        conclusion = STATES.get(str(raw.get("state")))
        if conclusion is not None:
            yield Sighting(
                job=job_of(raw, build, is_required(raw, pipeline, contexts), conclusion, pipeline),
                source=pipeline,
                sha=str(build.get("commit") or ""),
                branch=str(build.get("branch") or ""),
                for_pull=bool(proposed),
                pull=int(pull) if pull.isdecimal() and len(pull) < 10 else None,
                created_at=created(build),
                replaced=bool(raw.get("retried")),
                slot=raw.get("parallel_group_index") or 0,
            )


def is_required(raw: Json, pipeline: str, contexts: Sequence[str] | None) -> bool | None:
    """Say whether a job's status is required: by its pipeline's roll-up, or by its own step's context."""
    if contexts is None:
        return None
    name = f"buildkite/{pipeline}"
    if name in contexts or f"{name}/pr" in contexts:
        return True
    steps = {context.removeprefix(f"{name}/") for context in contexts if context.startswith(f"{name}/")}
    own = {raw.get("step_key"), dashed(raw.get("name"))} - {None, ""}
    last = {step.rpartition("/")[2] for step in steps}
    return bool(own & (steps | last))


def dashed(name: Any) -> str:
    """Return a step's name in the form that status contexts have."""
    return re.sub(r"[^a-z0-9]+", "-", str(name or "").lower()).strip("-")


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
    for text in (name, " ".join(str(tag) for tag in tags)):
        words = re.split(r"[^a-z0-9]+", text.casefold()[:MOST_NAMED])
        for found, signs in PLATFORMS:
            if any(re.fullmatch(rf"{sign}(?:x?\d*)", word) for sign in signs for word in words):
                return found
    return None


def created(build: Json) -> datetime | None:
    """Return when a build was created."""
    return Job.model_validate({"started_at": build.get("created_at")}).started_at
