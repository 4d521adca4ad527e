"""The map from paths to cases for a repository that is laid out as vllm-omni and names neither.

Its cases are its own suites, read from the base commit; the map is `suites/vllm_omni_paths.json`. A rule
names cases as `test/name` with `*`, since one name stands in several tests there.
"""

import fnmatch
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from pydantic import Field

from perf_runner.cases import CaseError, parse_suite
from perf_runner.config import PathRule, PerfConfig
from perf_runner.models import BenchmarkCase, Frozen

MAP = Path(__file__).with_name("suites") / "vllm_omni_paths.json"
MOST_CASES = 300


class DefaultMap(Frozen):
    """Where the suites lie (a folder of JSON files), and which paths call for which of their cases."""

    suites: str
    rules: tuple[PathRule, ...] = Field(min_length=1)


@lru_cache(maxsize=1)
def default_map() -> DefaultMap:
    """Return the map that is shipped."""
    return DefaultMap.model_validate(json.loads(MAP.read_text(encoding="utf-8")))


def with_default_cases(config: PerfConfig, suites: Mapping[str, str]) -> PerfConfig:
    """Return a configuration without cases of its own filled up from suite files (name -> text).

    A suite that cannot be read is left out: it belongs to the repository, and its own tests say so.
    """
    if config.cases or not suites:
        return config
    cases = named_apart(read_all(suites))[:MOST_CASES]
    rules = config.paths or rules_for(cases)
    return config.model_copy(update={"cases": tuple(cases), "paths": tuple(rules)})


def read_all(suites: Mapping[str, str]) -> list[BenchmarkCase]:
    """Return the cases of every suite that can be read, in the order of the files' names."""
    found: list[BenchmarkCase] = []
    for name, text in sorted(suites.items()):
        try:
            found += [entry.case for entry in parse_suite(text, name, reader(suites))]
        except CaseError:
            continue
    return found


def reader(suites: Mapping[str, str]) -> Callable[[str], str]:
    """Return what reads a `$ref` among the same files."""

    def read(name: str) -> str:
        if name not in suites:
            raise CaseError(f"$ref {name[:100]!r} is not among the suites")
        return suites[name]

    return read


def named_apart(cases: Sequence[BenchmarkCase]) -> list[BenchmarkCase]:
    """Return cases of which no two have one name: where a name stands twice, its test goes before it."""
    times = Counter(case.name for case in cases)
    apart = [
        case
        if times[case.name] == 1
        else case.model_copy(update={"name": f"{case.test_name}/{case.name}"[:200]})
        for case in cases
    ]
    return list({case.name: case for case in reversed(apart)}.values())[::-1]


def rules_for(cases: Sequence[BenchmarkCase]) -> list[PathRule]:
    """Return the map's rules with the cases that are there; a rule without any is left out."""
    found = []
    for rule in default_map().rules:
        names = tuple(case.name for case in cases if any(is_named(case, pattern) for pattern in rule.cases))
        if names:
            found.append(PathRule(glob=rule.glob, cases=names))
    return found


def is_named(case: BenchmarkCase, pattern: str) -> bool:
    """Say whether a pattern `test/name` names a case."""
    name = case.name.removeprefix(f"{case.test_name}/")
    return fnmatch.fnmatchcase(f"{case.test_name}/{name}", pattern)
