"""Everything that may be known about one red pull-request head, as one frozen value.

A snapshot is tolerant of what it reads: unknown keys are ignored, a value that cannot be read becomes None,
and None means "not known", which is never evidence in either direction.
"""

import hashlib
import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

Conclusion = Literal[
    "passed", "failed", "timed_out", "canceled", "broken", "waiting_failed", "not_run", "unknown"
]
CONCLUSIONS = {"passed", "failed", "timed_out", "canceled", "broken", "waiting_failed", "not_run"}
PASSED_WORDS = {"success", "succeeded", "ok", "green"}
FAILED_WORDS = {"failure", "error"}


class SnapshotError(ValueError):
    """A snapshot that cannot be read; the message is one sentence for the person who wrote it."""


def to_text(value: object) -> str:
    """Return text; anything but text is empty."""
    return value if isinstance(value, str) else ""


def to_text_or_none(value: object) -> str | None:
    """Return text, numbers as text; an empty text and anything else is not known."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return str(value)
    return value if isinstance(value, str) and value else None


def to_flag(value: object) -> bool | None:
    """Return a truth value, or None where none was given."""
    return value if isinstance(value, bool) else None


def to_number(value: object) -> int | None:
    """Return a whole number, or None where none was given."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and len(value) < 12 and value.lstrip("-").isdigit():
        return int(value)
    return None


def to_time(value: object) -> datetime | None:
    """Return an aware UTC time; a time that cannot be read is not known."""
    if isinstance(value, datetime):
        parsed = value
    elif isinstance(value, str) and value:
        try:
            parsed = datetime.fromisoformat(value)
        except ValueError:
            return None
    else:
        return None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
    return parsed.astimezone(UTC)


def to_conclusion(value: object) -> str:
    """Return a known conclusion; other providers' words are translated, the rest is `unknown`."""
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in CONCLUSIONS:
        return word
    if word in PASSED_WORDS:
        return "passed"
    if word in FAILED_WORDS:
        return "failed"
    return {"cancelled": "canceled", "skipped": "not_run"}.get(word, "unknown")


def to_list(value: object) -> object:
    """Return a list; None and anything else is empty, and so are entries that are no objects."""
    if not isinstance(value, (list, tuple)):
        return []
    return [item for item in value if isinstance(item, (dict, BaseModel))]


def to_list_or_none(value: object) -> object:
    """Return a list of objects, or None where none was given."""
    return to_list(value) if isinstance(value, (list, tuple)) else None


def to_words(value: object) -> object:
    """Return a list of texts; other entries are dropped."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, (list, tuple)) else []


Text = Annotated[str, BeforeValidator(to_text)]
MaybeText = Annotated[str | None, BeforeValidator(to_text_or_none)]
Flag = Annotated[bool | None, BeforeValidator(to_flag)]
Number = Annotated[int | None, BeforeValidator(to_number)]
Time = Annotated[datetime | None, BeforeValidator(to_time)]


class Frozen(BaseModel):
    """A frozen value that ignores what it does not know."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class SnapshotFile(Frozen):
    """One changed file of a pull request; `patch` is a unified diff of it, where it was read."""

    path: Text = ""
    previous_path: MaybeText = None
    status: Text = "modified"
    additions: Number = None
    deletions: Number = None
    patch: MaybeText = None


class Job(Frozen):
    """One finished job (its latest attempt, unless it stands among the retries)."""

    id: MaybeText = None
    provider: MaybeText = None
    build: MaybeText = None
    name: Text = ""
    step_key: MaybeText = None
    required: Flag = None
    soft_failed: Flag = None
    platform: MaybeText = None
    conclusion: Annotated[Conclusion, BeforeValidator(to_conclusion)] = "unknown"
    exit_status: Number = None
    attempt: Number = None
    agent: MaybeText = None
    started_at: Time = None
    finished_at: Time = None
    url: MaybeText = None
    log: MaybeText = None
    junit: MaybeText = None

    @property
    def key(self) -> str:
        """Return what this attempt is known by wherever it is kept."""
        return hashlib.sha256(f"{self.provider}:{self.build}:{self.id}".encode()).hexdigest()

    @property
    def is_failure(self) -> bool:
        """Say whether this job's failures need a verdict."""
        return self.conclusion in ("failed", "timed_out") and not self.soft_failed

    @property
    def is_cascade(self) -> bool:
        """Say whether this job is red only because something else was."""
        return self.conclusion in ("canceled", "broken", "waiting_failed") and not self.soft_failed

    @property
    def seconds(self) -> float | None:
        """Return how long it ran, in seconds."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()


Jobs = Annotated[tuple[Job, ...], BeforeValidator(to_list)]


class SnapshotPull(Frozen):
    """The pull request and its head."""

    number: Number = None
    title: Text = ""
    body: Text = ""
    author: MaybeText = None
    labels: Annotated[tuple[str, ...], BeforeValidator(to_words)] = ()
    head_sha: MaybeText = None
    head_committed_at: Time = None
    merge_base_sha: MaybeText = None
    merge_base_committed_at: Time = None
    changed_files: Annotated[tuple[SnapshotFile, ...], BeforeValidator(to_list)] = ()
    changed_files_complete: Flag = None


class BaseRun(Frozen):
    """One commit of the base branch, with the jobs that ran on it."""

    sha: MaybeText = None
    branch: MaybeText = None
    committed_at: Time = None
    is_merge_base: Flag = None
    jobs: Jobs = ()


class OtherPull(Frozen):
    """Another pull request that ran the same CI."""

    number: Number = None
    author: MaybeText = None
    head_sha: MaybeText = None
    ran_at: Time = None
    stacked_on_this: Flag = None
    changed_files: Annotated[tuple[SnapshotFile, ...] | None, BeforeValidator(to_list_or_none)] = None
    jobs: Jobs = ()


class KnownIssue(Frozen):
    """An issue that may explain a failure."""

    number: Number = None
    title: Text = ""
    body: Text = ""
    state: Text = ""
    labels: Annotated[tuple[str, ...], BeforeValidator(to_words)] = ()
    created_at: Time = None
    url: MaybeText = None


class JobHistory(Frozen):
    """How a job did on the base branch over some days."""

    name: Text = ""
    window_days: Number = None
    passed: Number = None
    failed: Number = None
    median_seconds: Annotated[float | None, BeforeValidator(lambda value: finite(value))] = None


class SettleRun(Frozen):
    """One test, run again on purpose on the merge base and on the head of one machine.

    The messages are the distinct ones of its failures, as pytest's summary has them; `could_not` says why it
    did not run.
    """

    test: Text = ""
    base_passed: Number = None
    base_failed: Number = None
    head_passed: Number = None
    head_failed: Number = None
    base_messages: Annotated[tuple[str, ...], BeforeValidator(to_words)] = ()
    head_messages: Annotated[tuple[str, ...], BeforeValidator(to_words)] = ()
    could_not: MaybeText = None
    url: MaybeText = None


class Snapshot(Frozen):
    """One red head and all that is known around it."""

    repo: Text = ""
    pr: SnapshotPull = SnapshotPull()
    jobs: Jobs = ()
    base_runs: Annotated[tuple[BaseRun, ...], BeforeValidator(to_list)] = ()
    other_prs: Annotated[tuple[OtherPull, ...], BeforeValidator(to_list)] = ()
    same_commit_runs: Jobs = ()
    known_issues: Annotated[tuple[KnownIssue, ...], BeforeValidator(to_list)] = ()
    job_history: Annotated[tuple[JobHistory, ...], BeforeValidator(to_list)] = ()
    settled: Annotated[tuple[SettleRun, ...], BeforeValidator(to_list)] = Field(default=())


def finite(value: Any) -> float | None:
    """Return a finite number of a plain size, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    number = float(value)
    return number if abs(number) < 1e12 else None


def is_snapshot(value: object) -> bool:
    """Say whether a JSON document looks like a snapshot at all."""
    return isinstance(value, dict) and "schema" in value and "jobs" in value


def parse_snapshot(text: str, where: str = "snapshot") -> Snapshot:
    """Return the snapshot in a JSON text.

    Raises SnapshotError where it is no JSON, no snapshot, or of another schema.
    """
    return snapshot_from(parse_json(text, where), where)


def parse_json(text: str, where: str) -> object:
    """Return a JSON document; a byte-order mark is dropped.

    Raises SnapshotError with line and column.
    """
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise SnapshotError(
            f"{where} is not JSON: {error.msg} at line {error.lineno} column {error.colno}"
        ) from error
    except (RecursionError, ValueError) as error:
        raise SnapshotError(
            f"{where} is not JSON that can be read: nested too deep or a number too long"
        ) from error


def snapshot_from(value: object, where: str = "snapshot") -> Snapshot:
    """Return the snapshot of a decoded JSON document.

    Raises SnapshotError where a key that must be there is not.
    """
    if not isinstance(value, dict):
        raise SnapshotError(f"{where} must be a JSON object with schema, pr and jobs")
    if value.get("schema") != 1:
        raise SnapshotError(f"{where}: schema must be 1, it is {value.get('schema')!r:.40}")
    for key, kind in (("pr", dict), ("jobs", list)):
        if not isinstance(value.get(key), kind):
            word = "an object" if kind is dict else "a list"
            raise SnapshotError(f"{where}: {key} must be {word}")
    try:
        return Snapshot.model_validate(value)
    except (ValidationError, OverflowError) as error:
        raise SnapshotError(f"{where} cannot be read as a snapshot: {str(error).splitlines()[0]}") from error
