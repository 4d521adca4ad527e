"""The `serving` target: a revision's server under a load that is the same for every arm.

`case.command` starts the server; `{port}` in it is replaced. The workload says what is asked of it, in the
words of vllm-omni's benchmark parameters: `max-concurrency` (closed loop) or `request-rate` (open loop),
`width`, `height`, `num-inference-steps`, and optionally `endpoint`, `health` and the whole `body`.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from perf_runner import serving_child
from perf_runner.models import BenchmarkCase, Frozen, Sample
from perf_runner.targets import TargetError, Workplace
from perf_runner.targets.command import launch_for
from perf_runner.targets.session import SessionArm, open_session

CHILD = Path(serving_child.__file__).resolve()
CHAT_ENDPOINT = "/v1/chat/completions"
PROMPT = "a photograph of a lighthouse on a cliff at dusk, the sea calm, the lamp lit"
COPIED = ("num-inference-steps", "guidance-scale", "true-cfg-scale")


class ServingOptions(Frozen):
    """What the child is told: the server and the load. Times in seconds, the rate in requests a second."""

    command: tuple[str, ...] = Field(min_length=1)
    endpoint: str = Field(default=CHAT_ENDPOINT, pattern=r"^/")
    health: str = Field(default="/health", pattern=r"^/")
    body: Mapping[str, Any] = Field(default_factory=dict)
    concurrency: int = Field(default=1, ge=1, le=1024)
    request_rate: float | None = Field(default=None, gt=0)
    warmup_requests: int = 1
    start_timeout_s: float = 1200.0
    timeout_s: float = 600.0


def options_for(case: BenchmarkCase) -> ServingOptions:
    """Return the load of a case; TargetError where its workload says something impossible."""
    work = case.workload
    endpoint = str(work.get("endpoint", CHAT_ENDPOINT))
    try:
        return ServingOptions(
            command=case.command,
            endpoint=endpoint,
            health=str(work.get("health", "/health")),
            body=work.get("body") or default_body(work, endpoint),
            concurrency=work.get("max-concurrency") or 1,
            request_rate=work.get("request-rate"),
            warmup_requests=case.warmup_requests,
            start_timeout_s=case.timeout_s,
            timeout_s=case.timeout_s,
        )
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise TargetError(f"the case {case.name} cannot be served: {place}: {problem['msg']}") from None


def default_body(work: Mapping[str, Any], endpoint: str) -> dict[str, Any]:
    """Return the request for one image of the case's size, as a chat or as an image generation."""
    settings: dict[str, Any] = {key.replace("-", "_"): work[key] for key in COPIED if key in work}
    width, height = work.get("width", 512), work.get("height", 512)
    if endpoint.endswith("/chat/completions"):
        message = {"role": "user", "content": PROMPT}
        return {"messages": [message], "extra_body": {**settings, "width": width, "height": height}}
    return {**settings, "prompt": PROMPT, "n": 1, "size": f"{width}x{height}"}


def open_arm(case: BenchmarkCase, place: Workplace) -> SessionArm:
    """Start the child, which starts the server and waits for its health."""
    argv = (str(place.interpreter), str(CHILD), options_for(case).model_dump_json())
    launch = launch_for(case, place, case.requests)
    return open_session(case, place, replace(launch, argv=argv, readable=(*launch.readable, CHILD)))


def result_record(case: BenchmarkCase, runs: Sequence[Sample], sha: str, at: datetime) -> dict[str, Any]:
    """Return the runs of one arm as one record of vllm-omni's result schema (seconds; no tail percentile).

    `commit_sha` is the revision that was measured. Raw latencies are kept by run.
    """
    latencies = sorted(latency for run in runs for latency in (run.latencies_s or (run.seconds,)))
    stages = {name for run in runs for name in run.stages_s}
    result = {
        "completed_requests": sum(run.completed for run in runs),
        "failed_requests": sum(run.requested - run.completed for run in runs),
        "latency_mean": statistics.fmean(latencies),
        "latency_median": statistics.median(latencies),
        "latency_p50": statistics.median(latencies),
        "stage_durations_mean": {
            name: statistics.fmean(run.stages_s[name] for run in runs if name in run.stages_s)
            for name in sorted(stages)
        },
        "latencies_by_run_s": [list(run.latencies_s) for run in runs],
    }
    workload = {"name": case.name, "num-prompts": case.requests, **dict(case.workload)}
    return {
        "test_name": case.test_name,
        "timestamp": at.strftime("%Y%m%d-%H%M%S"),
        "server_params": {"command": list(case.command)},
        "benchmark_params": json.loads(json.dumps(workload)),
        "result": result,
        "commit_sha": sha,
    }
