"""What is kept of a night: one value of one metric of one case, whichever file or run it came from."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from perf_runner.compare import Record, parse_results
from perf_runner.gate import pair
from perf_runner.history.metrics import direction
from perf_runner.history.results import chosen_baseline, is_value, night_of
from perf_runner.history.rows import NightlyRow, parse_rows
from perf_runner.models import Block, CaseResult, Direction
from perf_runner.noise import prior_from

# Issue tables print the mean latency in milliseconds; result files hold it in seconds.
OTHER_NAMES: Mapping[str, tuple[str, float]] = {"e2e_latency_ms": ("latency_mean", 1e-3)}
UNITS = (("latency", "s"), ("ttf", "ms"), ("qps", "req/s"), ("memory_mb", "MB"), ("stage.", "s"))
# Of a result file's metrics without a baseline, those that tell something later.
KEPT = frozenset({"latency_mean", "latency_median", "latency_p99", "throughput_qps", "peak_memory_mb_max"})
STAGE = "p50."
NOISE_METRIC = "aa_block_sd"
PRIMARY = ("latency_median", "latency_mean", "throughput_qps")


@dataclass(frozen=True)
class Measurement:
    """One value of a series on one night; `source` says where it was read, so that twice counts once."""

    test: str
    config: str
    metric: str
    night: date
    value: float
    way: Direction
    source: str
    sha: str = ""
    hardware: str = ""
    model: str = ""
    unit: str = ""
    n: int | None = None
    sd: float | None = None
    baseline: float | None = None
    machine: str = ""
    status: str = ""
    published_days: int | None = None


def read_measurements(text: str, where: str, issue: str = "") -> tuple[list[Measurement], list[str]]:
    """Return what a result file (JSON) or a nightly table (CSV, Markdown) holds, and what was left out.

    InputError for a text that is neither. `issue` is the issue that a table without such a column is from.
    """
    if text.lstrip()[:1] in ("[", "{"):
        return of_records(list(parse_results(text, where).values()))
    rows, left_out = parse_rows(text, where)
    return [of_row(row, issue) for row in rows if row.night], [
        *left_out,
        *(f"line {row.line}: no date" for row in rows if row.night is None),
    ]


def of_row(row: NightlyRow, issue: str = "") -> Measurement:
    """Return a table's row; its night must be known."""
    assert row.night is not None
    metric, scale = OTHER_NAMES.get(row.metric, (row.metric, 1.0))
    number = row.issue or issue
    return Measurement(
        test=row.test,
        config=row.config,
        metric=metric,
        night=row.night,
        value=row.latest * scale,
        way=direction(metric) or "lower",
        source=f"issue:{number}" if number else "table",
        sha=row.commit,
        hardware=row.hardware,
        model=row.model,
        unit=unit_of(metric),
        baseline=row.baseline * scale,
        status=row.status,
        published_days=row.published_days,
    )


def of_records(records: Sequence[Record]) -> tuple[list[Measurement], list[str]]:
    """Return the metrics of a result file's records; a record without a night gives none."""
    found: list[Measurement] = []
    left_out = []
    for record in records:
        night = night_of(record.timestamp)
        if night is None:
            left_out.append(f"{record.test} {record.config}: no night in its timestamp")
        else:
            found += of_record(record, night)
    return found, left_out


def of_record(record: Record, night: date) -> Iterable[Measurement]:
    """Yield the metrics of one record that are kept."""
    baselines = {name: value for name, value in chosen_baseline(record).items() if is_value(value)}
    metrics = dict(record.metrics)
    if "latency_p50" in metrics:  # the same number under its other name
        metrics.setdefault("latency_median", metrics.pop("latency_p50"))
    for name, value in metrics.items():
        metric = f"stage.{name.removeprefix(STAGE)}" if name.startswith(STAGE) else name
        way = direction(name) or ("lower" if name.startswith(STAGE) else None)
        if way is None or not (name in KEPT or name in baselines or metric != name):
            continue
        yield replace(of_metric(record, night, metric, value, way), baseline=baselines.get(name))
    yield from telemetry_of(record, night)


def of_run(result: CaseResult, night: date, run_id: str) -> list[Measurement]:
    """Return what a night's own run says: the median of its runs with n and sd, its stages, and its noise.

    Both arms are the same commit. A run that measured nothing gives nothing.
    """
    samples = [sample for block in result.blocks for runs in block.arms.values() for sample in runs]
    counted = [sample for sample in samples if sample.valid]
    if not counted:
        return []
    values = {"latency_median": [sample.seconds for sample in counted]}
    stages = set.intersection(*(set(sample.stages_s) for sample in counted))
    for stage in sorted(stages)[:20]:
        values[f"stage.{stage}"] = [sample.stages_s[stage] for sample in counted]
    memory = [sample.peak_memory_mb for sample in counted if sample.peak_memory_mb]
    if memory:
        values["peak_memory_mb_max"] = [max(memory)]
    found = [
        own(result, night, run_id, name, taken)
        for name, taken in values.items()
        if statistics.median(taken) > 0
    ]
    noise = block_noise(result.blocks)
    return [*found, own(result, night, run_id, NOISE_METRIC, [noise[0]], noise[1])] if noise else found


def telemetry_of(record: Record, night: date) -> Iterable[Measurement]:
    """Yield what the GPUs did while a record was measured, worst over the GPUs; nothing where it is not told.

    `gpu.clock_ratio` is the lowest share of the top clock under load, `gpu.busy_pct` the mean utilisation,
    `gpu.throttled` 1 where any throttle reason but idling was seen.
    """
    ratios = [
        float(one["sm_ratio_busy_min"]) for one in record.gpus if is_value(one.get("sm_ratio_busy_min"))
    ]
    busy = [
        float(one["util_pct_busy_mean"]) for one in record.gpus if is_value(one.get("util_pct_busy_mean"))
    ]
    reasons = {
        str(reason).lower()
        for one in record.gpus
        if isinstance(one.get("throttle_reasons"), list)
        for reason in one["throttle_reasons"]
    } - {"none", "gpu_idle", ""}
    values = {
        "gpu.clock_ratio": min(ratios, default=None),
        "gpu.busy_pct": statistics.fmean(busy) if busy else None,
        "gpu.throttled": 1.0 if reasons else None,
    }
    for metric, value in values.items():
        if value is not None:
            yield of_metric(record, night, metric, value, "higher")


def of_metric(record: Record, night: date, metric: str, value: float, way: Direction) -> Measurement:
    """Return one metric of a record, without a baseline."""
    return Measurement(
        test=record.test,
        config=record.config,
        metric=metric,
        night=night,
        value=value,
        way=way,
        source=f"result:{record.timestamp}",
        sha=record.commit,
        hardware=record.hardware,
        model=record.model,
        unit=unit_of(metric),
        n=record.requests,
    )


def own(
    result: CaseResult, night: date, run_id: str, metric: str, values: Sequence[float], n: int | None = None
) -> Measurement:
    """Return one metric of a run of ours."""
    machine = result.machine
    host = machine.host_class if machine else ""
    return Measurement(
        test=result.case.test_name,
        config=result.case.name,
        metric=metric,
        night=night,
        value=statistics.median(values),
        way="lower",
        source=f"run:{run_id}",
        sha=result.arms[-1].sha,
        hardware=(machine.gpu_name if machine else None) or host,
        unit=unit_of(metric),
        n=n or len(values),
        sd=statistics.stdev(values) if len(values) > 1 else None,
        machine=host,
    )


def block_noise(blocks: Sequence[Block]) -> tuple[float, int] | None:
    """Return the sd of the log ratio of A/A blocks and their number; None for too few or equal ones."""
    try:
        arms = [(list(block.arms), block) for block in blocks if len(block.arms) >= 2]
        prior = prior_from([pair(block.seconds(names[0]), block.seconds(names[-1])) for names, block in arms])
    except ValueError:
        return None
    return prior.prior_sd, prior.blocks


def unit_of(metric: str) -> str:
    """Return a metric's unit by its name; '' where it does not tell."""
    if metric.endswith("_ms"):
        return "ms"
    return next((unit for part, unit in UNITS if part in metric), "")


def gated(metric: str) -> bool:
    """Say whether a metric's nights are judged: speed and memory are, a run's stages and noise explain."""
    return not metric.startswith(("stage.", "gpu.")) and metric != NOISE_METRIC
