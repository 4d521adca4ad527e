"""Cases from `.github/prgate.toml` or a suite in vllm-omni's own benchmark schema; pure but for `load_*`.

A suite is a JSON list of tests; each names a server and a list of `benchmark_params` (or `{"$ref": file}`).
A parameter that is a list is a sweep: all lists of one entry are read side by side, position by position.
"""

import fnmatch
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from perf_runner.config import PerfConfig
from perf_runner.models import BenchmarkCase, Frozen, TargetKind

CONFIG_PATH = ".github/prgate.toml"
CONFIG_LIMIT = 256_000
DOTS_LIMIT = 300  # a dotted key costs the square of its parts
SWEPT = ("max-concurrency", "request-rate", "num-prompts")
NO_WORK = frozenset({"name", "baseline", "num-prompts", "warmup-requests", "warmup-concurrency"})
DEFAULT_WARMUP_REQUESTS = 1
SUITE_TIMEOUT_S = 1200.0
MAX_CASES = 1000
Reader = Callable[[str], str]


class CaseError(ValueError):
    """A case, suite or configuration that cannot be read; the message says where and why."""


class SuiteCase(Frozen):
    """One point of a suite: the case, the hardware it is meant for, and the baseline of each hardware."""

    case: BenchmarkCase
    description: str = ""
    hardware: Mapping[str, str] = {}
    cards: int = 1
    baseline: Mapping[str, Mapping[str, float]] = {}


def parse_config(text: str) -> PerfConfig:
    """Return the `[perf]` section of `.github/prgate.toml`; CaseError says what is wrong in it."""
    if len(text) > CONFIG_LIMIT or max(line.count(".") for line in text.split("\n")) > DOTS_LIMIT:
        raise CaseError(f"{CONFIG_PATH} is over {CONFIG_LIMIT:,} characters or {DOTS_LIMIT} dots in a line")
    try:
        section = tomllib.loads(text.removeprefix("\ufeff")).get("perf", {})
    except (ValueError, RecursionError) as error:
        raise CaseError(f"{CONFIG_PATH} is no TOML: {str(error)[:200]}") from None
    try:
        return PerfConfig.model_validate(section)
    except ValidationError as error:
        raise CaseError(f"{CONFIG_PATH}, [perf]: {first_problem(error)}") from None


def first_problem(error: ValidationError) -> str:
    """Return the first problem of a failed validation as `place: message`."""
    problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"])
    return f"{place}: {problem['msg']}" if place else problem["msg"]


def find_case(cases: Iterable[BenchmarkCase], name: str) -> BenchmarkCase:
    """Return the case of that name (or `test/name`); CaseError lists the names there are."""
    known = list(cases)
    for case in known:
        if name in (case.name, f"{case.test_name}/{case.name}"):
            return case
    names = ", ".join(case.name for case in known[:20]) or "none"
    raise CaseError(f"no case is named {name[:100]!r}; there are: {names}")


def cases_for_paths(config: PerfConfig, paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the cases that changed files call for: case name -> the globs that matched."""
    changed = list(paths)
    wanted: dict[str, list[str]] = {}
    for rule in config.paths:
        if any(matches(rule.glob, path) for path in changed):
            for name in rule.cases:
                wanted.setdefault(name, []).append(rule.glob)
    return {name: tuple(globs) for name, globs in wanted.items()}


def matches(glob: str, path: str) -> bool:
    """Say whether a path matches a glob: `*` stays inside a folder, `**` spans any number of them.

    Linear in both lengths (a table over segments), whatever the pattern.
    """
    pattern, segments = glob.strip("/").split("/"), path.strip("/").split("/")
    reached = [True] + [False] * len(segments)
    for part in pattern:
        following = [part == "**" and reached[0]]
        for position, segment in enumerate(segments):
            if part == "**":
                following.append(following[position] or reached[position + 1])
            else:
                following.append(reached[position] and fnmatch.fnmatchcase(segment, part))
        reached = following
    return reached[-1]


def load_cases(source: str) -> tuple[BenchmarkCase, ...]:
    """Return the cases of a file: a suite (`.json`) or a configuration (`.toml`)."""
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise CaseError(f"{source} cannot be read: {error.strerror}") from None
    if path.suffix == ".toml":
        return parse_config(text).cases
    return tuple(entry.case for entry in parse_suite(text, path.name, reader_beside(path.parent)))


def load_suite(path: Path) -> tuple[SuiteCase, ...]:
    """Return the cases of a suite file, with their baselines."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    return parse_suite(text, path.name, reader_beside(path.parent))


def reader_beside(folder: Path) -> Reader:
    """Return a reader of the files that a suite refers to, which must lie in its own folder."""

    def read(name: str) -> str:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise CaseError(f"$ref {name[:100]!r} leaves the suite's folder")
        try:
            return path.read_text(encoding="utf-8-sig", errors="replace")
        except OSError as error:
            raise CaseError(f"$ref {name[:100]!r} cannot be read: {error.strerror}") from None

    return read


def parse_suite(text: str, name: str, read: Reader) -> tuple[SuiteCase, ...]:
    """Return every point of a suite in its order; CaseError names the test that cannot be read."""
    tests = parse_list(text, name)
    found: list[SuiteCase] = []
    for number, test in enumerate(tests, 1):
        if not isinstance(test, dict):
            raise CaseError(f"{name}: entry {number} is no JSON object")
        try:
            found += read_test(test, read)
        except (ValidationError, TypeError, ValueError, AttributeError, LookupError) as error:
            said = first_problem(error) if isinstance(error, ValidationError) else str(error)
            raise CaseError(f"{name}: test {test.get('test_name', number)!r}: {said}") from None
    if len(found) > MAX_CASES:
        raise CaseError(f"{name}: {len(found)} cases; {MAX_CASES} are the most")
    return tuple(found)


def parse_list(text: str, name: str) -> list[Any]:
    """Return the JSON list of a file; CaseError for anything else."""
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise CaseError(f"{name} is no JSON: {error}") from None
    if not isinstance(value, list):
        raise CaseError(f"{name} must be a JSON list")
    return value


def read_test(test: Mapping[str, Any], read: Reader) -> list[SuiteCase]:
    """Return the points of one test."""
    entries = test.get("benchmark_params", [])
    if isinstance(entries, dict) and "$ref" in entries:
        entries = parse_list(read(str(entries["$ref"])), str(entries["$ref"]))
    if not isinstance(entries, list) or not entries:
        raise CaseError("benchmark_params must be a list with at least one entry")
    return [point for entry in entries for point in read_entry(test, entry)]


def read_entry(test: Mapping[str, Any], entry: Mapping[str, Any]) -> list[SuiteCase]:
    """Return one point per step of the entry's sweep, or its one point."""
    steps = sweep_length(entry)
    hardware, cards = read_hardware(test.get("mark", []))
    return [
        SuiteCase(
            case=read_point(test, at_step(entry, step), step if steps > 1 else None),
            description=str(test.get("description", "")),
            hardware=hardware,
            cards=cards,
            baseline=read_baseline(entry.get("baseline", {}), step),
        )
        for step in range(steps)
    ]


def sweep_length(entry: Mapping[str, Any]) -> int:
    """Return the number of steps of an entry; CaseError where its lists differ in length."""
    lengths = {len(entry[key]) for key in SWEPT if isinstance(entry.get(key), list)}
    if len(lengths) > 1 or 0 in lengths:
        raise CaseError(f"{entry.get('name')}: the lists of a sweep must have one length")
    return lengths.pop() if lengths else 1


def at_step(entry: Mapping[str, Any], step: int) -> dict[str, Any]:
    """Return an entry with the values of one step of its sweep."""
    return {
        key: value[step] if key in SWEPT and isinstance(value, list) else value
        for key, value in entry.items()
    }


def read_point(test: Mapping[str, Any], entry: Mapping[str, Any], step: int | None) -> BenchmarkCase:
    """Return the case of one point: its workload is all that says what work is done."""
    if not entry.get("name"):
        raise CaseError("an entry of benchmark_params has no name")
    name = str(entry["name"])
    if step is not None:
        by = "max-concurrency" if "max-concurrency" in entry else "request-rate"
        name = f"{name}_{'c' if by == 'max-concurrency' else 'r'}{entry.get(by, step)}"
    server = test.get("server_params", {})
    workload = {key: value for key, value in entry.items() if key not in NO_WORK}
    workload |= {"model": server.get("model", ""), "serve_args": server.get("serve_args", {})}
    return BenchmarkCase(
        name=name,
        test_name=str(test.get("test_name", "")),
        target=TargetKind.SERVING,
        command=server_command(server),
        workload=workload,
        requests=int(entry.get("num-prompts", 1)),
        warmup_requests=int(entry.get("warmup-requests", DEFAULT_WARMUP_REQUESTS)),
        timeout_s=SUITE_TIMEOUT_S,
    )


def server_command(server: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the command that starts the server: `true` is a bare flag, a dictionary is compact JSON.

    Empty where an argument is written inline as a file (`…-inline`): that server cannot be started from here.
    """
    arguments = server.get("serve_args", {})
    if not server.get("model") or any(key.endswith("-inline") for key in arguments):
        return ()
    command = ["vllm", "serve", str(server["model"]), "--omni", "--port", "{port}"]
    for key, value in arguments.items():
        if value is False or value is None:
            continue
        command.append(f"--{key}")
        if value is not True:
            command.append(
                json.dumps(value, separators=(",", ":")) if isinstance(value, dict) else str(value)
            )
    return tuple(command)


def read_hardware(marks: Sequence[Any]) -> tuple[dict[str, str], int]:
    """Return what a test is meant to run on: backend -> hardware label, and how many cards."""
    for mark in marks:
        found = mark.get("hardware_marks") if isinstance(mark, dict) else None
        if isinstance(found, dict):
            resources = {str(key): str(value) for key, value in dict(found.get("res", {})).items()}
            cards = found.get("num_cards", 1)
            most = max(cards.values(), default=1) if isinstance(cards, dict) else cards
            return resources, int(most)
    return {}, 1


def read_baseline(value: Mapping[str, Any], step: int) -> dict[str, dict[str, float]]:
    """Return the baseline of one step: hardware -> metric -> value; the old flat form stands under `""`."""
    nested = value if any(isinstance(item, dict) for item in value.values()) else {"": value}
    return {
        str(hardware): {str(name): number_at(number, step) for name, number in metrics.items()}
        for hardware, metrics in nested.items()
        if isinstance(metrics, dict) and metrics
    }


def number_at(value: Any, step: int) -> float:
    """Return a scalar, or the value of a list at one step of the sweep."""
    return float(value[step] if isinstance(value, list) else value)
