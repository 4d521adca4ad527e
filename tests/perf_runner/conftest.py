"""A toy repository whose benchmark sleeps, so that its figures hardly depend on the machine."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from perf_runner.checkout import Repository, import_repository
from perf_runner.machine import fingerprint
from perf_runner.models import Machine
from perf_runner.plan import GateOverrides
from perf_runner.sandbox import Sandbox, find_sandbox

PRODUCT = "import time\n\ndef work():\n    time.sleep({seconds})\n"
BENCHMARK = """\
import json, sys, time
from toy import work

def sample(requests):
    latencies = []
    for _ in range(requests):
        started = time.perf_counter()
        work()
        latencies.append(time.perf_counter() - started)
    return {"latencies_s": latencies, "requested": requests, "completed": requests, "workload": {"size": 7}}

if "--session" in sys.argv:
    work()
    print("talk that is no result")
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(sample(json.loads(line)["run"])), flush=True)
else:
    print("some talk first")
    print(json.dumps(sample(int(sys.argv[1]))))
"""
CONFIG = """\
[perf]
max_blocks = 6
time_budget_s = 60

[[perf.cases]]
name = "session"
target = "session"
command = ["python", "-m", "bench.run", "--session"]
harness = ["bench"]
requests = 3
timeout_s = 20
margin = 0.4
prior_sd = 0.05

[[perf.cases]]
name = "command"
target = "command"
command = ["python", "-m", "bench.run", "{requests}"]
harness = ["bench/**"]
requests = 3
timeout_s = 20
margin = 0.4
prior_sd = 0.05

[[perf.cases]]
name = "operator"
target = "operator"
command = ["bench.function:make"]
harness = ["bench"]
requests = 3
timeout_s = 20
margin = 0.4
prior_sd = 0.05
workload = {size = 7}
"""
FUNCTION = """\
import toy

def make(workload):
    print("talk on standard output must not hurt")

    def request():
        toy.work()

    request.describe = lambda: {"workload": workload, "path_log": {"sleep": 1}}
    return request
"""
SECONDS = 0.02


@dataclass
class Toy:
    """A git repository in a folder; every `commit` writes files and returns the sha."""

    folder: Path

    def git(self, *arguments: str) -> str:
        """Run git as a person without any configuration."""
        who = {f"GIT_{role}_{part}": "toy" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            **who,
        }
        command = ["git", "-C", str(self.folder), *arguments]
        finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return finished.stdout.strip()

    def commit(self, files: dict[str, str | None] | None = None, message: str = "change") -> str:
        """Write (or, for None, remove) files and commit everything."""
        for name, text in (files or {}).items():
            path = self.folder / name
            if text is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def slower(self, factor: float) -> str:
        """Commit a product whose work takes `factor` times as long."""
        return self.commit({"toy.py": PRODUCT.format(seconds=SECONDS * factor)}, f"work x {factor}")


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    """A repository with one commit: product, benchmark, configuration."""
    folder = tmp_path / "toy"
    folder.mkdir()
    made = Toy(folder)
    made.git("init", "--quiet", "--initial-branch=main")
    made.commit(
        {
            "toy.py": PRODUCT.format(seconds=SECONDS),
            "bench/__init__.py": "",
            "bench/run.py": BENCHMARK,
            "bench/function.py": FUNCTION,
            ".github/prgate.toml": CONFIG,
        },
        "start",
    )
    return made


@pytest.fixture
def imported(toy: Toy, tmp_path: Path) -> Repository:
    """The toy repository as the runner takes it in, with whatever was committed before this fixture ran."""
    return import_repository(toy.folder, tmp_path / "imported")


@pytest.fixture(scope="session")
def sandbox() -> Sandbox:
    """This host's sandbox: the tests of the runner need one."""
    return find_sandbox()


@pytest.fixture(scope="session")
def machine() -> Machine:
    """This host, looked at once."""
    return fingerprint()


@pytest.fixture
def quick() -> GateOverrides:
    """Gate settings that decide a clear case in two blocks."""
    return GateOverrides(max_blocks=4)
