"""Cases from a repository's configuration and from suites in vllm-omni's schema."""

import json
import time

import pytest

from perf_runner.cases import (
    CaseError,
    cases_for_paths,
    find_case,
    load_cases,
    load_suite,
    matches,
    parse_config,
)
from perf_runner.models import TargetKind

CONFIG = """
mode = "comment"
[perf]
when = "paths"
[[perf.cases]]
name = "small"
command = ["python", "bench.py"]
[[perf.cases]]
name = "large"
command = ["python", "bench.py", "--large"]
[[perf.paths]]
glob = "lib/**/attention*.py"
cases = ["small", "large"]
[[perf.paths]]
glob = "lib/rope.py"
cases = ["small"]
"""


def suite(**changes):
    test = {
        "test_name": "serve_one",
        "description": "one card",
        "mark": [{"hardware_marks": {"res": {"cuda": "H100"}, "num_cards": 2}}, "full_model"],
        "server_type": "vllm-omni",
        "server_params": {
            "model": "m/x",
            "serve_args": {"flag": True, "off": False, "n": 2, "deep": {"a": [1]}},
        },
        "benchmark_params": [
            {
                "name": "512",
                "task": "t2i",
                "width": 512,
                "num-prompts": 10,
                "max-concurrency": 1,
                "baseline": {"H100": {"latency_mean": 2.5, "throughput_qps": 0.4}},
            }
        ],
    }
    return [test | changes]


@pytest.fixture
def write(tmp_path):
    def to_file(value, name="suite.json"):
        path = tmp_path / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    return to_file


def test_changed_paths_call_for_their_cases_and_say_why():
    config = parse_config(CONFIG)
    assert cases_for_paths(config, ["lib/a/b/attention_block.py", "README.md"]) == {
        "small": ("lib/**/attention*.py",),
        "large": ("lib/**/attention*.py",),
    }
    assert cases_for_paths(config, ["lib/rope.py"]) == {"small": ("lib/rope.py",)}
    assert cases_for_paths(config, ["docs/rope.md"]) == {}


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("**", "a/b/c", True),
        ("a/**", "a/b/c", True),
        ("a/**", "a", True),
        ("a/**/c", "a/c", True),
        ("a/**/c", "a/b/b/c", True),
        ("*.py", "a/b.py", False),
        ("**/*.py", "b.py", True),
        ("a/*/c", "a/b/b/c", False),
        ("/a/b", "a/b", True),
        ("A", "a", False),
        ("a?c", "abc", True),
        ("[ab].py", "b.py", True),
    ],
)
def test_globs_span_folders_only_with_two_stars(glob, path, expected):
    assert matches(glob, path) is expected


def test_a_glob_made_to_be_slow_is_not():
    started = time.monotonic()
    matches("/".join(["**", "a*a*a*a*a*b"] * 10), "/".join(["a" * 200] * 40))
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[perf", "no TOML"),
        ("a = " + "9" * 5_000, "no TOML"),
        ("a = " + "[" * 20_000, "no TOML"),
        ("[perf]\nwhen = 'always'", "when"),
        ("[perf]\ncolour = 1", "colour"),
        ("[perf]\nmax_blocks = 1", "max_blocks"),
        ("[[perf.cases]]\nname = 'a'\ntimeout_s = -1", "cases.0.timeout_s"),
        ("[[perf.cases]]\nname = 'a'\n[[perf.cases]]\nname = 'a'", "two cases"),
        ("[[perf.paths]]\nglob = 'x'\ncases = ['nope']", "nope"),
    ],
)
def test_a_wrong_configuration_says_where(text, said):
    with pytest.raises(CaseError, match=r"\.github/prgate\.toml") as error:
        parse_config(text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_case_is_answered_with_those_there_are():
    with pytest.raises(CaseError, match="there are: small, large"):
        find_case(parse_config(CONFIG).cases, "smal")


def test_a_suite_becomes_cases_with_server_load_and_baseline(write):
    (entry,) = load_suite(write(suite()))
    case = entry.case
    assert (case.test_name, case.name, case.target) == ("serve_one", "512", TargetKind.SERVING)
    assert (case.requests, case.warmup_requests) == (10, 1)
    assert case.workload["width"] == 512
    assert "baseline" not in case.workload
    assert case.command == (
        *("vllm", "serve", "m/x", "--omni", "--port", "{port}"),
        *("--flag", "--n", "2", "--deep", '{"a":[1]}'),
    )
    assert (entry.hardware, entry.cards) == ({"cuda": "H100"}, 2)
    assert entry.baseline == {"H100": {"latency_mean": 2.5, "throughput_qps": 0.4}}
    assert find_case([case], "serve_one/512") is case


def test_a_sweep_zips_its_lists_and_its_baseline(write):
    sweep = {
        "name": "many",
        "num-prompts": [20, 40],
        "max-concurrency": [1, 2],
        "baseline": {"H100": {"latency_mean": [2.4, 3.0], "peak_memory_mb_mean": 5}},
    }
    one, two = load_suite(write(suite(benchmark_params=[sweep])))
    assert (one.case.name, one.case.requests, one.case.workload["max-concurrency"]) == ("many_c1", 20, 1)
    assert (two.case.name, two.case.requests, two.case.workload["max-concurrency"]) == ("many_c2", 40, 2)
    assert two.baseline == {"H100": {"latency_mean": 3.0, "peak_memory_mb_mean": 5.0}}


def test_the_old_flat_baseline_is_read_too(write):
    entry = {"name": "a", "baseline": {"latency_mean": 4, "throughput_qps": 0.2}}
    (case,) = load_suite(write(suite(benchmark_params=[entry])))
    assert case.baseline == {"": {"latency_mean": 4.0, "throughput_qps": 0.2}}
    (without,) = load_suite(write(suite(benchmark_params=[{"name": "a"}])))
    assert without.baseline == {}


def test_parameters_can_lie_in_a_file_beside_the_suite(write):
    write([{"name": "referred", "num-prompts": 3}], "shared.json")
    (case,) = load_cases(str(write(suite(benchmark_params={"$ref": "shared.json"}))))
    assert (case.name, case.requests) == ("referred", 3)


@pytest.mark.parametrize("name", ["../../../../../../../../etc/passwd", "/etc/passwd", "absent.json"])
def test_a_reference_cannot_leave_the_folder(name, write):
    with pytest.raises(CaseError, match=r"\$ref"):
        load_cases(str(write(suite(benchmark_params={"$ref": name}))))


def test_a_server_configured_by_inline_files_has_no_command(write):
    server = {"model": "m/x", "serve_args": {"stage-config-inline": {"a": 1}}}
    (case,) = load_cases(str(write(suite(server_params=server))))
    assert case.command == ()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("{", "no JSON"),
        ({}, "must be a JSON list"),
        ([1], "entry 1"),
        (suite(benchmark_params=[]), "at least one"),
        (suite(benchmark_params=[{}]), "name"),
        (suite(benchmark_params=[{"name": "a", "num-prompts": "x"}]), "serve_one"),
        (suite(benchmark_params=[{"name": "a", "num-prompts": 0}]), "requests"),
        (
            suite(benchmark_params=[{"name": "a", "num-prompts": [1, 2], "max-concurrency": [1]}]),
            "one length",
        ),
        (suite(benchmark_params=[{"name": "a", "num-prompts": []}]), "one length"),
        (suite(server_params=[]), "serve_one"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_a_broken_suite_says_which_test(value, said, write):
    with pytest.raises(CaseError) as error:
        load_cases(str(write(value)))
    assert said in str(error.value)


def test_an_absent_file_is_named():
    with pytest.raises(CaseError, match=r"/absent\.json cannot be read"):
        load_cases("/absent.json")
