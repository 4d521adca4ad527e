"""Commit statuses and check runs."""

from typing import Any

from fastapi import APIRouter, Request, Response

from bot.demo.github.api.frame import Here, actor, paged
from bot.demo.github.hub import Hub, Refused
from bot.demo.github.shapes import Json
from bot.demo.github.state import CheckRun, now

router = APIRouter(prefix="/repos/{org}/{repo}")


@router.get("/commits/{ref}/status")
def combined(hub: Here, ref: str) -> Json:
    """Answer `GET /commits/{ref}/status`."""
    sha = hub.git.resolve(ref) or ref
    latest = list(hub.state.latest_statuses(sha).values())
    kinds = {status.state for status in latest}
    failed, waiting = kinds & {"failure", "error"}, "pending" in kinds or not kinds
    return {
        "state": "failure" if failed else "pending" if waiting else "success",
        "sha": sha,
        "total_count": len(latest),
        "statuses": [hub.shapes.status(status) for status in latest],
        "repository": hub.shapes.repository(),
    }


@router.get("/commits/{ref}/statuses")
def statuses(hub: Here, ref: str, request: Request) -> Response:
    """Answer `GET /commits/{ref}/statuses`."""
    sha = hub.git.resolve(ref) or ref
    return paged(request, [hub.shapes.status(status) for status in hub.state.statuses_of(sha)])


@router.post("/statuses/{sha}", status_code=201)
def set_status(hub: Here, sha: str, request: Request, body: dict[str, Any]) -> Json:
    """Answer `POST /statuses/{sha}`."""
    who, words = actor(request, hub), body.get("description") or ""
    context = body.get("context") or "default"
    url = body.get("target_url")
    return hub.shapes.status(hub.set_status(sha, context, body["state"], who, description=words, url=url))


@router.get("/commits/{ref}/check-runs")
def check_runs(hub: Here, ref: str, request: Request, check_name: str = "") -> Response:
    """Answer `GET /commits/{ref}/check-runs`."""
    sha = hub.git.resolve(ref) or ref
    found = [run for run in hub.state.checks_of(sha) if not check_name or run.name == check_name]
    return paged(request, [hub.shapes.check_run(run) for run in found], "check_runs")


@router.get("/commits/{ref}/check-suites")
def check_suites(hub: Here, ref: str, request: Request) -> Response:
    """Answer `GET /commits/{ref}/check-suites`: one suite an App."""
    sha = hub.git.resolve(ref) or ref
    by_app: dict[str, list[CheckRun]] = {}
    for run in hub.state.checks_of(sha):
        by_app.setdefault(run.app, []).append(run)
    return paged(request, [hub.shapes.check_suite(runs) for runs in by_app.values()], "check_suites")


@router.get("/check-runs/{number}")
def check_run(hub: Here, number: int) -> Json:
    """Answer `GET /check-runs/{number}`."""
    return hub.shapes.check_run(require(hub, number))


@router.get("/check-runs/{number}/annotations")
def annotations(hub: Here, number: int, request: Request) -> Response:
    """Answer `GET /check-runs/{number}/annotations`."""
    found = [
        {
            "path": one.path,
            "start_line": one.line,
            "end_line": one.line,
            "annotation_level": one.level,
            "message": one.message,
            "title": None,
            "raw_details": None,
        }
        for one in require(hub, number).annotations
    ]
    return paged(request, found)


@router.post("/check-runs", status_code=201)
def create_check(hub: Here, request: Request, body: dict[str, Any]) -> Json:
    """Answer `POST /check-runs`."""
    who = own_app(hub, request)
    hub.state.made.append(f"check {body['name']} {body['head_sha']} {body.get('external_id')}")
    run = CheckRun(
        id=hub.state.new_id(),
        name=body["name"],
        head_sha=body["head_sha"],
        status="queued",
        conclusion=None,
        external_id=body.get("external_id") or "",
        details_url=body.get("details_url"),
        title="",
        summary="",
        app=hub.state.slug,
        started_at=now(),
    )
    update(run, body)
    return hub.shapes.check_run(hub.save_check(run, who, "created"))


@router.patch("/check-runs/{number}")
def change_check(hub: Here, number: int, request: Request, body: dict[str, Any]) -> Json:
    """Answer `PATCH /check-runs/{number}`."""
    who, run = own_app(hub, request), require(hub, number)
    if run.app != hub.state.slug:
        raise Refused(403, "Invalid app_id")
    update(run, body)
    action = "completed" if run.status == "completed" else "created"
    return hub.shapes.check_run(hub.save_check(run, who, action))


def require(hub: Hub, number: int) -> CheckRun:
    """Return a check run; Refused 404 for none."""
    if number not in hub.state.check_runs:
        raise Refused(404, "Not Found")
    return hub.state.check_runs[number]


def own_app(hub: Hub, request: Request) -> str:
    """Return the App that asks; Refused 403 for an account: only Apps write check runs."""
    who = actor(request, hub)
    if not who.endswith("[bot]"):
        raise Refused(403, "You must authenticate via a GitHub App.")
    return who


def update(run: CheckRun, body: dict[str, Any]) -> None:
    """Take over what a request says of a check run; a conclusion completes it."""
    run.status = body.get("status") or ("completed" if body.get("conclusion") else run.status)
    run.conclusion = body.get("conclusion") if run.status == "completed" else None
    run.details_url = body.get("details_url", run.details_url)
    run.external_id = body.get("external_id", run.external_id)
    output = body.get("output") or {}
    run.title, run.summary = output.get("title", run.title), output.get("summary", run.summary)
    run.completed_at = now() if run.status == "completed" else None
