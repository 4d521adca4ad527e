"""Reads what a performance claim rests on from a document: the evidence that `perf_runner.acceptance` checks.

The document is what `prgate bench run` and `prgate experiment --out` write, or an acceptance record: an
object with `before` and `after` (an arm each: runs, warm-up, path log, output hash, memory), `workload`,
`environment`, `correctness`, `local`, `memory_trend`, `tests`, `claim`. A result without such an object is
read as `after` alone, a table of a benchmark page as one claim a path.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from perf_runner.evidence_models import ArmEvidence, Evidence, mapping, number, numbers
from perf_runner.evidence_tables import is_table, read_table
from perf_runner.models import CaseResult, Sample
from perf_runner.reading import InputError, parse_json


def read_evidence(text: str, where: str) -> list[tuple[str, Evidence]]:
    """Return name and evidence of each result in a document; InputError where one is no measurement."""
    document = parse_json(text, where)
    results = document if isinstance(document, list) else [document]
    if not results:
        raise InputError(f"{where}: holds no result")
    found = []
    for place_no, result in enumerate(results, start=1):
        place = where if len(results) == 1 else f"{where}, result {place_no}"
        if not isinstance(result, dict):
            raise InputError(f"{place}: must be a result, which is an object")
        if is_table(result):
            found += read_table(result, place)
            continue
        found.append((name_of(result) or place, one_evidence(result, place)))
    return found


def name_of(result: Mapping[str, Any]) -> str:
    """Return what a result calls itself."""
    params = mapping(result.get("benchmark_params"))
    names = (result.get("test_name"), params.get("name") or result.get("name"))
    return " ".join(name for name in names if isinstance(name, str))[:300]


def one_evidence(document: Mapping[str, Any], where: str) -> Evidence:
    """Return the evidence of one result; InputError where it holds no run that took time."""
    is_experiment = "blocks" in document and "arms" in document
    evidence = from_experiment(document) if is_experiment else from_record(document)
    times = evidence.after.run_seconds
    if not times or any(value <= 0 for value in times):
        raise InputError(f"{where}: holds no run with a time above 0; this is no measurement")
    return evidence


def from_record(document: Mapping[str, Any]) -> Evidence:
    """Return the evidence of an acceptance record, or of a single result."""
    after = mapping(document.get("after")) or document
    before = document.get("before")
    server = {key: value for key, value in mapping(document.get("server_params")).items() if key == "model"}
    workload = mapping(document.get("workload")) or {**mapping(document.get("benchmark_params")), **server}
    trend = document.get("memory_trend")
    return Evidence(
        after=read_arm(after, workload),
        before=read_arm(mapping(before), workload) if isinstance(before, dict) else None,
        workload=workload,
        environment={**flat(document), **mapping(document.get("environment"))},
        correctness=mapping(document.get("correctness")),
        local=mapping(document.get("local")),
        memory_mb=numbers(mapping(trend).get("samples_mb") if isinstance(trend, dict) else trend),
        tests=mapping(document.get("tests")),
        claim=mapping(document.get("claim")),
    )


def flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document's plain values, those of machine and hardware objects among them."""
    inner = {**mapping(document.get("machine")), **mapping(document.get("hardware"))}
    return {
        key: value for key, value in {**document, **inner}.items() if isinstance(value, str | int | float)
    }


def read_arm(arm: Mapping[str, Any], workload: Mapping[str, Any]) -> ArmEvidence:
    """Return one side: runs as numbers or as objects with their seconds and raw latencies."""
    result = mapping(arm.get("result")) or arm
    runs = arm.get("runs")
    runs = runs if isinstance(runs, list) else [result]
    warmup = mapping(arm.get("warmup"))
    params = mapping(arm.get("benchmark_params"))
    requests = sum(request_count(run) for run in runs)
    warmup_requests = number(warmup.get("requests")) or number(params.get("warmup-requests"))
    warmup_steps = number(warmup.get("steps")) or number(params.get("warmup-num-inference-steps"))
    counts = {str(k): n for k, v in mapping(result.get("path_log")).items() if (n := number(v)) is not None}
    hashed = result.get("output_hash")
    return ArmEvidence(
        run_seconds=tuple(time for run in runs if (time := seconds_of(run)) is not None),
        requests=requests,
        warmup_requests=None if warmup_requests is None else int(warmup_requests),
        warmup_steps=None if warmup_steps is None else int(warmup_steps),
        path_log=counts,
        output_hash=hashed if isinstance(hashed, str) else None,
        peak_memory_mb=number(result.get("peak_memory_mb")) or number(result.get("peak_memory_mb_mean")),
        metrics={str(k): n for k, v in result.items() if (n := number(v)) is not None and n > 0},
        workload=mapping(arm.get("workload")) or workload,
    )


def seconds_of(run: Any) -> float | None:
    """Return the time of one run: a number, or an object with one of the known names."""
    names = ("seconds", "latency_median", "latency_p50", "latency_mean")
    found = run if not isinstance(run, dict) else next((run[name] for name in names if name in run), None)
    return number(found)


def request_count(run: Any) -> int:
    """Return how many requests a run tells of."""
    values = mapping(run)
    raw = values.get("latencies_s")
    if isinstance(raw, list):
        return len(raw)
    return int(number(values.get("completed_requests")) or 1)


def from_experiment(document: Mapping[str, Any]) -> Evidence:
    """Return the evidence of an experiment's result: its first arm is before, its last after."""
    keys = CaseResult.model_fields.keys()
    try:
        kept = {key: value for key, value in document.items() if key in keys and key != "decision"}
        result = CaseResult.model_validate(kept)
    except ValueError as error:
        raise InputError(f"no result of an experiment: {str(error).splitlines()[0]}") from error
    if not result.arms or not result.blocks:
        raise InputError("the experiment holds no block")
    names = (result.arms[0].name, result.arms[-1].name)
    before, after = (
        [sample for block in result.blocks for sample in block.arms.get(name, ())] for name in names
    )
    machine = result.machine.model_dump() if result.machine else {}
    workload = {**result.case.workload, **(after[0].workload if after else {})}
    return Evidence(
        after=arm_of(after, result.case.warmup_requests),
        before=arm_of(before, result.case.warmup_requests),
        workload=workload,
        environment={key: value for key, value in machine.items() if value},
    )


def arm_of(samples: Sequence[Sample], warmup_requests: int) -> ArmEvidence:
    """Return one arm of an experiment."""
    counts: dict[str, float] = {}
    for sample in samples:
        for path, count in sample.path_log.items():
            counts[path] = counts.get(path, 0.0) + count
    hashes = {sample.output_hash for sample in samples}
    peaks = [sample.peak_memory_mb for sample in samples if sample.peak_memory_mb is not None]
    return ArmEvidence(
        run_seconds=tuple(sample.seconds for sample in samples),
        requests=sum(max(len(sample.latencies_s), 1) for sample in samples),
        warmup_requests=warmup_requests,
        path_log=counts,
        output_hash=hashes.pop() if len(hashes) == 1 else None,
        peak_memory_mb=max(peaks, default=None),
        workload=samples[0].workload if samples else {},
    )
