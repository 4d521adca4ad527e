"""`prgate demo` where the machine is not as it should be: one clear line, and the right exit code."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.e2e.conftest import free_ports


def demo(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"PATH": path} if path is not None else {})}
    command = [sys.executable, "-m", "bot", "demo", "--once", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in done.stdout + done.stderr
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("beside", [0, 1])
def test_a_busy_port_is_named(tmp_path: Path, beside: int) -> None:
    port = free_ports()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + beside))
        taken.listen()
        done = demo("--port", str(port), "--folder", str(tmp_path))
    assert done.returncode == 2
    assert f"port {port + beside} is taken" in last_line(done)


def test_a_missing_git_is_named(tmp_path: Path) -> None:
    done = demo("--port", str(free_ports()), "--folder", str(tmp_path / "world"), path=str(tmp_path))
    assert done.returncode == 3
    assert "git is missing" in last_line(done)


def test_a_dead_child_ends_it_with_its_name_and_log(tmp_path: Path) -> None:
    port = free_ports()
    command = [sys.executable, "-m", "bot", "demo", "--port", str(port), "--folder", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        wait_for_service(port)
        pids = subprocess.run(
            ["pgrep", "-P", str(running.pid), "-f", "worker --lane cpu"],
            capture_output=True,
            text=True,
            check=True,
        )
        os.kill(int(pids.stdout.split()[0]), signal.SIGKILL)
        _, said = running.communicate(timeout=90)
    assert running.returncode == 3
    assert "the worker ended (SIGKILL" in said
    assert "worker.log" in said


def test_a_killed_demo_leaves_no_process_behind(tmp_path: Path) -> None:
    port = free_ports()
    command = [sys.executable, "-m", "bot", "demo", "--port", str(port), "--folder", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        wait_for_service(port)
        running.kill()
    end = time.monotonic() + 40
    while left_behind(tmp_path):
        assert time.monotonic() < end, left_behind(tmp_path)
        time.sleep(0.5)


def left_behind(folder: Path) -> list[str]:
    """Return the processes of a world: they work in its folder, or were told of it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "environ").read_bytes().decode("utf-8", "replace")
            where = str((process / "cwd").readlink())
        except OSError:
            continue
        if str(folder) in told or where.startswith(str(folder)):
            found.append((process / "comm").read_text().strip())
    return found


def wait_for_service(port: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=1)
        except httpx.HTTPError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError("the service did not start")
