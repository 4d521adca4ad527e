"""Commits, comparisons, branches and their rules."""

from fastapi import APIRouter, Request, Response

from bot.demo.github.api.frame import Here, paged
from bot.demo.github.hub import Hub, Refused
from bot.demo.github.shapes import Json

router = APIRouter(prefix="/repos/{org}/{repo}")


def sha_of(hub: Hub, ref: str) -> str:
    """Return the commit that a ref names; Refused 404 for none."""
    sha = hub.git.resolve(ref)
    if sha is None:
        raise Refused(404, "Not Found")
    return sha


@router.get("/compare/{basehead:path}")
def compare(hub: Here, basehead: str) -> Json:
    """Answer `GET /compare/{basehead:path}`."""
    base_ref, _, head_ref = basehead.partition("...")
    base, head = sha_of(hub, base_ref), sha_of(hub, head_ref.rpartition(":")[2])
    merge_base = hub.git.merge_base(base, head)
    if merge_base is None:
        raise Refused(404, "No common ancestor")
    ahead, behind = hub.git.commits(base, head), hub.git.commits(head, base)
    (first,) = hub.git.log("-1", merge_base)
    (base_info,) = hub.git.log("-1", base)
    status = {(False, False): "identical", (True, False): "ahead", (False, True): "behind"}
    return {
        "status": status.get((bool(ahead), bool(behind)), "diverged"),
        "ahead_by": len(ahead),
        "behind_by": len(behind),
        "total_commits": len(ahead),
        "base_commit": hub.shapes.commit(base_info),
        "merge_base_commit": hub.shapes.commit(first),
        "commits": [hub.shapes.commit(item) for item in ahead[:250]],
        "files": [hub.shapes.file(item, head) for item in hub.git.changed_files(merge_base, head)[:300]],
    }


@router.get("/commits")
def commits(hub: Here, request: Request, sha: str = "main") -> Response:
    """Answer `GET /commits`."""
    found = hub.git.log("-n", "300", sha_of(hub, sha))
    return paged(request, [hub.shapes.commit(item) for item in found])


@router.get("/commits/{ref}")
def commit(hub: Here, ref: str) -> Json:
    """Answer `GET /commits/{ref}`."""
    (found,) = hub.git.log("-1", sha_of(hub, ref))
    return hub.shapes.commit(found)


@router.get("/commits/{ref}/pulls")
def pulls_of(hub: Here, ref: str, request: Request) -> Response:
    """Answer `GET /commits/{ref}/pulls`."""
    sha = sha_of(hub, ref)
    return paged(request, [hub.shapes.pull(pull) for pull in hub.state.pulls() if pull.head_sha == sha])


@router.get("/branches/{branch}")
def branch(hub: Here, branch: str) -> Json:
    """Answer `GET /branches/{branch}`."""
    sha = sha_of(hub, branch)
    return {
        "name": branch,
        "commit": {"sha": sha},
        "protected": bool(hub.state.required or hub.state.protected),
        "protection_url": f"{hub.shapes.api}/branches/{branch}/protection",
    }


@router.get("/rules/branches/{branch}")
def rules(hub: Here, branch: str, request: Request) -> Response:
    """Answer `GET /rules/branches/{branch}`."""
    if hub.state.required is None:
        raise Refused(403, "Resource not accessible by integration")
    checks = [{"context": context, "integration_id": None} for context in hub.state.required]
    rule = {
        "type": "required_status_checks",
        "ruleset_id": 1,
        "parameters": {"required_status_checks": checks, "strict_required_status_checks_policy": False},
    }
    return paged(request, [rule] if checks else [])


@router.get("/rulesets")
def rulesets(hub: Here, request: Request) -> Response:
    """Answer `GET /rulesets`."""
    if hub.state.required is None:
        raise Refused(403, "Resource not accessible by integration")
    one = {"id": 1, "name": "main", "target": "branch", "enforcement": "active"}
    return paged(request, [one] if hub.state.required else [])


@router.get("/branches/{branch}/protection")
def protection(hub: Here, branch: str) -> Json:
    """Answer `GET /branches/{branch}/protection`."""
    return {"url": f"{hub.shapes.api}/branches/{branch}/protection", "required_status_checks": guard(hub)}


@router.get("/branches/{branch}/protection/required_status_checks")
def required_status_checks(hub: Here, branch: str) -> Json:
    """Answer `GET /branches/{branch}/protection/required_status_checks`."""
    return guard(hub)


def guard(hub: Hub) -> Json:
    """Return what the protection of main requires; Refused 403 where it may not be read, 404 without one."""
    if hub.state.protected is None:
        raise Refused(403, "Resource not accessible by integration")
    if not hub.state.protected:
        raise Refused(404, "Branch not protected")
    checks = [{"context": context, "app_id": None} for context in hub.state.protected]
    return {"strict": False, "contexts": list(hub.state.protected), "checks": checks}


@router.get("/git/ref/heads/{branch}")
@router.get("/git/refs/heads/{branch}")
def ref(hub: Here, branch: str) -> Json:
    """Answer `GET /git/ref/heads/{branch} and GET /git/refs/heads/{branch}`."""
    return {"ref": f"refs/heads/{branch}", "object": {"type": "commit", "sha": sha_of(hub, branch)}}
