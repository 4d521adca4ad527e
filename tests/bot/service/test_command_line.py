"""`prgate serve`, `worker`, `beat`, `doctor` as processes: one line for what is missing, health when up."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from bot import cli_service
from tests.bot.service.world import MOUNT, PROGRAM, ROOT, World, wait_until


def command(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    told = {f"PRGATE_{name}": value for name, value in settings.items()}
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "NO_COLOR": "1", **told}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("role", ["serve", "worker", "beat"])
def test_a_process_that_lacks_settings_says_which_and_ends_with_2(role: str) -> None:
    ended = command(role)
    assert ended.returncode == 2
    assert "PRGATE_BROKER_URL" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_unknown_lane_and_a_runner_without_a_service_are_usage_errors() -> None:
    assert "cpu or gpu" in command("worker", "--lane", "tpu").stderr
    ended = command("worker", "--lane", "gpu")
    assert (ended.returncode, "PRGATE_SERVICE_URL" in ended.stderr) == (2, True)


def test_a_busy_port_is_one_line_and_exit_3(tmp_path: Path) -> None:
    told = {"BROKER_URL": "redis://127.0.0.1:1", "WEBHOOK_SECRETS": "abcdefgh", "SERVICE_KEY": "ijklmnop"}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ended = command("serve", "--port", str(taken.getsockname()[1]), DATA_DIR=str(tmp_path), **told)
    assert ended.returncode == 3
    assert ended.stderr.strip().splitlines()[-1].startswith("prgate: cannot listen on 127.0.0.1:")


@pytest.mark.parametrize("role", ["worker", "beat"])
def test_a_database_that_does_not_answer_is_one_line_and_exit_3(role: str) -> None:
    url = "postgresql://me:canary-word@127.0.0.1:1/db"
    ended = command(role, BROKER_URL="redis://127.0.0.1:1", DATABASE_URL=url, GITHUB_TOKEN="t" * 20)
    assert ended.returncode == 3
    assert ended.stderr.startswith("prgate: the database cannot be used:")
    assert "Traceback" not in ended.stderr
    assert "canary-word" not in ended.stderr


def test_doctor_says_what_is_ready_and_what_to_do(world: World, tmp_path: Path) -> None:
    ended = command("doctor", "--json", BROKER_URL=world.redis.url, DATA_DIR=str(tmp_path))
    checks = {check["name"]: check for check in json.loads(ended.stdout)["checks"]}
    assert ended.returncode == 3
    assert {checks[name]["state"] for name in ("python", "git", "redis", "database", "broker")} == {"ready"}
    assert "PRGATE_WEBHOOK_SECRETS" in checks["serve"]["says"]
    assert "PRGATE_GITHUB_TOKEN" in checks["github"]["says"]
    plain = command("doctor", BROKER_URL=world.redis.url, DATA_DIR=str(tmp_path))
    assert "✗ serve" in plain.stdout


def test_the_real_service_starts_serves_its_pages_and_drains(
    make_world: Callable[..., World], tmp_path: Path
) -> None:
    world = make_world()
    arguments = [sys.executable, "-c", PROGRAM, "serve", "--port", str(world.port)]
    with (tmp_path / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            arguments, env=world.environment, stdout=log, stderr=log, start_new_session=True
        )
    world.processes.append(process)
    wait_until(world.is_up, what=(tmp_path / "serve.log").read_text()[-3000:])
    ready = world.http.get("/readyz").json()
    assert (ready["schema"], ready["status"]) == (1, "degraded")  # no GitHub answers here
    assert {name: check["ok"] for name, check in ready["checks"].items()} == {
        "database": True, "migrations": True, "broker": True, "github": False,
    }  # fmt: skip
    assert world.http.get("/").status_code == 200
    world.post("pull_request", {"action": "nonsense", "number": 1})
    metrics = world.http.get("/metrics").text
    assert "prgate_deliveries_total" in metrics
    assert "prgate_job_oldest_queued_seconds" in metrics
    missing = world.http.get("/no/such/page")
    assert missing.status_code == 404
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0


def test_the_beat_does_the_chores_until_it_is_told_to_end(world: World) -> None:
    from bot.db.migrate import upgrade

    upgrade(world.engine)
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "beat"], env=world.environment, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert "sweeps start" in process.stderr.readline()
    process.terminate()
    _, rest = process.communicate(timeout=20)
    assert process.returncode == 0, rest
    assert "Traceback" not in rest


def test_the_commands_are_mounted_without_loading_the_service() -> None:
    program = f"import sys; {MOUNT}; sys.exit(bool({{'fastapi', 'celery', 'sqlalchemy'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
    app = typer.Typer()
    cli_service.mount(app)
    assert {command.name for command in app.registered_commands} == {"serve", "worker", "beat", "doctor"}
