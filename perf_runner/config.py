"""The `[perf]` section of `.github/prgate.toml`: which cases there are, and which paths call for which."""

from typing import Literal

from pydantic import Field, model_validator

from perf_runner.models import BenchmarkCase, Frozen


class PathRule(Frozen):
    """Changed files that match `glob` (`**` spans folders) call for `cases`."""

    glob: str = Field(min_length=1, max_length=400)
    cases: tuple[str, ...] = Field(min_length=1)


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
    lock: str | None = Field(default=None, max_length=400)
    build: tuple[str, ...] = ()
    build_timeout_s: float = Field(default=1800.0, gt=0)
    cases: tuple[BenchmarkCase, ...] = ()
    paths: tuple[PathRule, ...] = ()

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
        return self
