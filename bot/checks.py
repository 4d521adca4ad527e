"""Check runs (an App) or commit statuses (a plain account), written only where something differs."""

from typing import Any

from bot.actions import CheckConclusion, Mode, SetCheck, Target
from bot.github import RepoClient

TITLE_LIMIT = 255
SUMMARY_LIMIT = 65_000
STATUS_LIMIT = 140
STATES = {"success": "success", "failure": "failure", "neutral": "success"}


def set_check(action: SetCheck, target: Target, client: RepoClient) -> None:
    """Make the check on the target's head say what `action` says; only mode `gate` may say failure."""
    conclusion = soften(action.conclusion, target.mode)
    if client.who.is_app:
        set_run(action, conclusion, target, client)
    else:
        set_status(action, conclusion, target, client)


def soften(conclusion: CheckConclusion | None, mode: Mode) -> CheckConclusion | None:
    """Return `neutral` for a failure outside mode `gate`."""
    return "neutral" if conclusion == "failure" and mode is not Mode.GATE else conclusion


def set_run(action: SetCheck, conclusion: CheckConclusion | None, target: Target, client: RepoClient) -> None:
    """Create or update the check run, found by name, head and external id."""
    wanted: dict[str, Any] = {
        "status": action.status,
        "details_url": action.details_url,
        "output": {"title": action.title[:TITLE_LIMIT], "summary": action.summary[:SUMMARY_LIMIT]},
    }
    if conclusion is not None:
        wanted["conclusion"] = conclusion
    existing = find_run(action, target, client)
    if existing is None:
        identity = {"name": action.name, "head_sha": target.head_sha, "external_id": action.external_id}
        client.write("POST", "/check-runs", {**identity, **without_none(wanted)})
    elif differs(existing, wanted):
        client.write("PATCH", f"/check-runs/{existing['id']}", without_none(wanted))


def find_run(action: SetCheck, target: Target, client: RepoClient) -> Any:
    """Return our check run, or None."""
    path = f"/commits/{target.head_sha}/check-runs"
    runs = client.pages(path, {"check_name": action.name, "filter": "all"}, key="check_runs")
    ours = [run for run in runs if run.get("name") == action.name]
    return next((run for run in ours if run.get("external_id") == action.external_id), None)


def differs(existing: Any, wanted: dict[str, Any]) -> bool:
    """Say whether a check run says something else than it should."""
    output = existing.get("output") or {}
    pairs = [
        (existing.get("status"), wanted["status"]),
        (existing.get("conclusion"), wanted.get("conclusion")),
        (output.get("title"), wanted["output"]["title"]),
        ((output.get("summary") or "").strip(), wanted["output"]["summary"].strip()),
    ]
    return any(found != asked for found, asked in pairs)


def without_none(value: dict[str, Any]) -> dict[str, Any]:
    """Return a body without its empty fields."""
    return {key: item for key, item in value.items() if item is not None}


def set_status(
    action: SetCheck, conclusion: CheckConclusion | None, target: Target, client: RepoClient
) -> None:
    """Set the commit status of a plain account, which may not write check runs."""
    wanted = {
        "state": STATES[conclusion] if conclusion else "pending",
        "context": action.name,
        "description": action.title[:STATUS_LIMIT],
        "target_url": action.details_url,
    }
    combined = client.get(f"/commits/{target.head_sha}/status") or {}
    for status in combined.get("statuses", ()):
        if status.get("context") == action.name:
            if all(status.get(key) == wanted[key] for key in ("state", "description", "target_url")):
                return
            break
    client.write("POST", f"/statuses/{target.head_sha}", without_none(wanted))
