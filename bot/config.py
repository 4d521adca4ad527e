"""`.github/prgate.toml`: what a repository wants, read from its base commit; every fault names its line."""

import difflib
import re
import tomllib
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.actions import Mode
from perf_runner.config import PerfConfig
from perf_runner.protocol import TEST_COMMAND
from routing import toml_text
from routing.config import PriorityConfig, RoutingConfig

CONFIG_PATH = ".github/prgate.toml"
MOST_PROBLEMS = 100
HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]#]+?)\s*\]\]?\s*(?:#.*)?$")
KEY = re.compile(r"^\s*([A-Za-z0-9_\-.\"']+)\s*=")
Path = tuple[str | int, ...]

Login = Annotated[str, Field(pattern=r"^@?[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})$")]
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Label = Annotated[str, Field(min_length=1, max_length=50)]
Context = Annotated[str, Field(min_length=1, max_length=300)]


class Section(BaseModel):
    """A section: unknown keys are refused, so that a misspelt one is not silently without effect."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class BuildkiteConfig(Section):
    """Where the repository's Buildkite pipelines live."""

    organization: Slug
    pipelines: tuple[Slug, ...] = Field(min_length=1, max_length=20)


class SettleConfig(Section):
    """How tests run on a lane, so that a red nobody can explain is run again on merge base and head.

    `command` ends with the tests' ids and prints pytest's short summary. `lock` and `build` are as in
    `[perf]`, and are taken from there where they are not given here. `timeout_s` is for one run of the
    chosen tests.
    """

    command: tuple[str, ...] = Field(default=TEST_COMMAND, min_length=1, max_length=50)
    queue: str = Field(default="runner.cpu", min_length=1, max_length=80)
    repeats: int = Field(default=4, ge=3, le=20)
    timeout_s: float = Field(default=300.0, gt=0, le=7200)
    time_budget_s: float = Field(default=1800.0, gt=0, le=10_800)
    most_tests: int = Field(default=20, ge=1, le=200)
    lock: str | None = Field(default=None, max_length=400)
    build: tuple[str, ...] = Field(default=(), max_length=50)
    build_timeout_s: float = Field(default=1800.0, gt=0, le=7200)
    environment: Mapping[str, str] = Field(default_factory=dict, max_length=50)


class CiConfig(Section):
    """What the red-CI verdict must know.

    `required` names the required status contexts and checks, for repositories whose rules prgate may not
    read. `note` False keeps the CI note out of the thread. Issues with one of `issue_labels` may explain a
    failure that their text shows. `settle_budget_minutes` is lane time that may be spent on a head without
    anybody asking, where its author may write here (0: none).
    """

    note: bool = True
    required: tuple[Context, ...] = Field(default=(), max_length=200)
    buildkite: BuildkiteConfig | None = None
    history_days: int = Field(default=7, ge=1, le=30)
    settle: SettleConfig | None = None
    settle_budget_minutes: int = Field(default=0, ge=0, le=180)
    issue_labels: tuple[Label, ...] = Field(default=("ci-failure", "flaky-test", "flaky"), max_length=10)


class RepoConfig(Section):
    """The whole file.

    `self_review = "before_request"` holds the request for a review until the author wrote a self-review. A
    pull request whose files all match `docs_only` gets routing at most; `opt_out_label` silences everything.
    """

    mode: Mode = Mode.COMMENT
    handles: tuple[Login, ...] = Field(default=(), max_length=10)
    self_review: Literal["off", "ask", "before_request"] = "ask"
    opt_out_label: str = Field(default="no-prgate", min_length=1, max_length=50)
    docs_only: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = Field(
        default=("**/*.md", "**/*.rst", "**/*.txt", "docs/**", "LICENSE*"), max_length=100
    )
    routing: RoutingConfig = RoutingConfig()
    priority: PriorityConfig = PriorityConfig()
    ci: CiConfig = CiConfig()
    perf: PerfConfig = PerfConfig()


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of the file: the line (None: the file as a whole), the key, what is wrong, what to do."""

    line: int | None
    key: str
    says: str
    suggestion: str | None = None

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        what = f"`{self.key}`: {self.says}" if self.key else self.says
        hint = f" (did you mean `{self.suggestion}`?)" if self.suggestion else ""
        return f"{where}{what}{hint}"


class ConfigError(ValueError):
    """The file cannot be used; `problems` holds each fault."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def parse(text: str) -> RepoConfig:
    """Return the configuration; an empty text gives the defaults. ConfigError with every fault found."""
    try:
        table = toml_text.load(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([syntax_problem(error)]) from error
    except toml_text.TomlError as error:
        raise ConfigError([Problem(error.line, "", str(error))]) from error
    try:
        return RepoConfig.model_validate(table)
    except ValidationError as error:
        raise ConfigError(problems(error, text)) from error


def syntax_problem(error: tomllib.TOMLDecodeError) -> Problem:
    """Return TOML's own complaint with its line taken out of the sentence."""
    found = re.search(r"\s*\(at line (\d+), column (\d+)\)$", str(error))
    says = str(error)[: found.start()] if found else str(error)
    return Problem(int(found[1]) if found else None, "", f"not valid TOML: {says}")


def problems(error: ValidationError, text: str) -> list[Problem]:
    """Return the first faults with lines, plain words and a suggestion for a misspelt key."""
    lines = key_lines(text)
    details = error.errors(include_url=False, include_input=False)
    details.sort(key=lambda one: line_of(one["loc"], lines) or 0)
    # Each suggestion costs a comparison with every key that there is.
    found = [problem(one, lines) for one in details[:MOST_PROBLEMS]]
    found.sort(key=lambda one: (one.line or 0, one.key))
    left_out = len(details) - len(found)
    return [*found, Problem(None, "", f"and {left_out} more faults")] if left_out else found


def problem(details: Mapping[str, Any], lines: Mapping[Path, int]) -> Problem:
    """Return one fault."""
    path = tuple(details["loc"])
    key = ".".join(str(part) for part in path)
    if details["type"] != "extra_forbidden":
        says = details["msg"].removeprefix("Value error, ").replace("Tuple should", "List should")
        says = says.removesuffix(" after validation, not 0")
        return Problem(line_of(path, lines), key, says[:1].lower() + says[1:])
    near = difflib.get_close_matches(str(path[-1]), fields_at(path[:-1]), n=1, cutoff=0.6)
    return Problem(line_of(path, lines), key, "no such key", near[0] if near else None)


def line_of(path: Path, lines: Mapping[Path, int]) -> int | None:
    """Return the line of the key, or of the nearest table that holds it."""
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return lines[path[:end]]
    return None


def key_lines(text: str) -> dict[Path, int]:
    """Return the line of each key and table, by its path; array tables are counted from 0."""
    lines: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header = HEADER.match(line)
        if header:
            table = open_table(header[2], header[1] == "[[", counts)
            lines.setdefault(table, number)
        elif key := KEY.match(line):
            lines.setdefault(table + dotted(key[1]), number)
    return lines


def open_table(name: str, is_array: bool, counts: dict[Path, int]) -> Path:
    """Return the path of a table header, with the current index behind each array it passes."""
    path: Path = ()
    parts = dotted(name)
    for index, part in enumerate(parts):
        path = (*path, part)
        if is_array and index == len(parts) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def dotted(name: str) -> tuple[str, ...]:
    """Return the parts of a dotted key without their quotes."""
    return tuple(part.strip().strip("\"'") for part in name.split("."))


def fields_at(path: Path) -> list[str]:
    """Return the keys that are allowed in the table at `path`."""
    model: Any = RepoConfig
    for part in path:
        if isinstance(part, int):
            continue
        field = model.model_fields.get(part) if model is not None else None
        model = nested_model(field.annotation) if field else None
    return list(model.model_fields) if model is not None else []


def nested_model(annotation: Any) -> Any:
    """Return the pydantic model inside an annotation such as `tuple[Model, ...]` or `Model | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in typing.get_args(annotation):
        found = nested_model(inner)
        if found is not None:
            return found
    return None


@lru_cache(maxsize=256)
def parse_cached(blob_sha: str, text: str) -> RepoConfig:
    """Return `parse(text)`, remembered by the blob it came from."""
    return parse(text)


def json_schema() -> dict[str, Any]:
    """Return the JSON schema that editors check `.github/prgate.toml` with."""
    schema = RepoConfig.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": CONFIG_PATH, **schema}
