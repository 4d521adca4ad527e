"""The files under deploy/ hold together: compose takes them, no container gets what it must not have."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.settings import PREFIX, Settings
from perf_runner.settings import settings_from

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
WORDS = {"POSTGRES_PASSWORD": "0aa1", "REDIS_PASSWORD": "1bb2", "LANE_KEY": "2cc3"}
SERVICE = ("web", "worker", "beat")


def composed(folder: Path, *, words: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Have Debian's docker-compose read the file, beside the two files that an operator writes."""
    command = shutil.which("docker-compose")
    if command is None:
        pytest.fail("docker-compose is missing: apt-get install docker-compose (the script of CI does)")
    copy = folder / "deploy"
    shutil.copytree(DEPLOY, copy, ignore=shutil.ignore_patterns("docs", ".env", "prgate.env"))
    (copy / "prgate.env").write_text("PRGATE_SERVICE_KEY=x\n")
    (copy / ".env").write_text("".join(f"{name}={value}\n" for name, value in words.items()))
    return subprocess.run(
        [command, "-f", str(copy / "compose.yaml"), "--profile", "lane", "config"],
        cwd=copy, capture_output=True, text=True, check=False, timeout=120, env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    finished = composed(tmp_path_factory.mktemp("compose"), words=WORDS)
    assert finished.returncode == 0, finished.stderr
    found: dict[str, Any] = yaml.safe_load(finished.stdout)["services"]
    return found


def test_compose_accepts_the_file_with_all_its_services(services: dict[str, Any]) -> None:
    assert set(services) == {*SERVICE, "lane", "postgres", "redis"}


def test_without_a_password_compose_refuses(tmp_path: Path) -> None:
    finished = composed(tmp_path, words={})
    assert finished.returncode != 0
    assert "set it in deploy/.env" in finished.stderr


def test_the_lane_holds_its_key_alone_and_reaches_the_service_alone(services: dict[str, Any]) -> None:
    lane = services["lane"]
    told = {name: str(value) for name, value in lane["environment"].items()}
    assert settings_from(told).broker_url is None
    given = " ".join(told.values())
    assert WORDS["LANE_KEY"] in given
    assert WORDS["POSTGRES_PASSWORD"] not in given
    assert WORDS["REDIS_PASSWORD"] not in given
    assert set(lane["networks"]) == {"lanes"}
    assert "lanes" not in {*services["postgres"]["networks"], *services["redis"]["networks"]}


@pytest.mark.parametrize("name", SERVICE)
def test_a_process_of_the_service_is_confined(services: dict[str, Any], name: str) -> None:
    service = services[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "user" not in service  # the image's own, which is not root
    assert service["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", [*SERVICE, "lane"])
def test_every_variable_is_a_setting(services: dict[str, Any], name: str) -> None:
    known = {f"{PREFIX}{field.upper()}" for field in Settings.model_fields}
    lane = set(re.findall(r"PRGATE_[A-Z_]+", (ROOT / "perf_runner/settings.py").read_text()))
    assert set(services[name]["environment"]) <= known | lane


def test_only_the_proxys_port_is_open_and_on_this_host_alone(services: dict[str, Any]) -> None:
    ports = {name: str(service["ports"]) for name, service in services.items() if service.get("ports")}
    assert set(ports) == {"web"}
    assert "127.0.0.1" in ports["web"]


def test_the_image_runs_a_wheel_as_an_ordinary_user_without_torch() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    last = max(index for index, line in enumerate(lines) if line.startswith("FROM"))
    assert not any(line.startswith("COPY .") for line in lines[last:])
    assert any(line.startswith("USER prgate") for line in lines[last:])
    assert any("import torch" in line for line in lines[last:])
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {"deploy/.env", "deploy/prgate.env", "deploy/redis/users.acl"} <= set(ignored)


def test_the_unit_of_a_gpu_host_gives_a_worker_one_gpu_and_no_root() -> None:
    unit = (DEPLOY / "systemd/prgate-runner@.service").read_text()
    assert "CUDA_VISIBLE_DEVICES=%i" in unit
    assert re.search(r"(?m)^User=(?!root)", unit)
    assert not re.search(r"GITHUB|DATABASE", unit)
