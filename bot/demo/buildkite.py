"""A stand-in Buildkite: the recorded builds through the REST endpoints that the provider reads."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from bot.demo.github import StandIn
from bot.demo.recorded import Build, Job, Recording
from bot.demo.recorded.ci import ORGANIZATION

Json = dict[str, Any]


class StandInBuildkite:
    """Serves the builds that have been published, below `/buildkite` of the stand-in GitHub."""

    def __init__(self, recording: Recording, github: StandIn) -> None:
        self.organization = ORGANIZATION
        self.url = f"{github.url}/buildkite"
        self.builds: dict[tuple[str, int], Build] = {}
        self.green: set[str] = set()
        self._github = github
        self._recording = recording
        # Builds of main ran whether or not a pull request asked for them.
        for build in recording.builds:
            if build.pull is None:
                self.publish(build)

    def publish(self, build: Build) -> None:
        """Let a build be seen."""
        self.builds[(build.pipeline, build.number)] = build

    def web_url(self, build: Build) -> str:
        """Return where people see a build."""
        return f"{self._github.url}/buildkite/{self.organization}/{build.pipeline}/builds/{build.number}"

    def install(self) -> None:
        """Add the endpoints to the stand-in's server."""
        app = self._github.app
        app.include_router(self._router())

    def found(self, pipeline: str, asked: Mapping[str, str]) -> list[Build]:
        """Return the builds that a query names, newest first."""
        builds = [build for (name, _), build in self.builds.items() if name == pipeline]
        kept = [
            build
            for build in builds
            if asked.get("commit") in {None, build.commit}
            and asked.get("branch") in {None, build.branch}
            and asked.get("state") in {None, "finished", build.state}
            and within(build, asked)
        ]
        return sorted(kept, key=lambda build: build.created_at, reverse=True)

    def job(self, pipeline: str, number: int, job_id: str) -> Job:
        """Return a job; 404 where there is none."""
        build = self.builds.get((pipeline, number))
        found = next((job for job in build.jobs if job.id == job_id), None) if build else None
        if found is None:
            raise HTTPException(404, "No job found")
        return found

    def _router(self) -> APIRouter:
        router = APIRouter(prefix=f"/buildkite/v2/organizations/{self.organization}/pipelines/{{pipeline}}")

        @router.get("/builds")
        def builds(pipeline: str, request: Request) -> Response:
            asked = dict(request.query_params)
            size, page = min(int(asked.get("per_page", 30)), 100), max(int(asked.get("page", 1)), 1)
            found = self.found(pipeline, asked)
            answer = JSONResponse([self.shape(build) for build in found[(page - 1) * size : page * size]])
            if page * size < len(found):
                answer.headers["Link"] = f'<{request.url.include_query_params(page=page + 1)}>; rel="next"'
            return answer

        @router.get("/builds/{number}")
        def build(pipeline: str, number: int) -> Json:
            if (pipeline, number) not in self.builds:
                raise HTTPException(404, "No build found")
            return self.shape(self.builds[(pipeline, number)])

        @router.get("/builds/{number}/jobs/{job_id}/log")
        def log(pipeline: str, number: int, job_id: str, request: Request) -> Json:
            text = self.job(pipeline, number, job_id).log
            return {"url": str(request.url), "content": text, "size": len(text.encode()), "header_times": []}

        @router.get("/builds/{number}/jobs/{job_id}/log.txt")
        def log_text(pipeline: str, number: int, job_id: str) -> Response:
            return PlainTextResponse(self.job(pipeline, number, job_id).log)

        return router

    def shape(self, build: Build) -> Json:
        """Return a build as the API shapes it, jobs included."""
        return {
            "id": f"{build.pipeline}-{build.number}",
            "number": build.number,
            "state": build.state,
            "blocked": False,
            "message": "",
            "commit": build.commit,
            "branch": build.branch,
            "source": "webhook",
            "created_at": stamp(build.created_at),
            "started_at": stamp(build.created_at),
            "finished_at": stamp(build.finished_at),
            "web_url": self.web_url(build),
            "pull_request": {"id": str(build.pull), "base": "main", "repository": ""} if build.pull else None,
            "pipeline": {"slug": build.pipeline},
            "jobs": [self.job_shape(job, build) for job in build.jobs],
        }

    def job_shape(self, job: Job, build: Build) -> Json:
        """Return a job as the API shapes it."""
        api = f"{self.url}/v2/organizations/{self.organization}/pipelines/{build.pipeline}"
        return {
            "id": job.id,
            "type": "script",
            "name": job.name,
            "step_key": job.step_key,
            "state": job.state,
            "soft_failed": job.soft_failed,
            "exit_status": job.exit_status,
            "retried": False,
            "retries_count": 0,
            "started_at": stamp(job.started_at),
            "finished_at": stamp(job.finished_at),
            "web_url": f"{self.web_url(build)}#{job.id}",
            "log_url": f"{api}/builds/{build.number}/jobs/{job.id}/log",
            "raw_log_url": f"{api}/builds/{build.number}/jobs/{job.id}/log.txt",
            "agent": {"hostname": job.agent, "name": job.agent, "meta_data": [f"queue={job.agent}"]},
        }


def stamp(moment: datetime) -> str:
    """Return a time as Buildkite writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def within(build: Build, asked: Mapping[str, str]) -> bool:
    """Say whether a build was created in the asked time."""
    start, end = asked.get("created_from"), asked.get("created_to")
    created = build.created_at
    return (not start or created >= datetime.fromisoformat(start)) and (
        not end or created < datetime.fromisoformat(end)
    )
