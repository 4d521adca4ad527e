"""The `[perf]` section of `.github/prgate.toml`: which cases there are, and which paths call for which."""

from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator, model_validator

from perf_runner.models import BenchmarkCase, Frozen


class PathRule(Frozen):
    """Changed files that match `glob` (`**` spans folders) call for `cases`."""

    glob: str = Field(min_length=1, max_length=400)
    cases: tuple[str, ...] = Field(min_length=1)


class NightlyConfig(Frozen):
    """What is measured every night on the default branch's tip, and what is said of it.

    A night is a date in `zone`, and starts at `at`. Its `cases` are measured in `blocks` blocks of the tip
    against itself, which gives the night's value and the noise of this host. `issues` keeps one GitHub issue
    per episode, once an A/B blamed the code or the case failed for `issue_after_days`. `experiments` bounds
    the A/Bs that one night may start.
    """

    cases: tuple[str, ...] = Field(default=(), max_length=100)
    at: str = Field(default="02:00", pattern=r"^(?:[01]\d|2[0-3]):[0-5]\d$")
    zone: str = Field(default="UTC", max_length=64)
    blocks: int = Field(default=4, ge=2, le=20)
    issues: bool = False
    issue_after_days: int = Field(default=3, ge=1, le=30)
    labels: tuple[Annotated[str, Field(min_length=1, max_length=50)], ...] = Field(
        default=("performance",), max_length=10
    )
    experiments: int = Field(default=2, ge=0, le=20)

    @field_validator("zone")
    @classmethod
    def check_zone(cls, value: str) -> str:
        """Refuse a time zone that this host does not know."""
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError):
            raise ValueError(f"no time zone is named {value!r}; one is 'UTC' or 'Europe/Berlin'") from None
        return value


class PerfConfig(Frozen):
    """How a repository wants to be measured.

    `when`: `asked` runs on a maintainer's command only, `paths` also when a path rule matches, `never`
    not at all. `lock` is a file of `name==version` lines: what an arm runs with, installed from wheels only
    (without it, the runner's own Python environment). `build` is a command that builds a revision in its
    sandbox, without network, before it is measured.
    """

    when: Literal["asked", "paths", "never"] = "asked"
    queue: str = Field(default="runner.cpu", max_length=80)
    alpha: float = Field(default=0.03, gt=0, lt=0.5)
    max_blocks: int = Field(default=10, ge=2, le=100)
    time_budget_s: float = Field(default=900.0, gt=0)
    bisect_budget_s: float = Field(default=7200.0, gt=0, le=10_800)
    lock: str | None = Field(default=None, max_length=400)
    build: tuple[str, ...] = ()
    build_timeout_s: float = Field(default=1800.0, gt=0)
    cases: tuple[BenchmarkCase, ...] = ()
    paths: tuple[PathRule, ...] = ()
    nightly: NightlyConfig = NightlyConfig()

    @model_validator(mode="after")
    def check_names(self) -> "PerfConfig":
        """Refuse two cases of one name, and a rule that names a case which is not there."""
        names = [case.name for case in self.cases]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two cases are named {twice[0]!r}")
        unknown = sorted({name for rule in self.paths for name in rule.cases} - set(names))
        if unknown:
            raise ValueError(f"a path rule names the case {unknown[0]!r}, which is not among the cases")
        unknown = sorted(set(self.nightly.cases) - set(names))
        if unknown:
            raise ValueError(f"the nights name the case {unknown[0]!r}, which is not among the cases")
        return self
