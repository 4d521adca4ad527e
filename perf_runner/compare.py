"""Two result files of vllm-omni's schema side by side: per case and metric, improvement-positive.

Numbers only: two files rarely come from one host in turns, so nothing here is called a regression.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perf_runner.history.metrics import direction, improvement_pct
from perf_runner.models import Comparison, ComparisonRow
from perf_runner.reading import InputError, parse_json

RECORDS_LIMIT = 5_000
NO_WORK_KEYS = frozenset(
    {"baseline", "name", "warmup-requests", "warmup-num-inference-steps", "warmup-concurrency"}
)
STAGES = ("stage_durations_mean", "stage_durations_p50")
SKIPPED = frozenset({"duration", "completed_requests", "failed_requests"})


@dataclass(frozen=True)
class Record:
    """One case of a result file: what was asked for, and its finite metrics."""

    test: str
    config: str
    work: Mapping[str, Any]
    metrics: Mapping[str, float] = field(default_factory=dict)
    baseline: Mapping[str, Any] = field(default_factory=dict)
    timestamp: str = ""
    commit: str = ""
    hardware: str = ""
    model: str = ""
    requests: int | None = None
    gpus: tuple[Mapping[str, Any], ...] = ()


def parse_results(text: str, where: str) -> dict[tuple[str, str], Record]:
    """Return the records of a result file by test and config.

    InputError for anything that is no measurement: empty, truncated, zeros, NaN, failed or missing requests.
    """
    document = parse_json(text, where)
    entries = document if isinstance(document, list) else [document]
    if not entries:
        raise InputError(f"{where}: holds no record")
    if len(entries) > RECORDS_LIMIT:
        raise InputError(f"{where}: {len(entries)} records; {RECORDS_LIMIT} are the limit")
    found: dict[tuple[str, str], Record] = {}
    for number, entry in enumerate(entries, start=1):
        record = read_record(entry, f"{where}, record {number}")
        key = (record.test, record.config)
        if key in found:
            raise InputError(f"{where}, record {number}: {record.test} {record.config} is there twice")
        found[key] = record
    return found


def read_record(entry: Any, place: str) -> Record:
    """Return one record; InputError where it is none or measured nothing."""
    if not isinstance(entry, dict) or not isinstance(entry.get("result"), dict):
        raise InputError(f"{place}: no record of a benchmark result (an object with 'result')")
    params = entry.get("benchmark_params")
    params = params if isinstance(params, dict) else {}
    result = entry["result"]
    test = text_of(entry.get("test_name"))
    if not test:
        raise InputError(f"{place}: has no test_name; the client crashed and left its template")
    check_requests(result, params, f"{place} ({test})")
    metrics = dict(finite_metrics(result, f"{place} ({test})"))
    if not metrics:
        raise InputError(f"{place} ({test}): holds no metric")
    server = entry.get("server_params")
    model = server.get("model") if isinstance(server, dict) else None
    work = {str(key): value for key, value in params.items() if key not in NO_WORK_KEYS} | {"model": model}
    baseline = entry.get("baseline") or params.get("baseline")
    return Record(
        test=test,
        config=config_of(params),
        work=work,
        metrics=metrics,
        baseline=baseline if isinstance(baseline, dict) else {},
        timestamp=text_of(entry.get("timestamp")),
        commit=text_of(entry.get("commit_sha")),
        hardware=text_of(entry.get("Hardware")),
        model=text_of(model),
        requests=result.get("completed_requests"),
        gpus=gpus_of(entry.get("gpu_telemetry")),
    )


def gpus_of(telemetry: Any) -> tuple[Mapping[str, Any], ...]:
    """Return the telemetry of each GPU: a list of objects, objects by GPU, or one object; at most 64."""
    if isinstance(telemetry, dict):
        inner = telemetry.get("gpus", telemetry)
        values = inner if isinstance(inner, list) else list(inner.values()) if isinstance(inner, dict) else []
        found = [one for one in values if isinstance(one, dict)] or [telemetry]
    else:
        found = [one for one in telemetry if isinstance(one, dict)] if isinstance(telemetry, list) else []
    return tuple(found[:64])


def text_of(value: Any) -> str:
    """Return a short text; '' for anything else."""
    return value[:300] if isinstance(value, str) else ""


def config_of(params: Mapping[str, Any]) -> str:
    """Return a case's config as nightly reports print it."""
    names = (("bench", "name"), ("data", "dataset"), ("c", "max-concurrency"), ("rate", "request-rate"))
    parts = [f"{short}={params[key]}" for short, key in names if params.get(key) not in (None, "")]
    return ", ".join([*parts, f"n={params['num-prompts']}"] if params.get("num-prompts") else parts)[:300]


def check_requests(result: Mapping[str, Any], params: Mapping[str, Any], place: str) -> None:
    """Refuse a run whose requests were not all answered."""
    completed, failed = result.get("completed_requests", 0), result.get("failed_requests", 0)
    asked = params.get("num-prompts")
    if not is_count(completed) or completed < 1:
        raise InputError(f"{place}: no request was completed; these zeros are no measurement")
    if failed not in (0, None):
        raise InputError(f"{place}: {failed} requests failed; measure again")
    if is_count(asked) and completed != asked:
        raise InputError(f"{place}: {completed} of {asked} requests were completed; measure again")


def is_count(value: Any) -> bool:
    """Say whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def finite_metrics(result: Mapping[str, Any], place: str) -> list[tuple[str, float]]:
    """Return name and value of every metric, stages as `mean.<stage>`; InputError where one is none."""
    flat = [(str(name), value) for name, value in result.items() if str(name) not in SKIPPED]
    for stages in STAGES:
        inside = result.get(stages)
        if isinstance(inside, dict):
            flat += [
                (f"{stages.removeprefix('stage_durations_')}.{name}", value) for name, value in inside.items()
            ]
    found = []
    for name, value in flat:
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if not math.isfinite(value) or value < 0 or (value == 0 and is_speed(name)):
            raise InputError(f"{place}: {name} is {value}, which is no measurement")
        if value > 0:
            found.append((name, float(value)))
    return found


def is_speed(name: str) -> bool:
    """Say whether a metric can never be 0 (peak memory was, in old files)."""
    return name.startswith(("latency", "throughput"))


def compare(base: Mapping[tuple[str, str], Record], head: Mapping[tuple[str, str], Record]) -> Comparison:
    """Return the rows that both files have; cases of unequal work are named and left out.

    InputError where no case is in both, or none did the same work.
    """
    common = [key for key in base if key in head]
    unequal = [f"{' '.join(key).strip()}: only in one file" for key in {**base, **head} if key not in common]
    rows: list[ComparisonRow] = []
    for key in common:
        different = work_differences(base[key].work, head[key].work)
        if different:
            unequal.append(f"{' '.join(key).strip()}: {different}")
        else:
            rows += metric_rows(base[key], head[key])
    if not rows:
        raise InputError("the two files hold no case of the same work: " + "; ".join(unequal[:4])[:400])
    return Comparison(rows=tuple(rows), unequal_work=tuple(unequal))


def work_differences(base: Mapping[str, Any], head: Mapping[str, Any]) -> str:
    """Return which keys of the work differ, in words; '' for none."""
    keys = sorted(key for key in base.keys() | head.keys() if base.get(key) != head.get(key))
    return ", ".join(f"{key} {str(base.get(key))[:40]} against {str(head.get(key))[:40]}" for key in keys[:5])


def metric_rows(base: Record, head: Record) -> Sequence[ComparisonRow]:
    """Return the metrics of one case whose direction is known."""
    rows = []
    for metric in base.metrics:
        way = direction(metric) or ("lower" if "." in metric else None)
        if way is None or metric not in head.metrics:
            continue
        change = improvement_pct(base.metrics[metric], head.metrics[metric], way)
        rows.append(
            ComparisonRow(
                test=base.test,
                config=base.config,
                metric=metric,
                base=base.metrics[metric],
                head=head.metrics[metric],
                improvement_pct=round(change, 2) + 0.0,
            )
        )
    return rows
