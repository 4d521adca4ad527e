"""Two revisions of a toy repository, measured for real behind the sandbox."""

import json
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from typer.testing import CliRunner

from perf_runner.checkout import import_repository
from perf_runner.experiment import CanceledError, Experiment, Hooks
from perf_runner.gate import GateSettings
from perf_runner.measure import measure_case
from perf_runner.models import Arm, BenchmarkCase, Block, Outcome, Sample
from perf_runner.plan import GateOverrides, Plan, decide, progress_of, recovery_of, run_order, settings_for
from perf_runner.workspace import Request, Workspace

COMMAND_LINE = CliRunner()


@pytest.fixture
def measure(toy, tmp_path, sandbox, quick, machine):
    """Measure `head` against `base` of the toy as it stands when this is called."""

    def run(
        base, head, case="session", vs=None, stored=(), hooks=None, overrides=None, budget=None, where=machine
    ):
        repository = import_repository(toy.folder, tmp_path / f"git-{len(list(tmp_path.iterdir()))}")
        arms = [("base", base), *([("vs", vs)] if vs else []), ("head", head)]
        request = Request(tuple(arms), case, overrides or quick, budget)
        plan, places = Workspace(repository, repository.folder, sandbox).prepare(request)
        return Experiment(plan, places, hooks or Hooks()).run(stored, where)

    return run


def broken_benchmark(statement):
    """Return a session whose every run does `statement` with `document`."""
    return (
        "import json, sys, time, toy\n"
        'print(json.dumps({"ready": True}), flush=True)\n'
        "for line in sys.stdin:\n"
        "    started = time.perf_counter(); toy.work(); took = time.perf_counter() - started\n"
        '    document = {"latencies_s": [took], "requested": 1, "completed": 1, "workload": {"size": 7}}\n'
        f"    {statement}\n"
        "    print(json.dumps(document), flush=True)\n"
    )


@pytest.mark.parametrize("case", ["session", "command", "operator"])
def test_a_slower_head_is_a_regression(case, toy, measure):
    base = toy.git("rev-parse", "HEAD")
    result = measure(base, toy.slower(1.6), case)
    assert result.error is None
    assert result.decision.decision is Outcome.REGRESSION
    assert 45 < result.decision.change_pct < 75
    assert result.decision.low_pct > 0
    assert all(len(block.arms[arm]) == 2 for block in result.blocks for arm in ("base", "head"))
    assert result.blocks[0].order == ("base", "head", "head", "base")


def test_the_same_revision_twice_is_no_regression(toy, measure):
    sha = toy.git("rev-parse", "HEAD")
    result = measure(sha, sha, where=None)
    assert result.decision.decision is Outcome.NO_REGRESSION
    assert result.machine.cpu_cores >= 1
    assert result.machine.noise_probe_pct > 0


def test_a_faster_head_is_called_an_improvement(toy, measure):
    base = toy.slower(2)
    result = measure(base, toy.slower(1))
    assert result.decision.decision is Outcome.NO_REGRESSION
    assert result.decision.improved


def test_a_third_revision_runs_in_the_same_blocks(toy, measure):
    parent = toy.git("rev-parse", "HEAD")
    culprit, fix = toy.slower(2), toy.slower(1.1)
    result = measure(parent, fix, vs=culprit)
    assert result.blocks[0].order == ("base", "vs", "head", "head", "vs", "base")
    assert min(result.blocks[0].seconds("vs")) > 1.5 * max(result.blocks[0].seconds("base"))
    assert result.decision.change_pct < 40
    assert 60 < result.recovery.recovered_pct < 110
    assert result.recovery.residual_pct == pytest.approx(result.decision.change_pct)


def test_a_head_that_makes_its_own_benchmark_fast_is_measured_with_the_bases(toy, measure):
    base = toy.git("rev-parse", "HEAD")
    toy.slower(1.6)
    head = toy.commit({"bench/run.py": broken_benchmark('document["latencies_s"] = [0.001]')})
    result = measure(base, head)
    assert result.decision.decision is Outcome.REGRESSION
    assert any("changes its own benchmark" in note for note in result.notes)


def test_a_case_that_only_the_head_has_is_run_and_said(toy, measure):
    base = toy.commit({".github/prgate.toml": "[perf]\n"})
    config = '[[perf.cases]]\nname = "new"\ncommand = ["python", "-m", "bench.run", "2"]\nprior_sd = 0.02\n'
    result = measure(base, toy.commit({".github/prgate.toml": config}), "new")
    assert any("Only the head has the case new" in note for note in result.notes)
    assert result.decision is not None


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("raise RuntimeError('boom')", "ended before its answer"),
        ("document['latencies_s'] = [float('nan')]", "NaN"),
        ("document['latencies_s'] = [0.0]", "the template of a run that never was"),
        ("document['latencies_s'] = [-1.0]", "broken clock"),
        ("document['latencies_s'] = [True]", "no finite number"),
        ("document['latencies_s'] = ['1']", "no finite number"),
        ("document['latencies_s'] = []", "list of 1 to"),
        ("document['requested'] = 2", "1 of 2 requests were completed"),
        ("document = {'error': 'out of memory'}", "out of memory"),
        ("document = {'unrelated': 1}", "neither latencies_s nor latency_median"),
        ("document['latencies_s'] = [took, 5.0]; document['completed'] = document['requested'] = 2", "5.0"),
        ("document = 'x' * 2_000_000; print('{' + document, flush=True)", "larger than"),
        ("document = {}; print('x' * 20_000_000, flush=True)", "the output limit"),
        ("document = [document]; sys.stdout.flush(); time.sleep(60)", "no answer within"),
    ],
)
def test_a_run_that_is_no_measurement_is_refused_and_never_a_pass(statement, said, toy, measure):
    base = toy.commit({"bench/run.py": broken_benchmark(statement)})
    text = (
        (toy.folder / ".github/prgate.toml")
        .read_text()
        .replace("timeout_s = 20", f"timeout_s = {1.5 if 'sleep' in statement else 8}")
    )
    base = toy.commit({".github/prgate.toml": text})
    result = measure(base, base)
    assert result.decision is None
    assert result.error.startswith("base: ") or "base reports" in result.error
    assert said in result.error


def test_unequal_work_ends_the_experiment_at_once(toy, measure):
    size = "document['workload'] = {'size': toy.SIZE}"
    toy.commit({"bench/run.py": broken_benchmark(size)})
    product = (toy.folder / "toy.py").read_text()
    base = toy.commit({"toy.py": product + "SIZE = 512\n"})
    head = toy.commit({"toy.py": product + "SIZE = 256\n"})
    result = measure(base, head)
    assert result.decision is None
    assert result.error == "unequal work: size is 512 for base and 256 for head"


def test_arms_on_different_kernel_paths_are_compared_and_it_is_said(toy, measure):
    toy.commit({"bench/run.py": broken_benchmark("document['path_log'] = {toy.PATH: 3}")})
    product = (toy.folder / "toy.py").read_text()
    base = toy.commit({"toy.py": product + "PATH = 'eager'\n"})
    result = measure(base, toy.commit({"toy.py": product + "PATH = 'fused'\n"}))
    assert result.decision is not None
    assert "The arms took different kernel paths (base: eager; head: fused)." in result.notes


def test_a_revision_that_turns_back_the_clock_is_found_out(toy, measure):
    base = toy.git("rev-parse", "HEAD")
    liar = "import time\nclock, start = time.perf_counter, time.perf_counter()\n"
    liar += "time.perf_counter = lambda: start + (clock() - start) / 10\n"
    liar += "def work():\n    time.sleep(0.03)\n"
    result = measure(base, toy.commit({"toy.py": liar}))
    assert result.decision is None
    assert "do not time the same part of their work" in result.error


def test_a_head_that_does_not_start_says_which_arm_and_why(toy, measure):
    base = toy.git("rev-parse", "HEAD")
    result = measure(base, toy.commit({"toy.py": "raise SystemExit('no such kernel')\n"}))
    assert result.decision is None
    assert result.error.startswith("head: the benchmark ended before its start")
    assert "no such kernel" in result.error


def test_stored_blocks_are_replayed_and_not_measured_again(toy, measure):
    base = toy.git("rev-parse", "HEAD")
    head, kept = toy.slower(1.6), []
    first = measure(base, head, hooks=Hooks(on_block=kept.append))
    assert tuple(kept) == first.blocks
    again = measure(
        base, head, stored=first.blocks, hooks=Hooks(on_block=lambda block: pytest.fail("measured"))
    )
    assert again.decision == first.decision
    resumed = measure(base, head, stored=first.blocks[:1])
    assert resumed.blocks[0] == first.blocks[0]
    assert resumed.blocks[1].number == 1


def test_the_time_budget_ends_an_experiment_inconclusive(toy, measure):
    sha = toy.git("rev-parse", "HEAD")
    undecidable = GateOverrides(margin=0.0001, max_blocks=50, prior_sd=0.5)
    started = time.monotonic()
    result = measure(sha, sha, overrides=undecidable, budget=3.0)
    assert time.monotonic() - started < 10
    assert result.decision.decision is Outcome.INCONCLUSIVE
    assert "time budget of 3 s ran out" in result.decision.why
    assert result.blocks


def test_an_experiment_is_canceled_in_the_middle_of_a_run(toy, tmp_path, sandbox):
    sha = toy.slower(250)
    repository = import_repository(toy.folder, tmp_path / "git")
    request = Request((("base", sha), ("head", sha)), "command")
    plan, places = Workspace(repository, tmp_path, sandbox).prepare(request)
    experiment = Experiment(plan, places)
    threading.Timer(0.8, experiment.cancel).start()
    started = time.monotonic()
    with pytest.raises(CanceledError):
        experiment.run()
    assert time.monotonic() - started < 6


def test_progress_is_told_after_every_run(toy, measure):
    sha, told = toy.git("rev-parse", "HEAD"), []
    result = measure(sha, sha, hooks=Hooks(on_progress=told.append))
    assert [progress.runs_done for progress in told] == list(range(1, 4 * len(result.blocks) + 1))
    assert told[-1].low_pct is not None


def test_the_command_prints_one_document_and_its_exit_code_is_the_finding(toy, tmp_path, monkeypatch):
    from bot.cli import build_app

    base = toy.git("rev-parse", "HEAD")
    head = toy.slower(1.6)
    options = ["experiment", "--repo", str(toy.folder), "--case", "session", "--json"]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    slower = COMMAND_LINE.invoke(build_app(), [*options, "--base", base, "--head", head])
    document = json.loads(slower.stdout)
    assert (slower.exit_code, document["decision"]) == (1, "regression")
    assert {
        "why",
        "change_pct",
        "low_pct",
        "high_pct",
        "margin_pct",
        "blocks_used",
        "machine",
    } <= document.keys()
    assert not list(tmp_path.glob("prgate-*"))
    same = COMMAND_LINE.invoke(build_app(), [*options, "--base", base, "--head", base])
    assert (same.exit_code, json.loads(same.stdout)["decision"]) == (0, "no_regression")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--repo", "{repo}", "--base", "nope", "--head", "HEAD", "--case", "session"],
            "no commit is named 'nope'",
        ),
        (
            ["--repo", "{repo}", "--base", "HEAD", "--head", "HEAD", "--case", "nope"],
            "there are: session, command",
        ),
        (
            ["--repo", "/absent", "--base", "HEAD", "--head", "HEAD", "--case", "session"],
            "/absent does not exist",
        ),
        (["--repo", "{repo}", "--base", "HEAD", "--head", "HEAD", "--case", "x", "--cases", "/no"], "/no"),
        (
            ["--repo", "{repo}", "--base", "HEAD", "--head", "HEAD", "--case", "session", "--margin", "7"],
            "margin",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(options, said, toy, capsys):
    from bot.cli import run

    code = run(["experiment", *(part.replace("{repo}", str(toy.folder)) for part in options)])
    printed = capsys.readouterr()
    assert code == 2
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_without_a_sandbox_nothing_is_run_and_the_exit_code_is_3(toy):
    options = ["--repo", str(toy.folder), "--base", "HEAD", "--head", "HEAD", "--case", "session"]
    command = [sys.executable, "-m", "perf_runner", "experiment", *options]
    environment = {"PATH": "/nowhere"}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 3
    assert finished.stderr.startswith(
        "prgate: untrusted code is not run here: prlimit and setpriv are missing"
    )
    assert finished.stdout == ""


def test_our_own_demo_may_run_unconfined_and_the_result_says_so(toy, tmp_path, quick, machine, monkeypatch):
    monkeypatch.setenv("PRGATE_LANE_KEY", "a secret")
    spill = "import os; document['workload'] = {'seen': [name for name in os.environ if 'PRGATE' in name]}"
    base, head = toy.commit({"bench/run.py": broken_benchmark(spill)}), toy.slower(1.6)
    workspace = Workspace(import_repository(toy.folder, tmp_path / "git"), tmp_path, None)
    request = Request((("base", base), ("head", head)), "session", quick)
    result = measure_case(workspace, request, machine=machine)
    assert result.decision.decision is Outcome.REGRESSION
    assert "The code ran WITHOUT a sandbox: this host offers none, and the caller allowed it." in result.notes
    assert result.blocks[0].arms["head"][0].workload == {"seen": "[]"}


def test_a_case_can_ask_for_a_process_of_its_own_for_every_run(toy, measure):
    counter = "document['workload'] = {'runs': globals().setdefault('done', [])}; done.append(1)"
    text = (
        (toy.folder / ".github/prgate.toml")
        .read_text()
        .replace('"session"\n', '"session"\nprocess = "run"\n', 1)
    )
    base = toy.commit({"bench/run.py": broken_benchmark(counter), ".github/prgate.toml": text})
    result = measure(base, base)
    assert result.error is None
    assert {str(sample.workload["runs"]) for block in result.blocks for sample in block.arms["base"]} == {
        "[1]"
    }


def plan_of(*names, **settings):
    arms = tuple(Arm(name=name, sha="0" * 40) for name in names)
    return Plan(BenchmarkCase(name="pure"), arms, GateSettings(**settings))


def block_of(**arms):
    return Block(arms={name: tuple(Sample(seconds=s) for s in values) for name, values in arms.items()})


def test_the_order_of_a_block_cancels_a_steady_drift():
    assert run_order(["base", "head"]) == ("base", "head", "head", "base")
    assert run_order(["a", "b", "c"]) == ("a", "b", "c", "c", "b", "a")


def test_the_gate_compares_the_first_arm_with_the_last():
    blocks = [block_of(base=(1.0, 1.001), vs=(9.0, 9.0), head=(1.0, 1.002))] * 4
    decision = decide(blocks, plan_of("base", "vs", "head", prior_sd=0.005))
    assert decision.decision is Outcome.NO_REGRESSION
    assert decide([], plan_of("base", "head")) is None
    assert progress_of([], plan_of("base", "head"), 0, 0.0).low_pct is None


def test_a_fix_is_told_what_it_took_back_whichever_arm_was_the_fast_one():
    slow, fast, fixed = (2.0, 2.002), (1.0, 1.001), (1.1, 1.101)
    as_a_pull_request = [block_of(base=slow, parent=fast, head=fixed)] * 4
    by_hand = [block_of(base=fast, vs=slow, head=fixed)] * 4
    one = recovery_of(as_a_pull_request, plan_of("base", "parent", "head", prior_sd=0.005))
    other = recovery_of(by_hand, plan_of("base", "vs", "head", prior_sd=0.005))
    assert one == other
    assert one.residual_pct == pytest.approx(10, abs=0.2)
    assert 85 < one.recovered_pct < 87  # in logs: 1 - ln 1.1 / ln 2
    unchanged = [block_of(base=fast, vs=fast, head=fast)] * 4
    assert recovery_of(unchanged, plan_of("base", "vs", "head", prior_sd=0.005)) is None


def test_what_is_asked_of_the_gate_goes_before_the_case_and_the_noise():
    case = BenchmarkCase(name="a", margin=0.05, prior_sd=0.02)
    assert settings_for(case, GateOverrides()).margin == 0.05
    assert settings_for(case, GateOverrides(margin=0.01)).margin == 0.01
    silent = BenchmarkCase(name="a")
    assert settings_for(silent, GateOverrides(prior_sd=0.025)).margin == 0.05
    assert settings_for(silent, GateOverrides()).prior_sd is None
