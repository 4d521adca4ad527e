"""The wheel in a clean environment: only what it requires is there; the service starts, migrates, answers."""

import os
import shutil
import sqlite3
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bot.demo.redis_child import RedisChild
from tests.bot.service.world import free_port, wait_until

ROOT = Path(__file__).parents[2]


def required(wheel: Sequence[str], extras: tuple[str, ...]) -> dict[str, Distribution]:
    """Return every distribution that these requirements lead to, of those that this environment has."""
    found: dict[str, Distribution] = {}
    waiting = [(Requirement(line), extras) for line in wheel]
    while waiting:
        wanted, asked = waiting.pop()
        if wanted.marker and not any(wanted.marker.evaluate({"extra": extra}) for extra in ("", *asked)):
            continue
        name = canonicalize_name(wanted.name)
        new_extras = tuple(wanted.extras)
        if name in found and not new_extras:
            continue
        found[name] = distribution(name)
        waiting += [(Requirement(line), new_extras) for line in found[name].requires or ()]
    return found


def lend(distributions: dict[str, Distribution], site: Path) -> None:
    """Link the installed distributions into another environment: nothing else of this one is seen there."""
    for one in distributions.values():
        for top in {file.parts[0] for file in one.files or () if file.parts[0] != ".."} - {"__pycache__"}:
            source = Path(str(one.locate_file(top)))
            if not (site / top).exists():
                (site / top).symlink_to(source)


def copy_of_the_source(folder: Path) -> Path:
    """Copy what is committed: a build leaves files beside its source, and other tests build too."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if not name.startswith(("tests/", "deploy/")) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with the wheel, its requirements and the extra `postgres`."""
    folder = tmp_path_factory.mktemp("clean")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    source = copy_of_the_source(folder / "source")
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)]
    subprocess.run([*pip, *build], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    python = folder / "venv/bin/python"
    install = ["--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*pip, *install], check=True, capture_output=True)
    (site,) = (folder / "venv/lib").glob("python*/site-packages")
    (metadata,) = site.glob("prgate-*.dist-info")
    lend(required(Distribution.at(metadata).requires or (), ("postgres",)), site)
    return folder / "venv/bin"


def run(clean: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(clean / "prgate"), *arguments], cwd=folder, env={"PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.fixture(scope="module")
def serving(clean: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of `prgate serve` from the wheel, and its data folder."""
    folder = tmp_path_factory.mktemp("served")
    port = free_port()
    with RedisChild() as redis, (folder / "log").open("wb") as log:
        told = {
            "PATH": os.environ["PATH"],
            "PRGATE_DATA_DIR": str(folder),
            "PRGATE_BROKER_URL": redis.url,
            "PRGATE_WEBHOOK_SECRETS": "a-webhook-secret",
            "PRGATE_SERVICE_KEY": "a-service-key",
            "PRGATE_GITHUB_API_URL": "http://127.0.0.1:9",
        }
        command = [str(clean / "prgate"), "serve", "--port", str(port)]
        process = subprocess.Popen(command, cwd=folder, env=told, stdout=log, stderr=log)
        url = f"http://127.0.0.1:{port}"
        try:
            wait_until(lambda: answers(url), 120, f"for the service:\n{(folder / 'log').read_text()[-2000:]}")
            yield url, folder
        finally:
            process.terminate()
            process.wait(timeout=60)


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def test_it_is_the_wheel_that_runs_and_nothing_of_the_tests_is_there(clean: Path, tmp_path: Path) -> None:
    program = "import bot, importlib.util as u; print(bot.__file__, [n for n in NAMES if u.find_spec(n)])"
    names = "('torch', 'triton', 'diffusers', 'pytest', 'hypothesis', 'mypy', 'ruff')"
    finished = subprocess.run(
        [str(clean / "python"), "-c", program.replace("NAMES", names)], cwd=tmp_path, env={},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    where, _, found = finished.stdout.strip().partition(" ")
    assert where.startswith(str(clean.parent))
    assert found == "[]"


def test_the_service_migrates_and_answers(serving: tuple[str, Path]) -> None:
    _, folder = serving
    with sqlite3.connect(folder / "prgate.db") as database:
        (version,) = database.execute("SELECT version_num FROM alembic_version").fetchone()
    written = (ROOT / "bot/db/migrations/versions").glob("*.py")
    assert version in {path.name.split("_")[0] for path in written}


@pytest.mark.parametrize(
    "path", ["/", "/queue.json", "/help", "/static/site.css", "/metrics", "/openapi.json"]
)
def test_templates_and_static_files_are_in_it(serving: tuple[str, Path], path: str) -> None:
    answer = httpx.get(f"{serving[0]}{path}", timeout=60)
    assert answer.status_code == 200
    assert answer.text


def test_its_suites_and_commands_are_there_without_torch(clean: Path, tmp_path: Path) -> None:
    listed = run(clean, tmp_path, "bench", "list")
    assert "qwen" in listed.stdout
    assert run(clean, tmp_path, "--version").stdout.startswith("prgate ")
    refused = run(clean, tmp_path, "bench", "run", listed.stdout.split()[-1])
    assert refused.returncode == 3
    assert "prgate[gpu]" in refused.stderr
