"""The performance-acceptance list as checks over a result: what is shown, and what is missing.

Every check is a pure function over the evidence (`perf_runner.evidence`); one that cannot see what it needs
fails and says what it misses.
"""

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perf_runner.evidence_models import Evidence, number
from perf_runner.models import Frozen

FEWEST_RUNS = 3
TAIL_SAMPLES = 5  # samples that must lie beyond a percentile before it may be quoted
MEMORY_RUNS = 10
MEMORY_GROWTH_PCT = 1.0
WORKLOAD = ("model", "prompt", "seed", "size", "steps", "scheduler", "guidance", "task", "dtype")
ENVIRONMENT = ("hardware", "backend", "topology", "dtype", "task")
TESTS = ("fallback", "rejection", "abort")
ALIASES: Mapping[str, tuple[str, ...]] = {
    "model": ("model", "model_config_hash", "checkpoint", "revision"),
    "prompt": ("prompt", "prompt_hash", "embedding_hash", "dataset", "inputs_hash"),
    "size": ("size", "width", "resolution", "tokens", "shape"),
    "steps": ("steps", "num-inference-steps", "num_inference_steps"),
    "scheduler": ("scheduler", "sigmas", "schedule"),
    "guidance": ("guidance", "guidance_scale", "true_cfg_scale", "enable-negative-prompt"),
    "hardware": ("hardware", "gpu_name", "device", "Hardware", "cpu_model", "host_class"),
    "backend": ("backend", "attention_backend", "Attn_backend"),
    "topology": ("topology", "parallelism", "Parallelism", "gpu_count"),
    "task": ("task", "Task"),
    "dtype": ("dtype", "torch_dtype"),
    "seed": ("seed",),
}
PERCENTILE = re.compile(r"(?:^|_)p(\d{2}(?:\.\d)?|99\.9)(?:_|$)")


class Check(Frozen):
    """One point of the list. `missing` names what would have to be given."""

    check: str
    passed: bool
    says: str
    missing: tuple[str, ...] = ()


class Acceptance(Frozen):
    """The whole list over one document."""

    accepted: bool
    checks: tuple[Check, ...]


def accept(evidence: Evidence) -> Acceptance:
    """Return the list's outcome."""
    checks = tuple(check(evidence) for check in CHECKS)
    return Acceptance(accepted=all(check.passed for check in checks), checks=checks)


def verdict(check: str, missing: Sequence[str], good: str, bad: str) -> Check:
    """Return a check that passes when nothing is missing."""
    return Check(check=check, passed=not missing, says=bad if missing else good, missing=tuple(missing))


def known(values: Mapping[str, Any], name: str) -> bool:
    """Say whether a mapping gives `name` under one of its names, and not as an empty value."""
    return any(values.get(alias) not in (None, "", [], {}) for alias in ALIASES.get(name, (name,)))


def workload_fixed(evidence: Evidence) -> Check:
    """Both sides did the same, fully named work."""
    missing = [f"workload.{name}" for name in WORKLOAD if not known(evidence.workload, name)]
    before, after = evidence.before, evidence.after
    if before is None:
        missing.append("before: a run of the unchanged code")
    elif before.workload != after.workload:
        keys = before.workload.keys() | after.workload.keys()
        differ = sorted(key for key in keys if before.workload.get(key) != after.workload.get(key))
        missing.append(f"equal work: {', '.join(differ)} differ")
    return verdict("workload", missing, "same named work on both sides", "the work is not fixed")


def correctness_shown(evidence: Evidence) -> Check:
    """The output is the same as before, or its error is stated against a tolerance."""
    before, after = evidence.before, evidence.after
    hashes = (before.output_hash if before else None, after.output_hash)
    if None not in hashes and hashes[0] == hashes[1]:
        return verdict("correctness", (), "outputs are equal before and after", "")
    error, tolerance = (number(evidence.correctness.get(name)) for name in ("max_error", "tolerance"))
    if error is None or tolerance is None:
        needed = ["output_hash of both sides that agree, or correctness.max_error and correctness.tolerance"]
        return verdict("correctness", needed, "", "outputs before and after are not compared")
    wrong = [] if error <= tolerance else [f"max_error {error:g} is above the tolerance {tolerance:g}"]
    return verdict(
        "correctness", wrong, f"largest error {error:g} within {tolerance:g}", "the outputs differ"
    )


def runs_kept(evidence: Evidence) -> Check:
    """Three or more raw runs on each side, after a warm-up at full step count."""
    missing = []
    for name, arm in (("before", evidence.before), ("after", evidence.after)):
        if arm is None or len(arm.run_seconds) < FEWEST_RUNS:
            count = 0 if arm is None else len(arm.run_seconds)
            missing.append(f"{name}: {FEWEST_RUNS} raw runs (there are {count})")
        if arm is not None and not arm.warmup_requests:
            missing.append(f"{name}: an explicit warm-up")
        steps = number(evidence.workload.get("steps") or evidence.workload.get("num-inference-steps"))
        if arm is not None and arm.warmup_steps is not None and steps and arm.warmup_steps < steps:
            missing.append(f"{name}: a warm-up of {steps:g} steps (it had {arm.warmup_steps})")
    return verdict("raw runs", missing, "every raw run is there", "too few raw runs, or no warm-up")


def fast_path_proven(evidence: Evidence) -> Check:
    """Counters show that the claimed path ran: an enabled flag is no evidence."""
    claimed = evidence.claim.get("fast_path")
    counts = evidence.after.path_log
    if isinstance(claimed, str) and claimed:
        missing = [] if counts.get(claimed, 0) > 0 else [f"a counter of the path {claimed!r} above 0"]
    else:
        missing = (
            [] if any(count > 0 for count in counts.values()) else ["after.path_log with the path's counter"]
        )
    ran = ", ".join(f"{name} {count:g}" for name, count in sorted(counts.items()) if count)
    return verdict("fast path", missing, f"counted: {ran}", "nothing proves which path ran")


def deltas_given(evidence: Evidence) -> Check:
    """Local and end-to-end change, so that a kernel's gain is not sold as a request's."""
    missing = []
    if not {"before", "after"} <= evidence.local.keys():
        missing.append("local.before and local.after (the operator alone)")
    if evidence.before is None or not evidence.before.run_seconds or not evidence.after.run_seconds:
        missing.append("end-to-end runs of both sides")
    return verdict("deltas", missing, delta_text(evidence), "a kernel's gain alone is no claim of speed")


def delta_text(evidence: Evidence) -> str:
    """Return both changes in words."""
    if evidence.before is None or not evidence.before.run_seconds or not evidence.after.run_seconds:
        return ""
    before, after = (statistics.median(arm.run_seconds) for arm in (evidence.before, evidence.after))
    whole = f"end to end {(after / before - 1) * 100:+.1f} %"
    local = [number(evidence.local.get(side)) for side in ("before", "after")]
    if None in local or not local[0]:
        return whole
    return f"operator {(float(local[1] or 0) / local[0] - 1) * 100:+.1f} %, {whole}"


def memory_watched(evidence: Evidence) -> Check:
    """Peak memory of both sides, and its trend over a long run."""
    missing = []
    for name, arm in (("before", evidence.before), ("after", evidence.after)):
        if arm is None or arm.peak_memory_mb is None:
            missing.append(f"{name}: peak_memory_mb")
    series = evidence.memory_mb
    if len(series) < MEMORY_RUNS:
        missing.append(
            f"memory_trend: {MEMORY_RUNS} or more values over a long run (there are {len(series)})"
        )
    elif growth_pct(series) > MEMORY_GROWTH_PCT:
        missing.append(f"a flat trend: memory grew by {growth_pct(series):.1f} %")
    return verdict("memory", missing, "peak on both sides, and flat over a long run", "memory is not covered")


def growth_pct(series: Sequence[float]) -> float:
    """Return by how much the last third's median lies above that of the middle third."""
    third = len(series) // 3
    middle, last = statistics.median(series[third : 2 * third]), statistics.median(series[-third:])
    return (last / middle - 1.0) * 100.0 if middle > 0 else math.inf


def environment_named(evidence: Evidence) -> Check:
    """Hardware, backend, topology, dtype and task are named."""
    values = {**evidence.workload, **evidence.environment}
    missing = [f"environment.{name}" for name in ENVIRONMENT if not known(values, name)]
    return verdict("environment", missing, "named", "it is not said where this holds")


def tests_there(evidence: Evidence) -> Check:
    """Tests of the fallback, of the rejection of unsupported input, and of the clean-up after an abort."""
    missing = [f"tests.{name}" for name in TESTS if not evidence.tests.get(name)]
    return verdict("tests", missing, "fallback, rejection and abort are tested", "untested paths")


def tails_have_samples(evidence: Evidence) -> Check:
    """No percentile from too few samples."""
    missing = []
    for name, arm in (("before", evidence.before), ("after", evidence.after)):
        for metric in sorted(arm.metrics) if arm else ():
            problem = percentile_problem(metric, arm.requests if arm else 0)
            if problem:
                missing.append(f"{name}: {problem}")
    return verdict(
        "tail latency", missing, "no percentile from too few samples", "percentiles without samples"
    )


def percentile_problem(metric: str, samples: int) -> str | None:
    """Return why a percentile metric may not be quoted from so many samples; None where it may.

    The median and below are left alone. Beyond a percentile at least five samples must lie.
    """
    found = PERCENTILE.search(metric.lower())
    if not found or float(found.group(1)) <= 50.0:
        return None
    beyond = 1.0 - float(found.group(1)) / 100.0
    needed = math.ceil(TAIL_SAMPLES / beyond - 1e-9)
    return None if samples >= needed else f"{metric} needs {needed} requests (there are {samples})"


def matrix_narrow(evidence: Evidence) -> Check:
    """A row of the feature matrix is widened only for what was measured."""
    rows = evidence.claim.get("widens")
    values = {**evidence.workload, **evidence.environment}
    missing = []
    for row in rows if isinstance(rows, list) else ():
        for name, claimed in row.items() if isinstance(row, dict) else ():
            measured = [values[alias] for alias in ALIASES.get(str(name), (str(name),)) if alias in values]
            if claimed not in measured and str(claimed) not in map(str, measured):
                missing.append(f"a measurement with {name} = {claimed}")
    return verdict(
        "feature matrix", missing, "nothing is widened beyond what was measured", "claimed, not measured"
    )


CHECKS: tuple[Callable[[Evidence], Check], ...] = (
    workload_fixed,
    correctness_shown,
    runs_kept,
    fast_path_proven,
    deltas_given,
    memory_watched,
    environment_named,
    tests_there,
    tails_have_samples,
    matrix_narrow,
)
