"""The performance-acceptance list: a complete record passes, and each thing left out is named."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perf_runner.acceptance import CHECKS, accept, percentile_problem
from perf_runner.evidence import read_evidence
from perf_runner.models import Arm, BenchmarkCase, Block, CaseResult, Sample
from perf_runner.reading import InputError

PRGATE = [sys.executable, "-c", "import bot.cli; bot.cli.main()"]


def complete() -> dict[str, Any]:
    """Return an acceptance record that lacks nothing."""
    workload = {
        "model": "tiny-dit",
        "prompt_hash": "ab12",
        "seed": 20,
        "width": 512,
        "steps": 20,
        "sigmas": "linear",
        "guidance_scale": 4.0,
        "task": "t2i",
        "dtype": "bfloat16",
    }

    def side(seconds: float, path: str) -> dict[str, Any]:
        return {
            "runs": [{"seconds": seconds + n / 1000, "latencies_s": [seconds] * 40} for n in range(3)],
            "warmup": {"requests": 1, "steps": 20},
            "path_log": {path: 60},
            "output_hash": "77aa",
            "peak_memory_mb": 1000.0,
            "latency_p95": seconds * 1.1,
            "workload": workload,
        }

    return {
        "workload": workload,
        "environment": {"hardware": "H200", "backend": "FLASH_ATTN", "topology": "1 GPU"},
        "before": side(2.4, "eager"),
        "after": side(2.1, "fused"),
        "local": {"before": 1.0, "after": 0.6},
        "memory_trend": {"samples_mb": [1000.0] * 12},
        "tests": {"fallback": ["test_a"], "rejection": ["test_b"], "abort": ["test_c"]},
        "claim": {"fast_path": "fused", "widens": [{"hardware": "H200", "dtype": "bfloat16"}]},
    }


def failed(document: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the failed checks of a document and what each misses."""
    ((_, evidence),) = read_evidence(json.dumps(document), "record")
    return {check.check: check.missing for check in accept(evidence).checks if not check.passed}


def test_a_complete_record_is_accepted() -> None:
    assert failed(complete()) == {}
    assert len(CHECKS) == 10


def without(path: str) -> dict[str, Any]:
    """Return the complete record without one entry."""
    document = complete()
    *parents, last = path.split(".")
    inner = document
    for parent in parents:
        inner = inner[parent]
    del inner[last]
    return document


@pytest.mark.parametrize(
    ("left_out", "check", "names"),
    [
        ("workload.seed", "workload", "workload.seed"),
        ("before", "workload", "before"),
        ("after.output_hash", "correctness", "output_hash"),
        ("after.warmup", "raw runs", "warm-up"),
        ("before.runs", "raw runs", "3 raw runs"),
        ("after.path_log", "fast path", "fused"),
        ("local", "deltas", "local.before"),
        ("after.peak_memory_mb", "memory", "peak_memory_mb"),
        ("memory_trend", "memory", "memory_trend"),
        ("environment.hardware", "environment", "hardware"),
        ("environment.topology", "environment", "topology"),
        ("tests.fallback", "tests", "fallback"),
        ("tests.rejection", "tests", "rejection"),
        ("tests.abort", "tests", "abort"),
    ],
)
def test_what_is_left_out_is_named(left_out: str, check: str, names: str) -> None:
    found = failed(without(left_out))
    assert check in found
    assert any(names in line for line in found[check])


def test_a_warm_up_of_two_steps_is_none() -> None:
    document = complete()
    document["after"]["warmup"]["steps"] = 2
    assert "20 steps" in failed(document)["raw runs"][0]


def test_unequal_work_is_named() -> None:
    document = complete()
    document["before"]["workload"] = {**document["workload"], "steps": 35}
    assert failed(document)["workload"] == ("equal work: steps differ",)


def test_different_outputs_need_a_tolerance() -> None:
    document = complete()
    document["after"]["output_hash"] = "other"
    assert "correctness" in failed(document)
    document["correctness"] = {"max_error": 0.004, "tolerance": 0.008}
    assert failed(document) == {}
    document["correctness"]["max_error"] = 0.009
    assert "above the tolerance" in failed(document)["correctness"][0]


def test_a_flag_is_no_evidence_of_a_path() -> None:
    document = complete()
    document["after"]["path_log"] = {"fused": 0, "eager": 60}
    assert "fast path" in failed(document)


def test_memory_that_grows_is_found() -> None:
    document = complete()
    document["memory_trend"] = [1000.0 + 10 * n for n in range(30)]
    assert "grew" in failed(document)["memory"][0]


def test_a_matrix_row_is_widened_for_what_was_measured_only() -> None:
    document = complete()
    document["claim"]["widens"] = [{"hardware": "MI300X", "dtype": "bfloat16"}]
    assert failed(document) == {"feature matrix": ("a measurement with hardware = MI300X",)}


@pytest.mark.parametrize(
    ("metric", "samples", "fits"),
    [
        ("latency_p50", 3, True),
        ("latency_p95", 99, False),
        ("latency_p95", 100, True),
        ("latency_p99", 499, False),
        ("latency_p99", 500, True),
        ("latency_mean", 1, True),
        ("p90_latency", 49, False),
    ],
)
def test_a_percentile_needs_samples_beyond_it(metric: str, samples: int, fits: bool) -> None:
    assert (percentile_problem(metric, samples) is None) is fits


def test_an_experiments_result_is_read_as_before_and_after() -> None:
    def sample(seconds: float, path: str) -> Sample:
        return Sample(seconds=seconds, path_log={path: 5}, output_hash="aa", workload={"seed": 1})

    arms = {"base": (sample(1.0, "eager"),) * 2, "head": (sample(0.9, "fused"),) * 2}
    result = CaseResult(
        case=BenchmarkCase(name="512"),
        arms=(Arm(name="base", sha="a"), Arm(name="head", sha="b")),
        blocks=(Block(arms=arms), Block(arms=arms, number=1)),
    )
    found = failed(json.loads(result.model_dump_json()))
    assert not {"correctness", "raw runs", "fast path", "tail latency"} & found.keys()
    assert {"memory", "tests", "deltas"} <= found.keys()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("[]", "no result"),
        ("[1]", "object"),
        ('{"test_name": "", "result": {"latency_mean": 0}}', "no run with a time above 0"),
        ('{"after": {"runs": [0.0, 0.0, 0.0]}}', "no run with a time above 0"),
        ('{"case": {"name": "512"}, "arms": [], "blocks": []}', "no block"),
        ('{"arms": 3, "blocks": []}', "no result of an experiment"),
        ('{"after": {"runs": [NaN]}}', "NaN"),
    ],
)
def test_what_is_no_measurement_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_evidence(text, "record")


def test_the_command_says_what_is_missing_and_exits_with_it() -> None:
    def run(document: object) -> subprocess.CompletedProcess[str]:
        command = [*PRGATE, "bench", "accept", "-", "--json"]
        return subprocess.run(
            command, input=json.dumps(document), capture_output=True, text=True, check=False
        )

    good = run(complete())
    assert (good.returncode, json.loads(good.stdout)["accepted"]) == (0, True)
    bad = run(without("tests"))
    assert bad.returncode == 1
    several = json.loads(run([complete(), without("tests")]).stdout)
    assert [one["accepted"] for one in several["results"]] == [True, False]


KERNELS = Path(__file__).parents[2] / "deploy/docs/results/kernels"


def test_our_own_kernel_record_is_accepted_and_each_of_our_tables_says_what_it_lacks() -> None:
    (record,) = read_evidence((KERNELS / "512x512_steps20.json").read_text(), "record")
    assert accept(record[1]).accepted
    paths = dict(read_evidence((KERNELS / "denoise.json").read_text(), "denoise"))
    fused = accept(paths["denoise fused_graph"])
    by_name = {check.check: check for check in fused.checks}
    assert not fused.accepted
    assert by_name["workload"].passed
    assert by_name["fast path"].passed
    assert "memory_trend" in " ".join(by_name["memory"].missing)
    assert paths["denoise fused_graph"].before is not None


@pytest.mark.parametrize("name", ["calibration", "operators", "trajectory"])
def test_a_table_without_raw_runs_is_refused_with_what_a_claim_needs(name: str) -> None:
    with pytest.raises(InputError, match=r"holds no raw runs.*`before` and `after`"):
        read_evidence((KERNELS / f"{name}.json").read_text(), name)
