"""`bench list|run|serve-dit` and `calibrate` at small size, by the real command line and over HTTP."""

import base64
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import torch
import typer
from typer.testing import CliRunner

from perf_runner.acceptance import accept
from perf_runner.bench import cli, measure, page
from perf_runner.bench.case_run import suite_cases
from perf_runner.bench.serve_dit import MOST_BODY_BYTES, DitServer, Engine, prompt_seed
from perf_runner.bench.tables import TABLES, ulps_apart
from perf_runner.bench.world import World, open_world
from perf_runner.bench_app import bench_app
from perf_runner.evidence import read_evidence


@pytest.fixture(autouse=True)
def no_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


@pytest.fixture(scope="module")
def world() -> World:
    return open_world("small")


def command_line() -> typer.Typer:
    app = typer.Typer()
    bench_app.registered_commands = [
        command for command in bench_app.registered_commands if command.callback not in OURS
    ]
    cli.mount(app)
    app.add_typer(bench_app)
    return app


OURS = {cli.list_cases, cli.run, cli.serve_dit}


def test_the_suite_holds_the_published_cases() -> None:
    names = [f"{entry.case.test_name}/{entry.case.name}" for entry in suite_cases()]
    assert "test_qwen_image_single_device/512x512_steps20" in names
    assert "test_qwen_image_single_device_step_execution/512x512_steps20_high_concurrency_c8" in names
    assert "test_qwen_image_single_device/1536x1536_steps35" in names


def test_a_case_run_becomes_a_record_that_the_acceptance_list_takes(tmp_path: Path) -> None:
    """Small size: eager before, fused after, all raw runs, hashes, path log, memory."""
    out = tmp_path / "record.json"
    case = "test_qwen_image_single_device/512x512_steps20"
    arguments = ["bench", "run", case, "--size", "small", "--path", "fused", "--json", "--out", str(out)]
    result = CliRunner().invoke(command_line(), arguments)
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)["cases"][0]
    assert json.loads(out.read_text()) == record
    assert record["after"]["path"] == "fused"
    assert record["before"]["path"] == "eager"
    assert len(record["after"]["runs"]) == 3
    assert record["correctness"]["max_error"] < record["correctness"]["tolerance"]
    ((_, evidence),) = read_evidence(out.read_text(), "record")
    failed = {check.check: check.missing for check in accept(evidence).checks if not check.passed}
    assert set(failed) <= {"memory"}  # on a CPU the memory is the whole process's


def test_step_execution_runs_in_a_closed_loop_and_auto_obeys_the_gate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PRGATE_FUSED_QK_NORM_ROPE_MIN_TOKENS", "100000")
    case = "512x512_steps20_high_concurrency_c2"
    result = CliRunner().invoke(command_line(), ["bench", "run", case, "--size", "small", "--json"])
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)["cases"][0]
    assert record["path"] == "eager"
    assert record["after"]["max_concurrency"] == 2
    assert "before" not in record


@pytest.mark.parametrize("name", ["forward", "trajectory", "steps", "operators"])
def test_every_table_runs_small_and_is_rendered(world: World, name: str) -> None:
    table = TABLES[name](world, 2)
    text = page.render_all({name: json.loads(json.dumps(table))})
    assert text.startswith("## ")
    assert bool(table["rows"]) == (name != "operators" or world.device.type == "cuda")
    for missing in table["missing"]:
        assert f"{missing['path']}: not measured, {missing['why']}" in text


def test_tables_are_resumed_and_never_from_another_machine(world: World, tmp_path: Path) -> None:
    first = cli.run_tables(world, ["trajectory"], tmp_path)["trajectory"]
    again = cli.run_tables(world, ["trajectory"], tmp_path)["trajectory"]
    assert again == json.loads(json.dumps(first))
    path = tmp_path / "trajectory.json"
    path.write_text(path.read_text().replace(first["environment"]["cpu"], "another CPU"))
    assert cli.read_table(path, {"environment": first["environment"]}) is None
    path.write_text("{")
    assert cli.read_table(path, {}) is None


def test_a_denoise_table_gives_intervals_against_eager(world: World) -> None:
    table = TABLES["denoise"](world, 3)
    rows = {row["path"]: row for row in table["rows"]}
    assert rows["eager"]["change_pct"] == rows["eager"]["low_pct"] == 0.0
    assert rows["fused"]["low_pct"] <= rows["fused"]["change_pct"] <= rows["fused"]["high_pct"]
    assert any(name.startswith("qk_norm_rope.joint") for name in rows["fused"]["path_log"])
    assert "95 % interval" in page.render_all({"denoise": table})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bench", "run", "no-such-case"], "no case or table is named"),
        (["bench", "run", "512x512_steps20", "--size", "huge"], "must be auto, real or small"),
        (["bench", "run", "512x512_steps20", "--size", "small", "--path", "warp"], "no such path"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(command_line(), arguments)
    assert result.exit_code == 2
    assert says in " ".join(result.output.replace("│", " ").split())


def test_the_list_names_everything_that_can_be_run() -> None:
    listed = CliRunner().invoke(command_line(), ["bench", "list", "--json"])
    document = json.loads(listed.stdout)
    assert set(document) == {"cases", "tables", "groups"}
    assert {name.removeprefix("qwen-image-") for name in document["tables"]} == set(TABLES)
    assert "qwen-image-forward" in CliRunner().invoke(command_line(), ["bench", "list"]).stdout


def test_calibration_is_stored_and_read_by_the_gate(tmp_path: Path) -> None:
    from prgate_kernels.crossover import calibrated_default

    out = tmp_path / "calibration.json"
    result = CliRunner().invoke(command_line(), ["calibrate", "--json", "--out", str(out)])
    assert result.exit_code == 0, result.output
    found = {entry["operator"]: entry for entry in json.loads(result.stdout)["calibrations"]}
    entry = found["qk_norm_rope"]
    assert calibrated_default(entry["device"], entry["torch"], entry["triton"], out) == entry["min_tokens"]


def test_busy_time_is_the_union_of_what_overlaps() -> None:
    spans = [(0.0, 10.0, "a"), (5.0, 12.0, "b"), (20.0, 30.0, "a"), (22.0, 25.0, "Memcpy HtoD")]
    busy = measure.summarize_spans(spans)
    assert busy is not None
    assert (busy.busy_ms, busy.span_ms, busy.kernels) == (0.022, 0.03, 4)
    assert busy.gaps_ms == pytest.approx(0.008)
    assert busy.top_ms["a"] == 0.02
    assert measure.summarize_spans([]) is None


def test_an_interval_covers_a_known_change_and_refuses_nothing_to_compare() -> None:
    base = [1.0 + 0.01 * i for i in range(20)]
    change, low, high = measure.ratio_interval(base, [value * 1.1 for value in base])
    assert (change, low, high) == pytest.approx((10.0, 10.0, 10.0))
    with pytest.raises(ValueError, match="no pair"):
        measure.ratio_interval([], [])


def test_ulps_count_neighbours_across_zero() -> None:
    one = torch.tensor([1.0, -1.0, 0.0], dtype=torch.bfloat16)
    near = torch.tensor([1.0078125, -1.0078125, -0.0], dtype=torch.bfloat16)
    assert ulps_apart(near, one) == {"differing_pct": 66.6667, "above_one_ulp_pct": 0.0, "most_ulps": 1}


@pytest.fixture(scope="module")
def address(world: World) -> Iterator[str]:
    with DitServer(Engine(world, "fused"), ("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def ask(address: str, **changes: object) -> httpx.Response:
    body = {"prompt": "a lighthouse", "size": "64x48", "num_inference_steps": 2, **changes}
    return httpx.post(f"{address}/v1/images/generations", json=body, timeout=60)


def test_an_image_comes_over_http_and_the_seed_fixes_it(address: str) -> None:
    first, again, other = ask(address, seed=3), ask(address, seed=3), ask(address, seed=4)
    image = first.json()["data"][0]
    assert base64.b64decode(image["b64_json"]).startswith(b"\x89PNG")
    assert image["output_hash"] == again.json()["data"][0]["output_hash"]
    assert image["output_hash"] != other.json()["data"][0]["output_hash"]
    assert any(name.startswith("qk_norm_rope.joint") for name in image["path_log"])
    assert image["stage_durations"]["diffuse"] > 0
    assert prompt_seed("a") != prompt_seed("b")


def test_a_chat_that_asks_for_an_image_gets_one(address: str) -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "a lighthouse"}]}
    extra = {"width": 64, "height": 48, "num_inference_steps": 1, "seed": 1}
    body = {"messages": [message], "extra_body": extra}
    answer = httpx.post(f"{address}/v1/chat/completions", json=body, timeout=60).json()
    content = answer["choices"][0]["message"]["content"][0]
    assert content["image_url"]["url"].startswith("data:image/png;base64,")


def test_health_and_models_answer(address: str) -> None:
    assert httpx.get(f"{address}/health").json() == {"status": "ok"}
    assert httpx.get(f"{address}/v1/models").json()["data"][0]["id"] == "qwen-image-small"
    assert httpx.get(f"{address}/elsewhere").status_code == 404


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"size": "big"}, "size must be"),
        ({"size": "64x50"}, "multiples of 16"),
        ({"size": "9999x9999"}, "multiples of 16"),
        ({"size": "64x9984"}, "height"),
        ({"n": 0}, "n must be"),
        ({"prompt": ""}, "prompt must be"),
        ({"num_inference_steps": 100000}, "steps"),
        ({"seed": -1}, "seed"),
    ],
)
def test_a_bad_request_is_refused_with_its_reason(
    address: str, changes: dict[str, object], says: str
) -> None:
    response = ask(address, **changes)
    assert response.status_code == 400
    assert says in response.json()["error"]["message"]


def test_a_body_that_is_no_json_object_is_refused(address: str) -> None:
    url = f"{address}/v1/images/generations"
    assert httpx.post(url, content=b"{").status_code == 400
    assert httpx.post(url, content=b"[1]").status_code == 400
    assert httpx.post(url, content=b" " * (MOST_BODY_BYTES + 1)).status_code == 400
