"""The world of these tests, started for each of them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.demo.buildkite import Organization
from bot.demo.buildkite.api import create_app
from bot.demo.github import StandIn
from tests.bot.ci_providers.world import BUILDKITE_TOKEN, COMMITS, FULL_NAME, Ci, hours_before


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template") / "omni.git"
    subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", str(folder)], check=True)
    stream = b""
    for branch, parent, hours, files in COMMITS:
        when = int(hours_before(hours).timestamp())
        stream += f"commit refs/heads/{branch}\ncommitter a <a@example.org> {when} +0000\n".encode()
        stream += b"data 1\nc\n" + (f"from {parent}\n".encode() if parent else b"")
        for path, text in files.items():
            stream += f"M 100644 inline {path}\ndata {len(text)}\n{text}\n".encode()
    subprocess.run(["git", "-C", str(folder), "fast-import", "--quiet", "--force"], input=stream, check=True)
    return folder


@pytest.fixture
def ci(template: Path, tmp_path: Path) -> Iterator[Ci]:
    subprocess.run(["cp", "-r", str(template), str(tmp_path / "omni.git")], check=True)
    with StandIn(tmp_path / "omni.git", FULL_NAME, people={"author-01": "read"}) as github:
        buildkite = Organization("omni", f"{github.url}/buildkite", BUILDKITE_TOKEN)
        github.app.mount("/buildkite", create_app(buildkite))
        made = Ci(github, buildkite, tmp_path)
        yield made
        made.engine.dispose()
