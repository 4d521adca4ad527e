"""GitHub Actions: runs, jobs, logs (a redirect; gone once expired), artifacts."""

from collections.abc import Mapping
from datetime import datetime

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse, RedirectResponse

from bot.demo.github.api.frame import Here, actor, paged
from bot.demo.github.hub import Hub, Refused
from bot.demo.github.shapes import Json
from bot.demo.github.state import WorkflowJob, WorkflowRun

router = APIRouter(prefix="/repos/{org}/{repo}/actions")


def require(hub: Hub, number: int) -> WorkflowRun:
    """Return a run; Refused 404 for none."""
    if number not in hub.state.workflow_runs:
        raise Refused(404, "Not Found")
    return hub.state.workflow_runs[number]


def job_of(hub: Hub, number: int) -> WorkflowJob:
    """Return a job; Refused 404 for none."""
    jobs = (job for run in hub.state.workflow_runs.values() for job in run.jobs)
    found = next((job for job in jobs if job.id == number), None)
    if found is None:
        raise Refused(404, "Not Found")
    return found


def within(made: datetime, span: str) -> bool:
    """Say whether a time is in a query's span `from..to`."""
    start, _, end = span.partition("..")
    return datetime.fromisoformat(start) <= made <= datetime.fromisoformat(end)


def asked_for(run: WorkflowRun, asked: Mapping[str, str]) -> bool:
    """Say whether a run is what a query asks for."""
    values = {"head_sha": run.head_sha, "branch": run.head_branch, "event": run.event}
    plain = all(asked.get(name, value) == value for name, value in values.items())
    status = asked.get("status")
    span = asked.get("created")
    return (
        plain and status in {None, run.status, run.conclusion} and (not span or within(run.created_at, span))
    )


@router.get("/runs")
def runs(hub: Here, request: Request) -> Response:
    """Answer `GET /runs`, newest first."""
    asked = dict(request.query_params)
    found = [run for run in hub.state.workflow_runs.values() if asked_for(run, asked)]
    found.sort(key=lambda run: (run.created_at, run.id), reverse=True)
    return paged(request, [hub.shapes.workflow_run(run) for run in found], "workflow_runs")


@router.get("/runs/{number}")
def one_run(hub: Here, number: int) -> Json:
    """Answer `GET /runs/{number}`."""
    return hub.shapes.workflow_run(require(hub, number))


@router.get("/runs/{number}/jobs")
def jobs(hub: Here, number: int, request: Request) -> Response:
    """Answer `GET /runs/{number}/jobs`."""
    run = require(hub, number)
    every = request.query_params.get("filter") == "all"
    newest = {job.name: job for job in run.jobs}
    shown = run.jobs if every else list(newest.values())
    return paged(request, [hub.shapes.workflow_job(job, run) for job in shown], "jobs")


@router.get("/jobs/{number}/logs")
def logs(hub: Here, number: int) -> Response:
    """Answer `GET /jobs/{number}/logs`."""
    if job_of(hub, number).log is None:
        raise Refused(410, "Gone")
    return RedirectResponse(f"{hub.shapes.api}/actions/jobs/{number}/logs.txt", status_code=302)


@router.get("/jobs/{number}/logs.txt")
def log_text(hub: Here, number: int) -> Response:
    """Answer `GET /jobs/{number}/logs.txt`."""
    return PlainTextResponse(job_of(hub, number).log or "")


@router.post("/jobs/{number}/rerun", status_code=201)
def rerun(hub: Here, number: int, request: Request) -> Json:
    """Answer `POST /jobs/{number}/rerun`; 403 while its run goes on."""
    job = job_of(hub, number)
    run = require(hub, job.run_id)
    if run.status != "completed":
        raise Refused(403, "The workflow run containing this job is already running")
    hub.rerun_job(run, job, actor(request, hub))
    return {}


@router.get("/runs/{number}/artifacts")
def artifacts(hub: Here, number: int, request: Request) -> Response:
    """Answer `GET /runs/{number}/artifacts`."""
    run = require(hub, number)
    return paged(request, [hub.shapes.artifact(one, run) for one in run.artifacts], "artifacts")


def artifact_of(hub: Hub, number: int) -> bytes:
    """Return an artifact's archive; Refused 404 for none, 410 once it has expired."""
    every = (one for run in hub.state.workflow_runs.values() for one in run.artifacts)
    found = next((one for one in every if one.id == number), None)
    if found is None:
        raise Refused(404, "Not Found")
    if found.data is None:
        raise Refused(410, "Artifact has expired")
    return found.data


@router.get("/artifacts/{number}/zip")
def artifact(hub: Here, number: int) -> Response:
    """Answer `GET /artifacts/{number}/zip`."""
    artifact_of(hub, number)
    return RedirectResponse(f"{hub.shapes.api}/actions/artifacts/{number}/archive.zip", status_code=302)


@router.get("/artifacts/{number}/archive.zip")
def archive(hub: Here, number: int) -> Response:
    """Answer `GET /artifacts/{number}/archive.zip`: the signed address that the redirect names."""
    return Response(artifact_of(hub, number), media_type="application/zip")
