"""What the service and the runner lane say to each other over HTTP, and the token that is good for one run.

All carry `Authorization: Bearer …`: `poll` the lane key, the others the run token; 401 where it is wrong.

| request | answer |
|---|---|
| `POST /runner/poll` `PollRequest` | 200 `Offer`, 204 nothing to do |
| `POST /runner/runs/{run_id}/claim` `ClaimRequest` | 200 `RunSpec`, 409 taken or over |
| `POST /runner/runs/{run_id}/beat` `Beat` | 200 `BeatAnswer`, 409 lost |
| `GET /runner/runs/{run_id}/bundle` | 200 a git bundle with the arms' commits |
| `POST /runner/runs/{run_id}/report` `Report` | 204, 409 lost |

Everything a worker sends is untrusted: the models bound its size, the service decides what it believes.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from perf_runner.bisect_run import BisectRecord
from perf_runner.models import Arm, BenchmarkCase, Block, CaseResult, Frozen, Machine
from perf_runner.plan import Progress

POLL_PATH = "/runner/poll"
RUN_PATH = "/runner/runs"
MAX_REPORT_BYTES = 16 * 1024**2
MAX_BEAT_BYTES = 4 * 1024**2
MAX_BUNDLE_BYTES = 2 * 1024**3
RUN_TASK = "perf_runner.ring"
DEFAULT_QUEUES = ("runner.cpu",)
MAX_TEST_ID = 1000
TEST_COMMAND = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
TOKEN_VERSION = "1"  # noqa: S105 - a format's number, no secret

Model = TypeVar("Model", bound=Frozen)
RunId = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
WorkerName = Annotated[str, Field(min_length=1, max_length=200)]


class PollRequest(Frozen):
    """A worker asks for work on its queues."""

    worker: WorkerName
    queues: tuple[Annotated[str, Field(max_length=80)], ...] = Field(min_length=1, max_length=50)
    machine: Machine


class Offer(Frozen):
    """A run that waits, and the token that is good for it alone."""

    run_id: RunId
    token: str = Field(max_length=500)


class ClaimRequest(Frozen):
    """A worker takes a run."""

    worker: WorkerName
    machine: Machine


class Prior(Frozen):
    """The noise of a case on this host class: sd of an A/A block's log ratio, and its degrees of freedom."""

    sd: float = Field(gt=0)
    df: float = Field(default=10.0, gt=0)


def is_test_id(text: str) -> bool:
    """Say whether a text can only be read as the id of one test: a relative path, `::`, and a name.

    An id becomes an argument of the test command, where a dash begins an option and `@` names a file of
    further arguments.
    """
    path, separator, name = text.partition("::")
    inside = not path.startswith(("-", "@", "/", "~")) and ".." not in path.split("/")
    return len(text) <= MAX_TEST_ID and bool(path and separator and name) and inside and text.isprintable()


def require_test_id(text: str) -> str:
    """Return `text` where it is a test's id; ValueError otherwise."""
    if not is_test_id(text):
        raise ValueError("is no id of one test (path::name)")
    return text


class TestSpec(Frozen):
    """Tests to run on both arms: a command that ends with their ids, and how often each arm runs it.

    `lock` and `build` replace those of the base's `[perf]` section; `environment` is added to the sandbox's.
    """

    __test__ = False

    command: tuple[str, ...] = Field(default=TEST_COMMAND, min_length=1)
    test_ids: tuple[Annotated[str, AfterValidator(require_test_id)], ...] = Field(max_length=200)
    repeats: int = Field(default=3, ge=1, le=20)
    timeout_s: float = Field(default=300.0, gt=0)
    lock: str | None = Field(default=None, max_length=400)
    build: tuple[str, ...] = ()
    build_timeout_s: float = Field(default=1800.0, gt=0)
    environment: Mapping[str, str] = Field(default_factory=dict)


class RunSpec(Frozen):
    """Everything that a worker needs to know of one run; the source comes as a bundle.

    `kind`: `experiment` measures `cases`, `tests` runs `tests`, `bisect` searches between the two arms with
    the one case. `arms`: the first is the base, the last the head. `cases` are names in the base's
    configuration, or whole cases. `blocks` are those stored of an earlier attempt, by case name. `margins`
    overrule the case's.
    """

    run_id: RunId
    attempt: int = Field(ge=1)
    kind: Literal["experiment", "tests", "bisect"] = "experiment"
    repo_full_name: str = Field(max_length=200)
    number: int | None = None
    arms: tuple[Arm, ...] = Field(min_length=2, max_length=10)
    cases: tuple[str | BenchmarkCase, ...] = Field(default=(), max_length=100)
    tests: TestSpec | None = None
    lease_s: float = Field(default=60.0, gt=0)
    time_budget_s: float = Field(default=900.0, gt=0)
    blocks: Mapping[str, tuple[Block, ...]] = Field(default_factory=dict)
    priors: Mapping[str, Prior] = Field(default_factory=dict)
    margins: Mapping[str, float] = Field(default_factory=dict)
    alpha: float | None = None
    max_blocks: int | None = None
    allow_unsandboxed: bool = False
    allow_changed_lock: bool = False


class StoredBlock(Frozen):
    """A block as it is kept by the service: which case it belongs to."""

    case: str = Field(max_length=200)
    block: Block


class Beat(Frozen):
    """A sign of life: how far the run is, and the blocks that were measured since the last one."""

    worker: WorkerName
    attempt: int = Field(ge=1)
    progress: Progress | None = None
    blocks: tuple[StoredBlock, ...] = Field(default=(), max_length=200)


class BeatAnswer(Frozen):
    """The service's answer to a beat; `cancel` asks the worker to stop."""

    cancel: bool = False


class TestOutcome(Frozen):
    """One test on one arm: how its runs ended, in their order, and what each that did not pass says."""

    __test__ = False

    test_id: str = Field(max_length=1000)
    arm: str = Field(max_length=100)
    outcomes: tuple[Literal["passed", "failed", "error", "missing"], ...] = Field(max_length=100)
    messages: tuple[Annotated[str, Field(max_length=500)], ...] = Field(default=(), max_length=100)


class Report(Frozen):
    """How a run ended. `handed_back`: this worker stops, another one shall take the run over."""

    worker: WorkerName
    attempt: int = Field(ge=1)
    outcome: Literal["done", "failed", "canceled", "handed_back"]
    results: tuple[CaseResult, ...] = Field(default=(), max_length=100)
    tests: tuple[TestOutcome, ...] = Field(default=(), max_length=2000)
    bisect: BisectRecord | None = None
    machine: Machine | None = None
    error: str | None = Field(default=None, max_length=2000)


class TokenError(ValueError):
    """A run token that is malformed, signed by somebody else, for another run, or expired."""


class RunToken(Frozen):
    """What a valid token says: which run, which attempt, until when."""

    run_id: RunId
    attempt: int
    expires_at: datetime


def make_token(key: str, run_id: str, attempt: int, expires_at: datetime) -> str:
    """Return the token of one attempt of one run: `1.run.attempt.expiry.signature`, safe in a header."""
    expiry_s = int(expires_at.timestamp())
    body = f"{TOKEN_VERSION}.{run_id}.{attempt}.{expiry_s}"
    return f"{body}.{signature(key, body)}"


def verify_token(key: str, token: str, now: datetime) -> RunToken:
    """Return what a token says; TokenError unless `key` signed it and `now` is before its expiry."""
    body, _, signed = token.rpartition(".")
    parts = body.split(".")
    if len(parts) != 4 or parts[0] != TOKEN_VERSION:
        raise TokenError("this is no run token")
    if not hmac.compare_digest(signature(key, body).encode(), signed.encode()):
        raise TokenError("the run token's signature is wrong")
    attempt, expiry_s = int(parts[2]), int(parts[3])
    if now.timestamp() >= expiry_s:
        raise TokenError("the run token has expired")
    return RunToken(run_id=parts[1], attempt=attempt, expires_at=datetime.fromtimestamp(expiry_s, UTC))


def signature(key: str, body: str) -> str:
    """Return the HMAC-SHA256 of a token's body as URL-safe text without padding."""
    if not key:
        raise ValueError("the service key is empty: set PRGATE_SERVICE_KEY")
    digest = hmac.new(key.encode(), b"prgate run token\0" + body.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def parse_report(body: bytes) -> Report:
    """Return a worker's report; ValueError for one that is too large or of another shape."""
    return bounded(Report, body, MAX_REPORT_BYTES)


def parse_beat(body: bytes) -> Beat:
    """Return a worker's beat; ValueError for one that is too large or of another shape."""
    return bounded(Beat, body, MAX_BEAT_BYTES)


def bounded(model: type[Model], body: bytes, limit: int) -> Model:
    """Return `body` as `model`; ValueError above `limit` bytes, for no JSON, NaN, or another shape."""
    if len(body) > limit:
        raise ValueError(f"the body is larger than {limit // 1024} KiB")
    try:
        value = json.loads(body, parse_constant=refuse_constant)
        return model.model_validate(value)
    except RecursionError:
        raise ValueError("the body is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("the body is no UTF-8") from None
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise ValueError(f"{place}: {problem['msg']}") from None


def refuse_constant(name: str) -> float:
    """Refuse NaN and the infinities, which are no JSON."""
    raise ValueError(f"{name} is no number")
