"""One organisation of the stand-in Buildkite: its builds, who may read them, and what it tells."""

import hashlib
import hmac
import json
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

from bot.demo.buildkite.state import Build, Job

Json = dict[str, Any]
RETRYABLE = frozenset({"failed", "timed_out", "canceled", "passed"})
TIMEOUT_S = 10.0


@dataclass
class Hook:
    """Where events go, and the secret that signs them; `codes` are what the receiver answered."""

    url: str
    secret: str
    codes: list[int] = field(default_factory=list)

    def send(self, event: str, body: Json) -> None:
        """Send one event, signed over time and bytes."""
        raw, stamped = json.dumps(body).encode(), str(int(time.time()))
        digest = hmac.new(self.secret.encode(), stamped.encode() + b"." + raw, hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/json",
            "X-Buildkite-Event": event,
            "X-Buildkite-Request": str(uuid.uuid4()),
            "X-Buildkite-Signature": f"timestamp={stamped},signature={digest}",
        }
        try:
            answer = httpx.post(self.url, content=raw, headers=headers, timeout=TIMEOUT_S)
            self.codes.append(answer.status_code)
        except httpx.HTTPError:
            self.codes.append(0)


@dataclass
class Organization:
    """Builds by pipeline and number, below `url` (which ends before `/v2`).

    `token` empty: everybody may read everything. `repository` is the clone URL that its pipelines build,
    `artifact_url` where the files of jobs lie (empty: here).
    """

    slug: str
    url: str
    token: str = ""
    repository: str = ""
    artifact_url: str = ""
    hook: Hook | None = None
    builds: dict[tuple[str, int], Build] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    refusals: int = 0

    def limit(self, times: int) -> None:
        """Answer the next `times` requests with 429, as Buildkite does beyond its limit."""
        self.refusals = times

    def publish(self, build: Build) -> None:
        """Let a build be seen, and tell that it finished."""
        self.builds[(build.pipeline, build.number)] = build
        self.tell("build.finished" if build.finished_at else "build.running", build)

    def retry(self, build: Build, job: Job) -> Job | None:
        """Run a job once more: a new job takes its place. None where that cannot be: each job id once."""
        if job.retried or job.state not in RETRYABLE or job.type != "script":
            return None
        fresh = Job(
            id=str(uuid.uuid4()),
            name=job.name,
            state="scheduled",
            started_at=None,
            finished_at=None,
            log="",
            step_key=job.step_key,
            agent=job.agent,
            retries=job.retries + 1,
            parallel_index=job.parallel_index,
        )
        job.retried, job.retried_in = True, fresh.id
        build.jobs.append(fresh)
        self.tell("job.scheduled", build, fresh)
        return fresh

    def finish(self, build: Build, job: Job, state: str, log: str, exit_status: int = 0) -> None:
        """End a job, and tell of it and of its build where that has ended too."""
        moment = datetime.now(UTC)
        job.started_at, job.finished_at = job.started_at or moment, moment
        job.state, job.log, job.exit_status = state, log, exit_status
        self.tell("job.finished", build, job)
        if build.finished_at:
            self.tell("build.finished", build)

    def tell(self, event: str, build: Build, job: Job | None = None) -> None:
        """Send an event; a build's event carries none of its jobs."""
        if self.hook is None:
            return
        body: Json = {"event": event, "build": self.shape(build, jobs=False), "sender": {"name": "Buildkite"}}
        body["pipeline"] = {"slug": build.pipeline, "repository": self.repository}
        if job is not None:
            body["job"] = self.job_shape(job, build)
        self.hook.send(event, body)

    def web_url(self, build: Build) -> str:
        """Return where people see a build."""
        return f"{self.url}/{self.slug}/{build.pipeline}/builds/{build.number}"

    def api(self, build: Build) -> str:
        """Return a build's address in the API."""
        return f"{self.url}/v2/organizations/{self.slug}/pipelines/{build.pipeline}/builds/{build.number}"

    def shape(self, build: Build, *, jobs: bool = True, retried: bool = True) -> Json:
        """Return a build as the API shapes it."""
        shown = [self.job_shape(job, build) for job in build.jobs if retried or not job.retried]
        pull = {"id": str(build.pull), "base": "main", "repository": self.repository}
        return {
            "id": f"{build.pipeline}-{build.number}",
            "number": build.number,
            "state": build.state,
            "blocked": build.blocked,
            "message": build.message,
            "commit": build.commit,
            "branch": build.branch,
            "source": "webhook",
            "created_at": stamp(build.created_at),
            "started_at": stamp(build.created_at),
            "finished_at": stamp(build.finished_at),
            "web_url": self.web_url(build),
            "url": self.api(build),
            "pull_request": pull if build.pull else None,
            "pipeline": {"slug": build.pipeline, "repository": self.repository},
            **({"jobs": shown} if jobs else {}),
        }

    def job_shape(self, job: Job, build: Build) -> Json:
        """Return a job as the API shapes it."""
        if job.type != "script":
            return {"id": job.id, "type": job.type, "state": job.state}
        return {
            "id": job.id,
            "type": job.type,
            "name": job.name,
            "step_key": job.step_key,
            "state": job.state,
            "soft_failed": job.soft_failed,
            "exit_status": job.exit_status,
            "retried": job.retried,
            "retried_in_job_id": job.retried_in,
            "retries_count": job.retries,
            "parallel_group_index": job.parallel_index,
            "started_at": stamp(job.started_at),
            "finished_at": stamp(job.finished_at),
            "web_url": f"{self.web_url(build)}#{job.id}",
            "log_url": f"{self.api(build)}/jobs/{job.id}/log",
            "raw_log_url": f"{self.api(build)}/jobs/{job.id}/log.txt",
            "agent": {"hostname": job.agent, "name": job.agent, "meta_data": [f"queue={job.agent}"]},
        }


def stamp(moment: datetime | None) -> str | None:
    """Return a time as Buildkite writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z") if moment else None
