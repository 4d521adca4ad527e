"""GitHub Actions: runs, jobs, logs (a redirect; gone once expired), artifacts."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse, RedirectResponse

from bot.demo.github.api.frame import Here, paged
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


@router.get("/runs")
def runs(hub: Here, request: Request, head_sha: str = "", branch: str = "") -> Response:
    """Answer `GET /runs`."""
    found = [
        hub.shapes.workflow_run(run)
        for run in hub.state.workflow_runs.values()
        if (not head_sha or run.head_sha == head_sha) and (not branch or run.head_branch == branch)
    ]
    return paged(request, found[::-1], "workflow_runs")


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


@router.get("/runs/{number}/artifacts")
def artifacts(hub: Here, number: int, request: Request) -> Response:
    """Answer `GET /runs/{number}/artifacts`."""
    require(hub, number)
    return paged(request, [], "artifacts")
