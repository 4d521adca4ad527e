"""Canary secrets in every setting of a whole world: after a full run none of them lies anywhere else.

Looked at: every log line, comment, check and page, the metrics, every file that was left (database, broker,
mirrors), what commands print, and the environment and command line of each program that was started.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from bot.demo.replay import Replay
from bot.demo.world import EmbeddedWorld, load_keys
from bot.settings import PREFIX, SecretStr, Settings
from perf_runner.sandbox_process import tree
from tests.bot.service.world import signature
from tests.e2e.conftest import free_ports

CANARY = "canary7qx"
# In use by this world under its own names; the rest of the secrets are given beside them.
KEYS = ("webhook", "service", "lane", "buildkite")
MORE = {
    "PRGATE_BUILDKITE_WEBHOOK_SECRET": f"{CANARY}-buildkite-webhook-secret",
    "PRGATE_GITHUB_TOKEN": f"{CANARY}-github-token-of-an-account",
}


@dataclass
class Started:
    """Programs that were seen below the service's processes: command line -> whether a canary was in it."""

    roots: tuple[int, ...]
    needles: tuple[str, ...]
    seen: dict[str, bool] = field(default_factory=dict)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look again and again while the block runs."""
        over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(over,))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(0.02):
            for pid in [pid for root in self.roots for pid in tree(root)]:
                self._look(pid)

    def _look(self, pid: int) -> None:
        try:
            raw = [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
        except OSError:
            return
        command, environment = (one.replace(b"\0", b" ").decode("utf-8", "replace") for one in raw)
        # Our own processes are told by their environment; what they start must not be.
        told = command if " -m bot " in command else command + environment
        found = any(needle in told for needle in self.needles)
        self.seen[command] = self.seen.get(command, False) or found


@dataclass(frozen=True)
class Played:
    """A world after its run."""

    world: EmbeddedWorld
    needles: tuple[str, ...]
    started: Started
    printed: str


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("canary")
    keys = load_keys(folder / "keys.json") | {name: f"{CANARY}-{name}-secret-of-the-service" for name in KEYS}
    (folder / "keys.json").write_text(json.dumps(keys))
    needles = (CANARY, keys["app"].splitlines()[5])
    with EmbeddedWorld(folder, free_ports(), variables=MORE) as world:
        started = Started((world.web.pid, world.worker.pid, world.lane.pid), needles)
        with started.watched():
            run(world)
        yield Played(world, needles, started, printed(world, keys["app"]))


def run(world: EmbeddedWorld) -> None:
    """Play a pull request from its opening to its measurement, with what goes wrong on the way."""
    world.github.faults.fail("GET", "/files", 500, times=2)
    for path in ("/webhooks/github", "/webhooks/buildkite", "/runner/poll"):
        httpx.post(f"{world.address.service}{path}", content=b"{}", headers=wrong_keys(world))
    number = world.recording.culprit.number
    Replay(world, lambda _: None).play(lambda step: step.pull == number)


def wrong_keys(world: EmbeddedWorld) -> dict[str, str]:
    """Return headers that are nearly right: what is refused must not be repeated either."""
    return {
        "Authorization": f"Bearer {world.keys['lane']}x",
        "X-Buildkite-Token": f"{world.keys['buildkite']}x",
        "X-Hub-Signature-256": signature(b"{} ", world.keys["webhook"]),
    }


def printed(world: EmbeddedWorld, key: str) -> str:
    """Return what commands print that are told all secrets, right and wrong ones."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(__file__).parents[2]),
        **{f"{PREFIX}{name.upper()}": f"{CANARY}-{name}" for name in secret_names()},
        "PRGATE_GITHUB_PRIVATE_KEY": key,
        "PRGATE_GITHUB_APP_ID": "99",
        "PRGATE_DATABASE_URL": f"postgresql://me:{CANARY}-password@127.0.0.1:1/db",
        "PRGATE_BROKER_URL": f"redis://me:{CANARY}-password@127.0.0.1:1/0",
        "PRGATE_GITHUB_API_URL": "http://127.0.0.1:9",
        "PRGATE_ATTEMPTS": "many",
    }
    fixed = {name: value for name, value in environment.items() if name != "PRGATE_ATTEMPTS"}
    told = [(environment, "doctor"), (fixed, "doctor"), (fixed, "serve"), (fixed, "worker"), (fixed, "dead")]
    said = ""
    for variables, command in told:
        finished = subprocess.run(
            [sys.executable, "-m", "bot", command], env=variables, cwd=world.folder, capture_output=True,
            text=True, check=False, timeout=120,
        )  # fmt: skip
        assert finished.returncode != 0, command
        said += finished.stdout + finished.stderr
    return said


def secret_names() -> list[str]:
    """Return the settings that hold a secret."""
    return [name for name, field in Settings.model_fields.items() if field.annotation is SecretStr]


def held(text: str, needles: tuple[str, ...]) -> list[str]:
    """Return the lines that hold a secret."""
    return [line[:300] for line in text.splitlines() if any(needle in line for needle in needles)]


def test_the_run_was_a_whole_one(played: Played) -> None:
    """What is looked for in vain below was really worked with."""
    number = played.world.recording.culprit.number
    assert "Performance: slower" in "".join(one.body for one in played.world.github.bot_comments(number))
    commands = " ".join(played.started.seen)
    assert "git " in commands
    assert "bwrap" in commands


def test_no_log_holds_a_secret(played: Played) -> None:
    logs = [path for path in (played.world.folder / "logs").iterdir() if path.suffix == ".log"]
    assert len(logs) == 3
    for path in logs:
        text = path.read_text("utf-8", "replace")
        assert text
        assert held(text, played.needles) == []


def test_no_comment_check_or_request_to_the_api_holds_a_secret(played: Played) -> None:
    state = played.world.github.state
    told = [*state.comments.values(), *state.reviews.values(), *state.check_runs.values(), *state.requests]
    assert told
    assert held("\n".join(map(repr, told)), played.needles) == []


def test_no_page_holds_a_secret(played: Played) -> None:
    recording = played.world.recording
    here = f"/pr/{recording.repository}/{recording.culprit.number}"
    pages = (
        "/",
        "/queue.json",
        here,
        f"{here}.json",
        "/red",
        "/perf",
        "/workers",
        "/owners",
        "/help",
        "/setup",
    )
    for path in (*pages, "/metrics", "/healthz", "/readyz", "/openapi.json", "/no/such/page"):
        answer = httpx.get(f"{played.world.address.service}{path}", timeout=60)
        assert held(answer.text + str(answer.headers), played.needles) == [], path


def test_no_program_that_was_started_is_told_a_secret(played: Played) -> None:
    assert len(played.started.seen) > 5
    assert [command for command, told in played.started.seen.items() if told] == []


def test_no_file_that_was_left_holds_a_secret(played: Played) -> None:
    own = {"keys.json", "standin.state"}  # the world's own memory, not the service's
    files = [path for path in played.world.folder.rglob("*") if path.is_file() and path.name not in own]
    assert len(files) > 20
    needles = [needle.encode() for needle in played.needles]
    assert [path for path in files if any(needle in path.read_bytes() for needle in needles)] == []


def test_no_command_prints_a_secret(played: Played) -> None:
    assert played.printed
    assert held(played.printed, played.needles) == []
