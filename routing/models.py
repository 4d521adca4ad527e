"""The values of routing: what a pull request is, who owns what, whom to ask, how urgent it is. All frozen."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


def in_utc(value: datetime) -> datetime:
    """Return the time in UTC; one without a zone is taken as UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def without_at(login: str) -> str:
    """Return a login or `org/team` without the `@` that people write before it."""
    return login.strip().removeprefix("@")


Time = Annotated[datetime, AfterValidator(in_utc)]
Login = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(without_at)]
FilePath = Annotated[str, Field(min_length=1, max_length=4096)]
Count = Annotated[int, Field(ge=0)]


class Value(BaseModel):
    """A frozen value; keys it does not know are left alone, a null stands for "absent"."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def drop_nulls(cls, data: Any) -> Any:
        """Take out the nulls, so that each field falls back to its default."""
        return (
            {key: value for key, value in data.items() if value is not None}
            if isinstance(data, dict)
            else data
        )


class ChangedFile(Value):
    """One changed file; `previous_path` is set for a rename. Lines are counts of the diff."""

    path: FilePath
    previous_path: FilePath | None = None
    status: str = "modified"
    additions: Count = 0
    deletions: Count = 0

    @property
    def lines(self) -> int:
        """Return the number of changed lines."""
        return self.additions + self.deletions


class LinkedIssue(Value):
    """An issue that the pull request closes or names."""

    number: int
    title: str = ""
    labels: tuple[str, ...] = ()
    assignees: tuple[Login, ...] = ()


class PullRequest(Value):
    """What routing and priority look at. `approved_by`: reviews, or an LGTM by someone with write.

    `passed_over`: people who asked to be left out here. `waiting_on` is None where nobody worked it out.
    """

    number: int
    author: Login
    changed_files: tuple[ChangedFile, ...]
    title: str = ""
    body: str = ""
    draft: bool = False
    labels: tuple[str, ...] = ()
    created_at: Time | None = None
    updated_at: Time | None = None
    commits: Count = 0
    mergeable: bool | None = None
    author_association: str = ""
    linked_issues: tuple[LinkedIssue, ...] = ()
    ci: Literal["red", "green", "pending"] | None = None
    already_requested: tuple[Login, ...] = ()
    already_reviewed: tuple[Login, ...] = ()
    approved_by: tuple[Login, ...] = ()
    passed_over: tuple[Login, ...] = ()
    base: str | None = None
    waiting_on: Literal["author", "reviewers"] | None = None


class Person(Value):
    """What is known of someone who may be asked. Absent people can review, are free and have no requests."""

    open_requests: Count = 0
    busy: bool = False
    can_review: bool = True
    bot: bool = False


class Owner(Value):
    """An owner (a login, `org/team` or an e-mail, without `@`) and why they own what changed."""

    login: str
    reasons: tuple[str, ...]


class By(StrEnum):
    """How a file belongs to a module.

    `primary`: primary_code_paths. `exception`: another page hands the file to this one. `page`: it is the
    module's page itself. `validation`: validation_paths. `related`: related_code_paths, which never ask.
    """

    PRIMARY = "primary"
    EXCEPTION = "exception"
    PAGE = "page"
    VALIDATION = "validation"
    RELATED = "related"


class ModuleFile(Value):
    """A changed file as a module sees it."""

    path: str
    by: By


class Module(Value):
    """A module that owns changed files; `weight` is its share of the owned changed lines (0 to 1)."""

    page: str
    weight: float
    files: tuple[ModuleFile, ...] = ()
    title: str = ""
    owners: tuple[str, ...] = ()
    required_reviewers: tuple[str, ...] = ()


class Drift(Value):
    """A path on which the module pages and CODEOWNERS name different people (as written, with `@`)."""

    path: str
    page_owners: tuple[str, ...]
    codeowners: tuple[str, ...]


class Route(Value):
    """Who should look. `ask` are to be asked now; `next_in_line` are asked when someone passes.

    `counted` are the people already asked or already reviewing, `notes` are things a maintainer may want to
    know (overlapping modules, dangling links). `not_asked_because` is None when somebody is asked. `groups`
    are the names under which owners were asked; handed back to `route`, they are not asked for again.
    """

    modules: tuple[Module, ...] = ()
    also_touches: tuple[str, ...] = ()
    owners: tuple[Owner, ...] = ()
    ask: tuple[str, ...] = ()
    not_asked_because: str | None = None
    drift: tuple[Drift, ...] = ()
    unowned_files: tuple[str, ...] = ()
    next_in_line: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    edits_ownership: bool = False
    groups: tuple[str, ...] = ()


class OwnershipChange(Value):
    """What a pull request that edits ownership files does to its own owners: base against head."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]


class Level(StrEnum):
    """How urgent a pull request is."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Reason(Value):
    """One signal and the points it gave."""

    signal: str
    points: int


class Priority(Value):
    """How urgent, the sum of the points, and each signal."""

    level: Level
    score: int
    reasons: tuple[Reason, ...] = ()
