"""What a benchmark printed -> a Sample. The text is a stranger's: sized, parsed, checked, and never trusted.

Two forms of a result document are read. The runner's own: `{"latencies_s": [...], "requested": n,
"completed": n, "workload": {...}, "path_log": {...}, "stages_s": {...}, "output_hash": "...",
"peak_memory_mb": x}`, of which only `latencies_s` is required; and a record of vllm-omni's benchmark results
(or a list of one).
"""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from perf_runner.models import BenchmarkCase, Sample

MAX_DOCUMENT_BYTES = 1024**2
MAX_LATENCIES = 100_000
MAX_ENTRIES = 200
MAX_TEXT = 500


class ResultError(ValueError):
    """A result that is no measurement; the message says why."""


def last_document(output: bytes) -> Mapping[str, Any]:
    """Return the result document at the end of a command's output: the whole of it, or its last JSON line."""
    if len(output) > MAX_DOCUMENT_BYTES:
        raise ResultError(f"the output is larger than {MAX_DOCUMENT_BYTES // 1024} KiB")
    text = output.decode("utf-8-sig", errors="replace").strip()
    if not text:
        raise ResultError("the benchmark printed nothing")
    for candidate in (text, *reversed(text.splitlines()[-50:])):
        if candidate.strip().startswith(("{", "[")):
            try:
                return one_record(parse_json(candidate))
            except json.JSONDecodeError:
                continue
    raise ResultError("the benchmark printed no JSON document")


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; JSONDecodeError for anything else, ResultError for NaN."""

    def refuse(constant: str) -> float:
        raise ResultError(f"the result holds {constant}, which is no measurement")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise ResultError("the result is nested too deeply") from None


def one_record(value: Any) -> Mapping[str, Any]:
    """Return the one record that a document holds; ResultError for none or several."""
    if isinstance(value, list):
        if len(value) != 1:
            raise ResultError(f"the result holds {len(value)} records; one run is one record")
        value = value[0]
    if not isinstance(value, dict):
        raise ResultError("the result is no JSON object")
    return value


def parse_sample(
    document: Mapping[str, Any], case: BenchmarkCase, started_at: datetime | None = None
) -> Sample:
    """Return the run that a document reports; ResultError for what cannot count as one."""
    if error := document.get("error"):
        raise ResultError(f"the benchmark reports an error: {one_line(error)}")
    flat = flatten(document)
    latencies = read_latencies(flat.get("latencies_s"))
    requested, completed = read_counts(flat, len(latencies), case)
    if completed != requested:
        raise ResultError(f"{completed} of {requested} requests were completed")
    seconds = statistics.median(latencies) if latencies else read_metric(flat, case.metric)
    try:
        return Sample(
            seconds=seconds,
            latencies_s=tuple(latencies),
            requested=requested,
            completed=completed,
            stages_s=read_numbers(flat.get("stages_s") or flat.get("stage_durations_mean")),
            path_log={name: int(value) for name, value in read_numbers(flat.get("path_log")).items()},
            workload=read_workload(flat.get("workload") or flat.get("benchmark_params")),
            output_hash=read_text(flat.get("output_hash")),
            peak_memory_mb=read_optional(flat.get("peak_memory_mb") or flat.get("peak_memory_mb_max")),
            started_at=started_at,
        )
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ResultError(f"the result's {place or 'record'} is wrong: {first['msg']}") from None


def flatten(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the fields of its inner `result`, as vllm-omni nests them, beside the others."""
    inner = document.get("result")
    return {**document, **inner} if isinstance(inner, dict) else dict(document)


def one_line(value: object) -> str:
    """Return any value as one short line of text."""
    return " ".join(str(value).split())[:MAX_TEXT]


def read_latencies(value: Any) -> list[float]:
    """Return the latencies in seconds; ResultError unless all are finite and above 0."""
    if value is None:
        return []
    if not isinstance(value, list) or not value or len(value) > MAX_LATENCIES:
        raise ResultError(f"latencies_s must be a list of 1 to {MAX_LATENCIES} numbers")
    for latency in value:
        require_time("latencies_s", latency)
    return [float(latency) for latency in value]


def require_time(name: str, value: Any) -> float:
    """Return a finite time above 0 in seconds; ResultError for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not is_finite(value):
        raise ResultError(f"{name} holds {one_line(value)[:40]!r}, which is no finite number")
    if value <= 0:
        raise ResultError(
            f"{name} holds {one_line(value)[:40]}: the template of a run that never was, or a broken clock"
        )
    return float(value)


def is_finite(value: float) -> bool:
    """Say whether a number is finite; an integer too large for a float is not."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def read_counts(flat: Mapping[str, Any], latencies: int, case: BenchmarkCase) -> tuple[int, int]:
    """Return how many requests were asked for and completed, in either form of document."""
    completed = flat.get("completed", flat.get("completed_requests", latencies or case.requests))
    failed = flat.get("failed", flat.get("failed_requests", 0))
    for name, count in (("completed", completed), ("failed", failed)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ResultError(f"{name} holds {str(count)[:40]!r}, which is no count")
    requested = flat.get("requested", flat.get("num_prompts", max(completed + failed, latencies)))
    if isinstance(requested, bool) or not isinstance(requested, int) or requested < 1:
        raise ResultError("no request was made")
    if latencies and latencies != completed:
        raise ResultError(f"{completed} requests were completed but {latencies} latencies are reported")
    return requested, completed


def read_metric(flat: Mapping[str, Any], metric: str) -> float:
    """Return the primary metric in seconds where the document has no single latencies."""
    for name in (metric, "latency_median", "latency_p50"):
        if name in flat:
            return require_time(name, flat[name])
    raise ResultError(f"the result has neither latencies_s nor {metric}")


def read_numbers(value: Any) -> dict[str, float]:
    """Return a table of finite numbers that are not negative; what is none of that is left out."""
    if not isinstance(value, dict):
        return {}
    kept = list(value.items())[:MAX_ENTRIES]
    numbers = [(str(name)[:MAX_TEXT], item) for name, item in kept if isinstance(item, int | float)]
    return {name: float(item) for name, item in numbers if is_finite(item) and item >= 0}


def read_workload(value: Any) -> dict[str, Any]:
    """Return the identity of the work as plain scalars; a nested value stands as its JSON text."""
    if not isinstance(value, dict):
        return {}
    kept = {
        str(name)[:MAX_TEXT]: item for name, item in list(value.items())[:MAX_ENTRIES] if name != "baseline"
    }
    return {name: plain(item) for name, item in kept.items()}


def plain(value: Any) -> Any:
    """Return a scalar as it is (text cut), everything else as short JSON text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return value[:MAX_TEXT] if isinstance(value, str) else json.dumps(value, sort_keys=True)[:MAX_TEXT]


def read_text(value: Any) -> str | None:
    """Return a short text, None for anything else."""
    return value[:MAX_TEXT] if isinstance(value, str) else None


def read_optional(value: Any) -> float | None:
    """Return a finite number, None for anything else."""
    usable = isinstance(value, int | float) and not isinstance(value, bool) and is_finite(value)
    return float(value) if usable else None


def block_problems(arms: Mapping[str, Sequence[Sample]]) -> tuple[str, ...]:
    """Return why the runs of one block must not be compared: they did not all do the same work."""
    samples = [(arm, sample) for arm, runs in arms.items() for sample in runs]
    first_arm, first = samples[0]
    problems = []
    for arm, sample in samples[1:]:
        if sample.requested != first.requested:
            problems.append(f"{arm} made {sample.requested} requests, {first_arm} {first.requested}")
        problems += work_differences(first_arm, first.workload, arm, sample.workload)
    for arm, runs in arms.items():
        paths = {tuple(sorted(name for name, count in run.path_log.items() if count)) for run in runs}
        if len(paths) > 1:
            problems.append(f"the runs of {arm} took different kernel paths")
    return tuple(dict.fromkeys(problems))


def work_differences(
    one: str, one_work: Mapping[str, Any], other: str, other_work: Mapping[str, Any]
) -> list[str]:
    """Return the parts of the workload in which two arms differ, as sentences."""
    names = sorted(set(one_work) | set(other_work))
    different = [name for name in names if one_work.get(name) != other_work.get(name)]
    return [
        f"unequal work: {one_line(name)} is {one_line(one_work.get(name))[:60]} for {one} and "
        f"{one_line(other_work.get(name))[:60]} for {other}"
        for name in different[:5]
    ]


def path_notes(arms: Mapping[str, Sequence[Sample]]) -> tuple[str, ...]:
    """Return a sentence where the arms took different kernel paths or gave different outputs."""
    notes = []
    paths = {arm: taken_paths(runs) for arm, runs in arms.items()}
    if len(set(paths.values())) > 1:
        said = "; ".join(f"{arm}: {', '.join(names) or 'none reported'}" for arm, names in paths.items())
        notes.append(f"The arms took different kernel paths ({said}).")
    hashes = {arm: {run.output_hash for run in runs if run.output_hash} for arm, runs in arms.items()}
    if len({frozenset(found) for found in hashes.values() if found}) > 1:
        notes.append("The arms' outputs are not bit-identical.")
    return tuple(notes)


def taken_paths(runs: Sequence[Sample]) -> tuple[str, ...]:
    """Return the names of the kernel paths that the runs of one arm counted."""
    return tuple(sorted({name for run in runs for name, count in run.path_log.items() if count}))
