"""Two result files side by side: improvement-positive, equal work only, measurements only."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perf_runner.compare import compare, parse_results
from perf_runner.reading import InputError

PRGATE = [sys.executable, "-c", "import bot.cli; bot.cli.main()"]


def record(latency: float = 2.137, **changes: Any) -> dict[str, Any]:
    """Return one record of a result file."""
    params = {"name": "512x512_steps20", "dataset": "random", "width": 512, "num-prompts": 10}
    result = {
        "completed_requests": 10,
        "failed_requests": 0,
        "latency_mean": latency,
        "throughput_qps": 1 / latency,
        "peak_memory_mb_mean": 0,
        "stage_durations_mean": {"QwenImagePipeline.diffuse": latency * 0.9},
    }
    return {
        "test_name": "test_qwen_image_single_device",
        "server_params": {"model": "Qwen/Qwen-Image"},
        "benchmark_params": {**params, "max-concurrency": 1, "baseline": {}} | changes.pop("params", {}),
        "result": result | changes.pop("result", {}),
    } | changes


def text(*records: dict[str, Any]) -> str:
    """Return the file of some records."""
    return json.dumps(list(records))


def test_slower_is_negative_in_either_direction() -> None:
    found = compare(parse_results(text(record()), "b"), parse_results(text(record(2.370)), "h"))
    rows = {row.metric: row for row in found.rows}
    assert rows["latency_mean"].improvement_pct == pytest.approx(-10.9, abs=0.01)
    assert rows["throughput_qps"].improvement_pct == pytest.approx(-9.83, abs=0.01)
    assert rows["mean.QwenImagePipeline.diffuse"].improvement_pct == pytest.approx(-10.9, abs=0.01)
    assert rows["latency_mean"].config == "bench=512x512_steps20, data=random, c=1, n=10"
    assert "peak_memory_mb_mean" not in rows
    assert found.unequal_work == ()


def test_another_baseline_or_warm_up_is_equal_work_and_another_size_is_not() -> None:
    base = parse_results(text(record(), record(test_name="other")), "b")
    same = record(params={"baseline": {"H100": {"latency_mean": 2.4}}, "warmup-requests": 2})
    wider = record(test_name="other", params={"width": 1024})
    found = compare(base, parse_results(text(same, wider), "h"))
    assert {row.test for row in found.rows} == {"test_qwen_image_single_device"}
    assert "width 512 against 1024" in found.unequal_work[0]


def test_files_of_other_workloads_are_refused() -> None:
    base = parse_results(text(record()), "b")
    with pytest.raises(InputError, match="no case of the same work"):
        compare(base, parse_results(text(record(test_name="another")), "h"))
    with pytest.raises(InputError, match="no case of the same work"):
        compare(base, parse_results(text(record(params={"width": 1024})), "h"))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("", "empty"),
        ("[]", "no record"),
        (text(record())[:-30], "truncated"),
        (text(record(result={"latency_mean": math.nan})), "NaN"),
        (text(record(result={"latency_mean": 0})), "no measurement"),
        (text(record(result={"latency_mean": -1.0})), "no measurement"),
        (text(record(result={"completed_requests": 0})), "no request was completed"),
        (text(record(result={"completed_requests": 9})), "9 of 10"),
        (text(record(result={"failed_requests": 1})), "failed"),
        (text(record(test_name="")), "template"),
        (text(record(), record()), "twice"),
        (text(record(result={"latency_mean": 10**400})), "digits"),
        ('{"a": 1}', "no record of a benchmark result"),
        ("3", "no record of a benchmark result"),
        ('[{"test_name": "t", "result": {"completed_requests": 10}}]', "no metric"),
    ],
)
def test_what_is_no_measurement_is_refused(bad: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_results(bad, "result.json")


def test_the_command_exits_with_what_it_found(tmp_path: Path) -> None:
    base, head = tmp_path / "base.json", tmp_path / "head.json"
    base.write_text(text(record()))
    head.write_text("\ufeff" + text(record(2.0)))
    done = subprocess.run([*PRGATE, "compare", base, head, "--json"], capture_output=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["rows"][0]["improvement_pct"] > 0
    head.write_text(text(record(2.0), record(test_name="more")))
    done = subprocess.run([*PRGATE, "compare", base, head, "--json"], capture_output=True, check=False)
    assert done.returncode == 1
    assert "more" in json.loads(done.stdout)["unequal_work"][0]


def test_a_huge_file_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    done = subprocess.run([*PRGATE, "compare", huge, huge], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "larger than 32 MB" in done.stderr
