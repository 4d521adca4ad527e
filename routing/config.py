"""The `[routing]` and `[priority]` sections of `.github/prgate.toml`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Login = Annotated[str, Field(pattern=r"^@?[A-Za-z0-9][A-Za-z0-9_-]{0,99}(?:\[bot\])?$")]
Glob = Annotated[str, Field(min_length=1, max_length=400)]
Label = Annotated[str, Field(min_length=1, max_length=100)]
Points = Annotated[int, Field(ge=-100, le=100)]

# Files that machines write: they own no share of a pull request's size.
GENERATED = (
    "*.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "go.sum",
    "*.min.js",
    "*.min.css",
    "*_pb2.py",
    "*_pb2_grpc.py",
    "*.snap",
    "*.ambr",
    "constraints*.txt",
)
# Words of humans. Case, and blanks against `-`, `_`, `:` and `/`, do not matter, nor does the words' order.
LABEL_POINTS: Mapping[str, int] = MappingProxyType(
    {
        "critical": 80,
        "p0": 80,
        "priority critical": 80,
        "release blocker": 80,
        "high priority": 30,
        "p1": 30,
        "low priority": -30,
        "p3": -30,
        "ci failure": 10,
    }
)


class Section(BaseModel):
    """A section: frozen, and a misspelt key is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RoutingConfig(Section):
    """Whom to ask, and when to ask nobody.

    `ask` people at most (one a module), one more where a module names required reviewers. Over
    `max_candidates` or `max_commits` nobody is asked, nor on a conflict, nor on a base branch outside
    `base_branches` (empty: every branch). `also_below` is the share of changed lines under which a module is
    only named. `max_open_requests` is a person's capacity; None: no limit. `bots` are plain accounts that
    are robots.
    """

    module_pages: str = Field(default="docs/design/module", min_length=1, max_length=400)
    ask: int = Field(default=2, ge=0, le=15)
    max_candidates: int = Field(default=15, ge=1, le=1000)
    max_commits: int = Field(default=100, ge=1, le=100_000)
    also_below: float = Field(default=0.1, ge=0, lt=1)
    max_open_requests: int | None = Field(default=None, ge=1)
    base_branches: tuple[Label, ...] = ()
    bots: tuple[Login, ...] = ()
    never_ask: tuple[Login, ...] = ()
    generated: tuple[Glob, ...] = GENERATED


class PriorityConfig(Section):
    """What each signal is worth, and where the levels begin.

    `labels` are points of labels on the pull request and its linked issues. `sync_labels` keeps a label
    `priority: <level>` on the pull request, `size_labels` one `size/<XS to XXL>`; both are off until asked
    for. Soft signals (all but labels and measurements) count for `soft_limit` together; only a label that
    is worth `critical_from` makes a pull request critical.
    """

    labels: dict[Label, Points] = Field(default_factory=lambda: dict(LABEL_POINTS))
    title_fix: Points = 10
    title_regression: Points = 15
    performance_regression: Points = 30
    main_is_red: Points = 20
    required_reviewers: Points = 10
    first_time_author: Points = 5
    small: Points = 5
    large: Points = -5
    waiting_for_us: Points = 5
    waiting_long: Points = 10
    waiting_for_author: Points = -10
    draft: Points = -20
    ci_green: Points = 5
    ci_red: Points = -5
    soft_limit: int = Field(default=20, ge=0, le=100)
    small_lines: int = Field(default=50, ge=0)
    large_lines: int = Field(default=1000, ge=1)
    waiting_days: int = Field(default=7, ge=1)
    waiting_long_days: int = Field(default=30, ge=1)
    low_below: int = 0
    high_from: int = 30
    critical_from: int = 60
    sync_labels: bool = False
    size_labels: bool = False
    generated: tuple[Glob, ...] = GENERATED
