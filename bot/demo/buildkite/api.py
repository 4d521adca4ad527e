"""The REST endpoints of the stand-in Buildkite that a CI provider reads, and the one that retries a job."""

from collections.abc import Mapping
from datetime import datetime

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response

from bot.demo.buildkite.organization import Json, Organization
from bot.demo.buildkite.pages import HEADERS, build_page
from bot.demo.buildkite.state import Build, Job

LIMITED = "You have exceeded your API rate limit. Please wait 60 seconds before making more requests."


class Api:
    """Answers for one organisation. A reader without a token sees builds, and none of their jobs."""

    def __init__(self, organization: Organization) -> None:
        self.organization = organization

    def may(self, request: Request) -> bool:
        """Say whether a request has the token. 429 beyond the limit, 401 for a wrong token."""
        known = self.organization
        known.requests.append(f"{request.method} {request.url.path}")
        if known.refusals > 0:
            known.refusals -= 1
            raise HTTPException(429, LIMITED)
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if given and known.token and given != known.token:
            raise HTTPException(401, "Authentication required. Please supply a valid API Access Token")
        return not known.token or given == known.token

    def must(self, request: Request) -> None:
        """Refuse a request that has not the token with 401."""
        if not self.may(request):
            raise HTTPException(401, "Authentication required. Please supply a valid API Access Token")

    def build(self, pipeline: str, number: int) -> Build:
        """Return a build; 404 where there is none."""
        found = self.organization.builds.get((pipeline, number))
        if found is None:
            raise HTTPException(404, "No build found")
        return found

    def job(self, pipeline: str, number: int, job_id: str) -> tuple[Build, Job]:
        """Return a job and its build; 404 where there is none."""
        build = self.build(pipeline, number)
        found = next((job for job in build.jobs if job.id == job_id), None)
        if found is None:
            raise HTTPException(404, "No job found")
        return build, found

    def log(self, pipeline: str, number: int, job_id: str) -> str:
        """Return a job's log; 404 where it is gone."""
        text = self.job(pipeline, number, job_id)[1].log
        if text is None:
            raise HTTPException(404, "No log found")
        return text

    def found(self, pipeline: str, request: Request) -> list[Build]:
        """Return the builds that a query names, newest first."""
        asked, states = dict(request.query_params), request.query_params.getlist("state[]")
        kept = [
            build
            for (name, _), build in self.organization.builds.items()
            if name == pipeline
            and asked.get("commit", build.commit) == build.commit
            and asked.get("branch", build.branch) == build.branch
            and in_state(build, asked.get("state"))
            and (not states or build.state in states)
            and within(build, asked)
        ]
        return sorted(kept, key=lambda build: (build.created_at, build.number), reverse=True)

    def page_of_builds(self, pipeline: str, request: Request) -> Response:
        """Answer `GET …/builds`, with a Link header where more follow."""
        readable, asked = self.may(request), request.query_params
        size, page = min(int(asked.get("per_page", 30)), 100), max(int(asked.get("page", 1)), 1)
        found = self.found(pipeline, request)
        shown = [
            self.shown(build, request, readable=readable) for build in found[(page - 1) * size : page * size]
        ]
        answer = JSONResponse(shown)
        if page * size < len(found):
            answer.headers["Link"] = f'<{request.url.include_query_params(page=page + 1)}>; rel="next"'
        return answer

    def shown(self, build: Build, request: Request, *, readable: bool) -> Json:
        """Return a build as this reader sees it."""
        without = request.query_params.get("exclude_jobs") == "true"
        retried = request.query_params.get("include_retried_jobs") == "true"
        shape = self.organization.shape(build, jobs=not without, retried=retried)
        return shape if readable or without else {**shape, "jobs": []}

    def page_of_jobs(self, pipeline: str, number: int, request: Request) -> Json:
        """Answer `GET …/jobs`: by cursor, in the states that are asked for."""
        self.must(request)
        asked = request.query_params
        build, states = self.build(pipeline, number), asked.getlist("state[]")
        size, start = min(int(asked.get("per_page", 30)), 100), int(asked.get("after", 0))
        jobs = [job for job in build.jobs if not states or job.state in states]
        following = str(request.url.include_query_params(after=start + size))
        return {
            "items": [self.organization.job_shape(job, build) for job in jobs[start : start + size]],
            "links": {"next": following if start + size < len(jobs) else None},
        }


def create_app(organization: Organization) -> FastAPI:
    """Return an organisation's API, to be mounted where its `url` says."""
    api = Api(organization)
    app = FastAPI(openapi_url=None)
    router = APIRouter(prefix=f"/v2/organizations/{organization.slug}/pipelines/{{pipeline}}/builds")

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: Exception) -> Response:
        status, says = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "")
        return JSONResponse({"message": says}, status_code=status)

    @router.get("")
    def builds(pipeline: str, request: Request) -> Response:
        return api.page_of_builds(pipeline, request)

    @router.get("/{number}")
    def build(pipeline: str, number: int, request: Request) -> Json:
        return api.shown(api.build(pipeline, number), request, readable=api.may(request))

    @router.get("/{number}/jobs")
    def jobs(pipeline: str, number: int, request: Request) -> Json:
        return api.page_of_jobs(pipeline, number, request)

    @router.get("/{number}/jobs/{job_id}/log")
    def log(pipeline: str, number: int, job_id: str, request: Request) -> Json:
        api.must(request)
        text = api.log(pipeline, number, job_id)
        return {"url": str(request.url), "content": text, "size": len(text.encode()), "header_times": []}

    @router.get("/{number}/jobs/{job_id}/log.txt")
    def log_text(pipeline: str, number: int, job_id: str, request: Request) -> Response:
        api.must(request)
        return PlainTextResponse(api.log(pipeline, number, job_id))

    @router.put("/{number}/jobs/{job_id}/retry")
    def retry(pipeline: str, number: int, job_id: str, request: Request) -> Json:
        api.must(request)
        build, job = api.job(pipeline, number, job_id)
        fresh = organization.retry(build, job)
        if fresh is None:
            raise HTTPException(422, "Only failed, timed out, canceled or passed jobs can be retried, once")
        return organization.job_shape(fresh, build)

    @app.get(f"/{organization.slug}/{{pipeline}}/builds/{{number}}")
    def page(pipeline: str, number: int) -> Response:
        return HTMLResponse(build_page(api.build(pipeline, number)), headers=HEADERS)

    add_artifacts(app, router, api)
    app.include_router(router)
    return app


def add_artifacts(app: FastAPI, router: APIRouter, api: Api) -> None:
    """Add the endpoints of a job's files: the list, and a download that leads to where the file lies."""
    organization = api.organization

    @router.get("/{number}/jobs/{job_id}/artifacts")
    def artifacts(pipeline: str, number: int, job_id: str, request: Request) -> list[Json]:
        api.must(request)
        return [
            {"id": str(place), "path": path, "state": "finished", "file_size": len(data)}
            for place, (path, data) in enumerate(api.job(pipeline, number, job_id)[1].artifacts.items())
        ]

    @router.get("/{number}/jobs/{job_id}/artifacts/{place}/download")
    def download(pipeline: str, number: int, job_id: str, place: int, request: Request) -> Response:
        api.must(request)
        where = organization.artifact_url or f"{organization.url}/files"
        return RedirectResponse(f"{where}/{pipeline}/{number}/{job_id}/{place}", 302)

    @app.get("/files/{pipeline}/{number}/{job_id}/{place}")
    def file(pipeline: str, number: int, job_id: str, place: int) -> Response:
        found = list(api.job(pipeline, number, job_id)[1].artifacts.values())
        return Response(found[place], media_type="application/octet-stream")


def in_state(build: Build, asked: str | None) -> bool:
    """Say whether a build is in the asked state; `finished` is every state that is an end."""
    return asked in {None, build.state} or (asked == "finished" and build.finished_at is not None)


def within(build: Build, asked: Mapping[str, str]) -> bool:
    """Say whether a build was created in the asked time."""
    start, end = asked.get("created_from"), asked.get("created_to")
    created = build.created_at
    return (not start or created >= datetime.fromisoformat(start)) and (
        not end or created < datetime.fromisoformat(end)
    )
