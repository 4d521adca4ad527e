"""What runs inside the sandbox: the timing child, and the serving child with a server of the revision."""

import json
import math
import statistics
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf_runner.models import BenchmarkCase, TargetKind
from perf_runner.results import ResultError, last_document, parse_sample
from perf_runner.sandbox import Limits
from perf_runner.targets import TargetError, Workplace, opener_for
from perf_runner.targets.operator import is_entry
from perf_runner.targets.serving import default_body, result_record

SERVER = """\
import json, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

busy = threading.Lock()

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with busy:
            time.sleep(0.02)
        good = asked.get("seed") != 3 or "--broken" not in sys.argv
        body = json.dumps({"path_log": {"eager": 2}, "stages_s": {"denoise": 0.02}}).encode()
        self.send_response(200 if good else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

print("server talk on standard output")
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture
def open_arm(tmp_path, sandbox):
    """Open an arm of a case over the given files; everything is closed at the end of the test."""
    opened = []

    def start(files, **case):
        source = tmp_path / f"source-{len(opened)}"
        source.mkdir(mode=0o755)
        for name, text in files.items():
            (source / name).parent.mkdir(mode=0o755, exist_ok=True)
            (source / name).write_text(text)
        made = BenchmarkCase(**{"name": "case", "timeout_s": 20.0, **case})
        place = Workplace(source, sandbox, Path(sys.executable), limits=Limits(wall_s=30))
        opened.append(opener_for(made.target)(made, place))
        return opened[-1]

    yield start
    for arm in opened:
        arm.close()


def operator(open_arm, text, **case):
    files = {"mine.py": text}
    return open_arm(files, target=TargetKind.OPERATOR, command=("mine:make",), **case)


def test_a_function_is_timed_after_its_warm_up(open_arm):
    arm = operator(
        open_arm,
        "import time\ncalls = []\n"
        "def make(workload):\n"
        "    print('noise on standard output')\n"
        "    def request():\n"
        "        calls.append(1); print('more'); time.sleep(0.5 if len(calls) <= 2 else 0.02)\n"
        "    request.describe = lambda: {'workload': {**workload, 'calls': len(calls)}}\n"
        "    return request\n",
        warmup_requests=2,
        workload={"size": 7},
    )
    arm.wait_until_ready()
    measured = arm.run(3)
    assert measured.sample.workload == {"size": 7, "calls": 5}
    assert len(measured.sample.latencies_s) == 3
    assert 0.02 <= measured.sample.seconds < 0.2
    assert measured.wall_s >= sum(measured.sample.latencies_s)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise ImportError('no such layer')", "ImportError: no such layer"),
        ("def other(): pass", "has no attribute 'make'"),
        ("def make(workload): raise ValueError('bad size')", "ValueError: bad size"),
        ("def make(workload): return lambda: 1 / 0", "ZeroDivisionError"),
        ("import os\ndef make(workload): os._exit(3)", "ended before its start: it ended with code 3"),
    ],
)
def test_a_function_that_does_not_start_says_why(text, said, open_arm):
    with pytest.raises(TargetError) as error:
        operator(open_arm, text).wait_until_ready()
    assert said in str(error.value)


def test_a_function_that_fails_in_a_run_says_why(open_arm):
    body = "        calls.append(1); assert len(calls) < 3, 'third'\n"
    text = f"calls = []\ndef make(w):\n    def request():\n{body}    return request\n"
    arm = operator(open_arm, text, warmup_requests=1)
    arm.wait_until_ready()
    assert arm.run(1).sample.completed == 1
    with pytest.raises(TargetError, match="AssertionError: third"):
        arm.run(1)


@pytest.mark.parametrize("entry", ["mine", "mine:", ":make", "mine:make;x", "-m:x", "a b:c", "../x:make"])
def test_an_entry_that_names_no_function_is_refused(entry, open_arm):
    assert not is_entry(entry)
    with pytest.raises(TargetError, match="module:function"):
        open_arm({}, target=TargetKind.OPERATOR, command=(entry,))


def server(open_arm, *options, **case):
    command = ("python3", "server.py", "{port}", *options)
    return open_arm({"server.py": SERVER}, target=TargetKind.SERVING, command=command, **case)


def test_a_server_is_measured_in_a_closed_loop(open_arm):
    arm = server(open_arm, workload={"max-concurrency": 1})
    arm.wait_until_ready()
    sample = arm.run(5).sample
    assert (sample.requested, sample.completed, len(sample.latencies_s)) == (5, 5, 5)
    assert 0.02 <= sample.seconds < 0.2
    assert sample.path_log == {"eager": 2}
    assert sample.stages_s == {"denoise": 0.02}


def test_a_server_that_does_one_request_at_a_time_gets_slower_with_concurrency(open_arm):
    alone = server(open_arm, workload={"max-concurrency": 1})
    alone.wait_until_ready()
    crowded = server(open_arm, workload={"max-concurrency": 4})
    crowded.wait_until_ready()
    assert crowded.run(12).sample.seconds > 2 * alone.run(6).sample.seconds


def test_an_open_loop_counts_from_the_moment_a_request_was_due(open_arm):
    arm = server(open_arm, workload={"request-rate": 200.0})
    arm.wait_until_ready()
    latencies = sorted(arm.run(12).sample.latencies_s)
    assert latencies[-1] > 0.15  # a queue of twelve, 20 ms each, all due within some 60 ms
    assert latencies[-1] > 3 * latencies[0]


def test_a_failed_request_makes_the_run_no_measurement(open_arm):
    arm = server(open_arm, "--broken", workload={})
    arm.wait_until_ready()
    with pytest.raises(TargetError, match="4 of 5 requests were completed"):
        arm.run(5)


def test_a_server_that_dies_or_never_gets_healthy_is_said(open_arm):
    dying = open_arm({"server.py": "raise SystemExit(7)"}, target="serving", command=("python3", "server.py"))
    with pytest.raises(TargetError, match="ended with code 7 before it was healthy"):
        dying.wait_until_ready()
    deaf = server(open_arm, workload={"health": "/absent"}, timeout_s=1.5)
    with pytest.raises(TargetError, match=r"not healthy within|no start within"):
        deaf.wait_until_ready()


@pytest.mark.parametrize(
    "workload", [{"max-concurrency": 10**9}, {"request-rate": -1}, {"endpoint": "no-slash"}]
)
def test_a_load_that_cannot_be_is_refused(workload, open_arm):
    with pytest.raises(TargetError, match="cannot be served"):
        server(open_arm, workload=workload)


def test_a_suites_workload_becomes_a_request():
    work = {"width": 512, "height": 256, "num-inference-steps": 20}
    chat = default_body(work, "/v1/chat/completions")
    assert chat["extra_body"] == {"width": 512, "height": 256, "num_inference_steps": 20}
    assert default_body(work, "/v1/images/generations")["size"] == "512x256"


def test_runs_become_a_record_in_vllm_omnis_result_schema():
    from datetime import UTC, datetime

    case = BenchmarkCase(name="512", test_name="serve_one", requests=2, workload={"width": 512})
    runs = [
        parse_sample({"latencies_s": [1.0, 2.0], "stages_s": {"vae": 0.5}}, case),
        parse_sample({"latencies_s": [3.0, 6.0], "stages_s": {"vae": 0.7}}, case),
    ]
    record = result_record(case, runs, "f" * 40, datetime(2026, 9, 1, tzinfo=UTC))
    assert record["result"]["latency_mean"] == 3.0
    assert record["result"]["latency_median"] == 2.5
    assert record["result"]["completed_requests"] == 4
    assert record["result"]["stage_durations_mean"]["vae"] == pytest.approx(0.6)
    assert record["benchmark_params"] == {"name": "512", "num-prompts": 2, "width": 512}
    assert parse_sample(record, case).seconds == statistics.median(
        latency for run in runs for latency in run.latencies_s
    )


OMNI = {
    "test_name": "serve_one",
    "benchmark_params": {"name": "512", "width": 512, "serve_args": {"a": 1}, "baseline": {"H100": {}}},
    "result": {
        "completed_requests": 10,
        "failed_requests": 0,
        "latency_mean": 2.4,
        "latency_median": 2.3,
        "stage_durations_mean": {"diffuse": 2.0, "queue_wait_ms": 3.0},
        "peak_memory_mb_max": 55_000.0,
    },
}


def test_a_record_of_vllm_omni_is_read():
    case = BenchmarkCase(name="512", requests=10)
    sample = parse_sample(last_document(json.dumps([OMNI]).encode()), case)
    assert (sample.seconds, sample.requested, sample.completed) == (2.3, 10, 10)
    assert sample.stages_s["diffuse"] == 2.0
    assert sample.peak_memory_mb == 55_000.0
    assert sample.workload == {"name": "512", "width": 512, "serve_args": '{"a": 1}'}


def template():
    return {"result": {"completed_requests": 0, "failed_requests": 0, "latency_mean": 0, "latency_median": 0}}


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (b"", "printed nothing"),
        (b"all good\n", "no JSON document"),
        (b"{truncated", "no JSON document"),
        (b"[]", "holds 0 records"),
        (json.dumps([OMNI, OMNI]).encode(), "holds 2 records"),
        (json.dumps(template()).encode(), "no request was made"),
        (json.dumps({"latency_median": 0}).encode(), "never was"),
        (b'{"latency_median": Infinity}', "Infinity"),
        (b'{"latency_median": 1e999}', "no finite number"),
        (b'{"latency_median": ' + b"9" * 400 + b"}", "no finite number"),
        (b'{"latencies_s": [1, 2], "completed": 1}', "2 latencies"),
        (b'{"latencies_s": [1], "completed": -1}', "no count"),
        (b'{"latencies_s": [1], "failed": 1.5}', "no count"),
        (b"[" * 100_000, "nested too deeply"),
        (b"x" * 2 * 1024**2, "larger than"),
        (json.dumps(OMNI | {"result": OMNI["result"] | {"failed_requests": 2}}).encode(), "10 of 12"),
    ],
)
def test_a_result_that_is_no_measurement_is_refused(output, said):
    case = BenchmarkCase(name="512", requests=10)
    with pytest.raises(ResultError) as error:
        parse_sample(last_document(output), case)
    assert said in str(error.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
FIELDS = (
    *("latencies_s", "requested", "completed", "failed", "latency_median", "num_prompts", "result", "error"),
    *("workload", "path_log", "stages_s", "stage_durations_mean", "output_hash", "peak_memory_mb"),
)


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6), st.lists(st.floats(0.001, 10), max_size=3))
def test_whatever_a_stranger_prints_is_a_run_or_a_refusal(document, latencies):
    case = BenchmarkCase(name="a")
    refusals = []
    for candidate in (document, {**document, "latencies_s": latencies}, {"result": document}):
        try:
            sample = parse_sample(last_document(json.dumps(candidate).encode()), case)
        except ResultError as error:
            refusals.append(str(error))
            continue
        assert sample.valid
        assert 0 < sample.seconds < math.inf
        json.loads(sample.model_dump_json(), parse_constant=pytest.fail)
    assert not any("\n" in refusal for refusal in refusals)


def test_what_a_result_says_beside_its_latencies_is_bounded():
    case = BenchmarkCase(name="a")
    document = {
        "latencies_s": [1.0],
        "path_log": {f"path {number}": 1 for number in range(10_000)} | {"bad": "x", "worse": -1},
        "workload": {"prompt": "x" * 100_000, "nested": {"a": [1] * 10_000}},
        "stages_s": "no table",
        "output_hash": ["no text"],
        "peak_memory_mb": "much",
    }
    sample = parse_sample(document, case)
    assert len(sample.path_log) <= 200
    assert all(len(str(value)) <= 500 for value in sample.workload.values())
    assert (sample.stages_s, sample.output_hash, sample.peak_memory_mb) == ({}, None, None)


KERNELS = Path(__file__).parents[2] / "kernels"


@pytest.mark.parametrize(("path", "counted"), [("auto", "adaln.eager:"), ("eager", "eager")])
def test_an_operator_of_the_registry_is_timed_by_its_name(open_arm, path, counted):
    package = {
        f"prgate_kernels/{file.name}": file.read_text() for file in (KERNELS / "prgate_kernels").glob("*.py")
    }
    workload = {"operator": "adaln", "tokens": 64, "dtype": "float32", "device": "cpu", "path": path}
    arm = open_arm(
        package, target=TargetKind.OPERATOR, command=("prgate_kernels.timed:request",), workload=workload
    )
    arm.wait_until_ready()
    sample = arm.run(3).sample
    assert len(sample.latencies_s) == 3
    assert all(name.startswith(counted) for name in sample.path_log)
    assert sample.workload["operator"] == "adaln"
    assert sample.output_hash


def test_an_operator_that_is_not_there_is_named():
    from prgate_kernels.timed import request

    with pytest.raises(ValueError, match="there are qk_norm_rope"):
        request({"operator": "nothing"})
