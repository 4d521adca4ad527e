"""What the stand-in remembers: one repository with its people, pull requests, comments and checks."""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

INSTALLATION_ID = 4242
APP_ID = 99
REPOSITORY_ID = 77_001
ORGANIZATION_ID = 77_000
_ids = threading.Lock()


@dataclass
class User:
    """An account and its permission on the repository (`admin`, `write`, `triage`, `read`, `none`)."""

    id: int
    login: str
    type: str = "User"
    permission: str = "none"
    busy: bool = False


@dataclass
class Comment:
    """A comment below a pull request or an issue."""

    id: int
    number: int
    user: str
    body: str
    created_at: datetime
    updated_at: datetime
    reactions: list[tuple[str, str]] = field(default_factory=list)
    edits: int = 0


@dataclass
class Review:
    """A submitted review with its remarks on lines: (path, line, body)."""

    id: int
    number: int
    user: str
    body: str
    state: str
    commit_id: str
    submitted_at: datetime
    comments: list[tuple[str, int, str]] = field(default_factory=list)


@dataclass
class Issue:
    """An issue; a pull request is one too."""

    id: int
    number: int
    title: str
    body: str
    user: str
    labels: list[str]
    created_at: datetime
    updated_at: datetime
    state: str = "open"
    association: str = "CONTRIBUTOR"


@dataclass
class Pull(Issue):
    """A pull request. Its head is where its branch stands in the git repository."""

    head_ref: str = ""
    head_sha: str = ""
    base_ref: str = "main"
    draft: bool = False
    merged: bool = False
    mergeable: bool | None = True
    merge_commit: str | None = None
    requested: list[str] = field(default_factory=list)


@dataclass
class Status:
    """A commit status."""

    id: int
    sha: str
    context: str
    state: str
    description: str
    target_url: str | None
    creator: str
    created_at: datetime


@dataclass
class Annotation:
    """A remark of a check run on a line; `level`: `notice`, `warning` or `failure`."""

    path: str
    line: int
    level: str
    message: str


@dataclass
class CheckRun:
    """A check run."""

    id: int
    name: str
    head_sha: str
    status: str
    conclusion: str | None
    external_id: str
    details_url: str | None
    title: str
    summary: str
    app: str
    started_at: datetime
    completed_at: datetime | None = None
    annotations: list[Annotation] = field(default_factory=list)


@dataclass
class Artifact:
    """A zip archive that an Actions run left; `data` None: it has expired."""

    id: int
    name: str
    created_at: datetime
    data: bytes | None


@dataclass
class WorkflowJob:
    """A job of an Actions run; `log` None: it has expired."""

    id: int
    run_id: int
    name: str
    status: str
    conclusion: str | None
    started_at: datetime
    completed_at: datetime | None
    log: str | None
    run_attempt: int = 1
    runner_name: str = "runner-1"


@dataclass
class WorkflowRun:
    """An Actions run on one commit. `head_repository` None: the repository's own branch, else a fork's."""

    id: int
    name: str
    head_sha: str
    head_branch: str
    event: str
    status: str
    conclusion: str | None
    created_at: datetime
    run_attempt: int = 1
    jobs: list[WorkflowJob] = field(default_factory=list)
    head_repository: str | None = None
    artifacts: list[Artifact] = field(default_factory=list)


@dataclass
class Attempt:
    """One more try of a delivery."""

    id: int
    at: datetime
    status_code: int


@dataclass
class Delivery:
    """A webhook delivery; `status_code` is the latest answer, 0 where the receiver did not give one.

    `again` holds the later tries, `first_code` what the first was answered once there are any.
    """

    id: int
    guid: str
    event: str
    action: str
    body: bytes
    delivered_at: datetime
    status_code: int = 0
    first_code: int | None = None
    again: list[Attempt] = field(default_factory=list)


@dataclass
class Request:
    """An API request that was made, for counting."""

    verb: str
    path: str
    status: int


@dataclass
class State:
    """Everything. `made` names, in order, what the API was asked to create.

    `required` are the checks that a ruleset of main requires, `protected` those of its protection; None: may
    not be read.
    """

    full_name: str
    slug: str = "prgate"
    users: dict[str, User] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    issues: dict[int, Issue] = field(default_factory=dict)
    comments: dict[int, Comment] = field(default_factory=dict)
    reviews: dict[int, Review] = field(default_factory=dict)
    statuses: list[Status] = field(default_factory=list)
    check_runs: dict[int, CheckRun] = field(default_factory=dict)
    workflow_runs: dict[int, WorkflowRun] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    required: tuple[str, ...] | None = ()
    protected: tuple[str, ...] | None = ()
    tokens: dict[str, str] = field(default_factory=dict)
    accounts: dict[str, str] = field(default_factory=dict)
    private: bool = False
    installed: bool = True
    requests: list[Request] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    next_id: int = 1_000

    def new_id(self) -> int:
        """Return an id that nothing else has."""
        with _ids:
            self.next_id += 1
            return self.next_id

    def user(self, login: str) -> User:
        """Return an account, made on first mention: a bot where the name says so."""
        if login not in self.users:
            kind = "Bot" if login.endswith("[bot]") else "User"
            self.users[login] = User(self.new_id(), login, kind)
        return self.users[login]

    def pull(self, number: int) -> Pull | None:
        """Return a pull request, None where the number is none's."""
        found = self.issues.get(number)
        return found if isinstance(found, Pull) else None

    def pulls(self) -> Iterator[Pull]:
        """Yield the pull requests by number."""
        yield from (item for _, item in sorted(self.issues.items()) if isinstance(item, Pull))

    def comments_of(self, number: int) -> list[Comment]:
        """Return the comments of an issue or pull request, oldest first."""
        return [comment for comment in self.comments.values() if comment.number == number]

    def statuses_of(self, sha: str) -> list[Status]:
        """Return the statuses of a commit, newest first."""
        return [status for status in reversed(self.statuses) if status.sha == sha]

    def latest_statuses(self, sha: str) -> Mapping[str, Status]:
        """Return the newest status of each context of a commit."""
        latest: dict[str, Status] = {}
        for status in self.statuses_of(sha):
            latest.setdefault(status.context, status)
        return latest

    def checks_of(self, sha: str) -> list[CheckRun]:
        """Return the check runs of a commit, one a name and App: the newest."""
        newest = {(run.name, run.app): run for run in self.check_runs.values() if run.head_sha == sha}
        return list(newest.values())

    def writes(self) -> list[Request]:
        """Return the API requests that wrote something (a token is no content, a query writes nothing)."""
        return [
            request
            for request in self.requests
            if request.verb != "GET" and not request.path.endswith(("/access_tokens", "/graphql"))
        ]


def now() -> datetime:
    """Return the present time to the second, as GitHub tells it."""
    return datetime.now(UTC).replace(microsecond=0)
