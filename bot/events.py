"""GitHub's webhook payloads as typed events: pure, tolerant of unknown keys, strict about what is used."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

CommentKind = Literal["issue", "diff", "review"]

# What a database can keep: more would be answered with 503 and sent again for ever.
Id = Annotated[int, Field(ge=0, le=2**63 - 1)]
Number = Annotated[int, Field(ge=1, le=2**31 - 1)]


class Part(BaseModel):
    """A piece of a payload: unknown keys are ignored, values never change."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class RepoRef(Part):
    """The repository an event is about, keyed by GitHub's numeric id."""

    id: Id = Field(ge=1)
    full_name: str = Field(pattern=r"^[\w.-]{1,100}/[\w.-]{1,100}$")
    default_branch: str = Field(default="main", max_length=255)
    private: bool = False


class Actor(Part):
    """An account; `type` tells people from bots, though plain accounts may be bots too."""

    login: str = Field(default="", max_length=100)
    type: str = "User"


class Event(Part):
    """What every event carries; `number` is a pull request's, `sha` a commit's, each only where reliable."""

    name: str
    action: str = ""
    repo: RepoRef | None = None
    installation_id: Id | None = None
    sender: Actor = Actor()
    number: Number | None = None
    sha: str | None = None


class PullRequestEvent(Event):
    """A pull request was opened, pushed to, edited, labelled, closed …"""

    draft: bool = False
    author: str = ""


class CommentEvent(Event):
    """Somebody wrote or edited a comment, a remark on the diff, or a review's text."""

    comment_id: Id
    kind: CommentKind
    body: str = ""
    author: Actor = Actor()
    by_app: bool = False


class ReviewEvent(CommentEvent):
    """A review was submitted, edited or dismissed; its text may hold a command as well."""

    state: str = ""


class ShaEvent(Event):
    """Something happened to a commit: which pull requests it is the head of must be looked up.

    `context` is the status context, the check's name or the workflow's.
    """

    context: str = ""
    finished: bool = True
    branch: str | None = None


class PushEvent(Event):
    """A branch moved; `branch` is None for a tag or a deleted branch."""

    branch: str | None = None


class IssueEvent(Event):
    """An issue (not a pull request) changed: pull requests that link it may change their priority."""

    issue: Number


class InstallationEvent(Event):
    """The App was installed on repositories, or taken off them."""

    added: tuple[RepoRef, ...] = ()
    removed: tuple[RepoRef, ...] = ()


class MalformedPayload(ValueError):  # noqa: N818 - the fault is the payload's
    """The payload lacks what its event always has; the text says what."""


def parse(name: str, payload: Mapping[str, Any]) -> Event:
    """Return the typed event; an unknown name gives a bare `Event`. MalformedPayload for a broken payload."""
    build = PARSERS.get(name, parse_unknown)
    try:
        return build(name, payload)
    except (ValidationError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise MalformedPayload(f"{name}: {describe(error)}") from error


def describe(error: Exception) -> str:
    """Return the first fault in one line without echoing the payload."""
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    return "it is not shaped like GitHub's"


def common(name: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that all events share."""
    installation = payload.get("installation")
    return {
        "name": name,
        "action": payload.get("action") or "",
        "repo": payload.get("repository"),
        "installation_id": installation.get("id") if isinstance(installation, Mapping) else None,
        "sender": payload.get("sender") or {},
    }


def parse_unknown(name: str, payload: Mapping[str, Any]) -> Event:
    """Parse an event that nothing is done for; only what it says of itself is read."""
    action = payload.get("action")
    return Event(name=name, action=action if isinstance(action, str) else "")


def parse_pull_request(name: str, payload: Mapping[str, Any]) -> Event:
    """Parse `pull_request`."""
    pull = payload["pull_request"]
    return PullRequestEvent(
        **common(name, payload),
        number=pull["number"],
        sha=pull["head"]["sha"],
        draft=bool(pull.get("draft")),
        author=(pull.get("user") or {}).get("login", ""),
    )


def parse_review(name: str, payload: Mapping[str, Any]) -> Event:
    """Parse `pull_request_review`."""
    review = payload["review"]
    return ReviewEvent(
        **common(name, payload),
        number=payload["pull_request"]["number"],
        comment_id=review["id"],
        kind="review",
        body=review.get("body") or "",
        author=review.get("user") or {},
        state=(review.get("state") or "").upper(),
    )


def parse_review_comment(name: str, payload: Mapping[str, Any]) -> Event:
    """Parse `pull_request_review_comment`."""
    return comment_event(name, payload, payload["pull_request"]["number"], "diff")


def parse_issue_comment(name: str, payload: Mapping[str, Any]) -> Event:
    """Parse `issue_comment`; a comment on an issue that is no pull request is nobody's business."""
    issue = payload["issue"]
    if not issue.get("pull_request"):
        return Event(**common(name, payload))
    return comment_event(name, payload, issue["number"], "issue")


def comment_event(name: str, payload: Mapping[str, Any], number: int, kind: CommentKind) -> Event:
    """Build the event of one comment."""
    comment = payload["comment"]
    return CommentEvent(
        **common(name, payload),
        number=number,
        comment_id=comment["id"],
        kind=kind,
        body=comment.get("body") or "",
        author=comment.get("user") or {},
        by_app=bool(comment.get("performed_via_github_app")),
    )


def parse_issues(name: str, payload: Mapping[str, Any]) -> Event:
    """Parse `issues`."""
    return IssueEvent(**common(name, payload), issue=payload["issue"]["number"])


def parse_status(name: str, payload: Mapping[str, Any]) -> Event:
    """Parse `status`: it names a commit, never a pull request."""
    return ShaEvent(
        **common(name, payload),
        sha=payload["sha"],
        context=payload.get("context") or "",
        finished=payload.get("state") != "pending",
    )


def parse_check_run(name: str, payload: Mapping[str, Any]) -> Event:
    """Parse `check_run`; its list of pull requests is empty for forks, so it is not used."""
    run = payload["check_run"]
    return ShaEvent(
        **common(name, payload),
        sha=run["head_sha"],
        context=run.get("name") or "",
        finished=run.get("status") == "completed",
    )


def parse_check_suite(name: str, payload: Mapping[str, Any]) -> Event:
    """Parse `check_suite`."""
    suite = payload["check_suite"]
    app = suite.get("app") or {}
    return ShaEvent(
        **common(name, payload),
        sha=suite["head_sha"],
        context=app.get("slug") or "",
        finished=suite.get("status") == "completed",
        branch=suite.get("head_branch"),
    )


def parse_workflow_run(name: str, payload: Mapping[str, Any]) -> Event:
    """Parse `workflow_run`."""
    run = payload["workflow_run"]
    return ShaEvent(
        **common(name, payload),
        sha=run["head_sha"],
        context=run.get("name") or "",
        finished=run.get("status") == "completed",
        branch=run.get("head_branch"),
    )


def parse_merge_group(name: str, payload: Mapping[str, Any]) -> Event:
    """Parse `merge_group`: its head is a commit of the queue's own, the branch name holds the number."""
    group = payload["merge_group"]
    return ShaEvent(
        **common(name, payload), sha=group["head_sha"], branch=group.get("head_ref"), finished=False
    )


def parse_push(name: str, payload: Mapping[str, Any]) -> Event:
    """Parse `push`."""
    ref = payload["ref"]
    is_branch = ref.startswith("refs/heads/") and not payload.get("deleted")
    branch = ref.removeprefix("refs/heads/") if is_branch else None
    return PushEvent(**common(name, payload), sha=payload.get("after"), branch=branch)


def parse_installation(name: str, payload: Mapping[str, Any]) -> Event:
    """Parse `installation`: all its repositories come or go together."""
    repositories = payload.get("repositories") or ()
    gone = payload.get("action") in ("deleted", "suspend")
    lists = {"removed": repositories} if gone else {"added": repositories}
    return InstallationEvent(**common(name, payload), **lists)


def parse_installation_repositories(name: str, payload: Mapping[str, Any]) -> Event:
    """Parse `installation_repositories`."""
    return InstallationEvent(
        **common(name, payload),
        added=payload.get("repositories_added") or (),
        removed=payload.get("repositories_removed") or (),
    )


PARSERS = {
    "check_run": parse_check_run,
    "check_suite": parse_check_suite,
    "installation": parse_installation,
    "installation_repositories": parse_installation_repositories,
    "issue_comment": parse_issue_comment,
    "issues": parse_issues,
    "merge_group": parse_merge_group,
    "pull_request": parse_pull_request,
    "pull_request_review": parse_review,
    "pull_request_review_comment": parse_review_comment,
    "push": parse_push,
    "status": parse_status,
    "workflow_run": parse_workflow_run,
}
