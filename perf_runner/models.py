"""The values that the runner measures, decides on and reports: all frozen, in seconds unless named."""

import math
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def require_positive(value: float) -> float:
    """Return `value` when it is finite and above 0; ValueError otherwise."""
    if not math.isfinite(value) or value <= 0:
        raise ValueError("must be a finite number above 0")
    return value


PositiveSeconds = Annotated[float, AfterValidator(require_positive)]


class Frozen(BaseModel):
    """A value: never changed after it was made; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class TargetKind(StrEnum):
    """How one sample of a case is taken.

    `command`: a process per run, which prints one result document and ends.
    `session`: a process per arm and block. It prints `{"ready": true}` once it is warm, then answers each
    line `{"run": n}` on its standard input with one result document on one line; end of input ends it.
    """

    COMMAND = "command"
    SESSION = "session"
    OPERATOR = "operator"
    QWEN_IMAGE_DIT = "qwen_image_dit"
    SERVING = "serving"


class BenchmarkCase(Frozen):
    """One workload, how a run of it is taken, and what its gate is told.

    `harness` names the paths that come from the base commit for both arms. `workload` is the identity of the
    work (size, steps, seed, dtype); both arms must report the same. `process`: `block` keeps an arm's process
    for both its runs of a block, `run` starts one for each run and lets no other arm's live beside it.
    """

    name: str = Field(min_length=1, max_length=200)
    test_name: str = Field(default="", max_length=200)
    target: TargetKind = TargetKind.COMMAND
    command: tuple[str, ...] = ()
    harness: tuple[str, ...] = ()
    environment: Mapping[str, str] = Field(default_factory=dict)
    workload: Mapping[str, Any] = Field(default_factory=dict)
    metric: str = "latency_median"
    requests: int = Field(default=1, ge=1, le=10_000)
    warmup_requests: int = Field(default=1, ge=0, le=1_000)
    timeout_s: float = Field(default=120.0, gt=0)
    process: Literal["block", "run"] = "block"
    margin: float | None = Field(default=None, gt=0, lt=1)
    prior_sd: float | None = Field(default=None, gt=0)
    prior_df: float = Field(default=10.0, gt=0)


class Sample(Frozen):
    """One run of one arm: `seconds` is the median latency of its requests, `latencies_s` are all of them."""

    seconds: PositiveSeconds
    latencies_s: tuple[PositiveSeconds, ...] = ()
    requested: int = Field(default=1, ge=1)
    completed: int = Field(default=1, ge=0)
    stages_s: Mapping[str, float] = Field(default_factory=dict)
    path_log: Mapping[str, int] = Field(default_factory=dict)
    workload: Mapping[str, Any] = Field(default_factory=dict)
    output_hash: str | None = None
    peak_memory_mb: float | None = None
    started_at: datetime | None = None
    problems: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Say whether the run may be counted: complete, and nothing was found wrong with it."""
        return self.completed == self.requested and not self.problems


class Block(Frozen):
    """One round of interleaved runs on one host: arm name -> its samples, and the order they ran in."""

    arms: Mapping[str, tuple[Sample, ...]]
    order: tuple[str, ...] = ()
    number: int = Field(default=0, ge=0)
    started_at: datetime | None = None

    def seconds(self, arm: str) -> tuple[float, ...]:
        """Return the values of one arm's runs; KeyError for an arm that did not run."""
        return tuple(sample.seconds for sample in self.arms[arm])


class Machine(Frozen):
    """Where it was measured. Equal `host_class` means: priors and baselines may be shared."""

    host_class: str
    cpu_model: str = ""
    cpu_cores: int = 0
    memory_gb: float = 0.0
    gpu_name: str | None = None
    gpu_count: int = 0
    gpu_driver: str | None = None
    operating_system: str = ""
    versions: Mapping[str, str] = Field(default_factory=dict)
    governor: str | None = None
    load_1m: float | None = None
    noise_probe_pct: float | None = None
    notes: tuple[str, ...] = ()


class Outcome(StrEnum):
    """What the gate says of head against base."""

    REGRESSION = "regression"
    NO_REGRESSION = "no_regression"
    INCONCLUSIVE = "inconclusive"


class Decision(Frozen):
    """The gate's answer. Percentages are of the base's time: above 0 means that head is slower.

    `low_pct` and `high_pct` bound the change by a sequence that is valid at every look; they are None while
    no block was accepted.
    """

    decision: Outcome
    why: str
    change_pct: float | None
    low_pct: float | None
    high_pct: float | None
    margin_pct: float
    alpha: float
    blocks_used: int
    blocks_vetoed: int
    runs_used: int
    improved: bool


class Recovery(Frozen):
    """How much of a regression a fix took back: shares in per cent, the residual against the parent."""

    recovered_pct: float
    recovered_low_pct: float
    recovered_high_pct: float
    residual_pct: float
    residual_low_pct: float
    residual_high_pct: float


class Arm(Frozen):
    """One revision of an experiment."""

    name: str
    sha: str
    label: str = ""


class CaseResult(Frozen):
    """One case of an experiment: its raw blocks, its decision, and what a reader must know about both."""

    case: BenchmarkCase
    arms: tuple[Arm, ...]
    blocks: tuple[Block, ...] = ()
    decision: Decision | None = None
    recovery: Recovery | None = None
    machine: Machine | None = None
    notes: tuple[str, ...] = ()
    error: str | None = None
    wall_s: float = 0.0


class ComparisonRow(Frozen):
    """One metric of one case in two results; `improvement_pct` above 0 is better in either direction."""

    test: str
    config: str
    metric: str
    base: float
    head: float
    improvement_pct: float


class Comparison(Frozen):
    """Two result files side by side; `unequal_work` says which cases did not do the same work."""

    rows: tuple[ComparisonRow, ...]
    unequal_work: tuple[str, ...] = ()


Direction = Literal["lower", "higher"]
