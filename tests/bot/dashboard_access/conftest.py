"""A web service with a database, a stand-in GitHub with people, and browsers that follow links by hand."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from bot.app import create_app
from bot.db.models import Base, Decision, Pull, Repository
from bot.demo.github import StandIn
from bot.demo.github.sign_in import CLIENT_ID, CLIENT_SECRET
from bot.service import Parts, Service
from bot.settings import load_settings
from bot.wiring import standard_wiring

NAME = "omni/omni-lite"
HEAD = "a" * 40
NOW = datetime(2026, 7, 1, tzinfo=UTC)
SERVICE = "http://testserver"
PEOPLE = {
    "maintainer-1": "maintain",
    "writer-1": "write",
    "reader-1": "read",
    "stranger-1": "none",
}


@dataclass
class Site:
    """The service and its stand-in GitHub."""

    app: FastAPI
    github: StandIn

    @property
    def service(self) -> Service:
        found: Service = self.app.state.service
        return found

    @property
    def repo_id(self) -> int:
        return int(self.github.hub.shapes.repository()["id"])

    def browser(self, login: str | None = None) -> TestClient:
        """Return a visitor's browser, signed in where a login is named."""
        client = TestClient(self.app, base_url=SERVICE, follow_redirects=False)
        if login is not None:
            answer = self.come_back(client, login)
            assert answer.status_code == 303, answer.text
        return client

    def come_back(self, client: TestClient, login: str, goes_on: str = "/help") -> httpx.Response:
        """Go to GitHub, choose a login there, and come back with the code."""
        away = client.get("/auth/sign-in", params={"goes_on": goes_on}).headers["location"]
        back = httpx.get(f"{away}&choose={login}").headers["location"]
        return client.get(back.removeprefix(SERVICE))

    def csrf(self, client: TestClient) -> str:
        page = client.get("/help").text
        return page.partition('name="csrf" value="')[2].partition('"')[0]


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare repository with one empty commit."""
    folder = tmp_path_factory.mktemp("template") / "omni.git"
    subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", str(folder)], check=True)
    commit = b"commit refs/heads/main\ncommitter a <a@example.org> 1790000000 +0000\ndata 3\none\n"
    subprocess.run(["git", "-C", str(folder), "fast-import", "--quiet"], input=commit, check=True)
    return folder


@pytest.fixture(scope="module")
def github(repository: Path) -> Iterator[StandIn]:
    with StandIn(repository, NAME, people=PEOPLE) as stand_in:
        stand_in.state.accounts["bot-token"] = "prgate-bot"
        yield stand_in


@pytest.fixture
def told() -> dict[str, object]:
    """Return settings that a test wants otherwise."""
    return {}


@pytest.fixture
def site(github: StandIn, tmp_path: Path, told: dict[str, object]) -> Iterator[Site]:
    settings = load_settings(
        {
            "data_dir": tmp_path,
            "broker_url": "redis://127.0.0.1:1",
            "public_url": SERVICE,
            "github_api_url": f"{github.url}/api/v3",
            "github_web_url": github.url,
            "github_token": "bot-token",
            "github_client_id": CLIENT_ID,
            "github_client_secret": CLIENT_SECRET,
            "webhook_secrets": "webhook-secret",
            "service_key": "service-key",
            **told,
        }
    )
    app = create_app(settings, standard_wiring(settings, Parts(migrate=False, sweeps=False)))
    service: Service = app.state.service
    Base.metadata.create_all(service.engine)
    made = Site(app, github)
    fill(made)
    yield made
    service.bell.close()
    service.engine.dispose()


def fill(site: Site) -> None:
    """Make the stand-in's repository private, and put a public one beside it."""
    with site.service.sessions.begin() as session:
        session.add(Repository(id=site.repo_id, full_name=NAME, private=True))
        session.add(Repository(id=5, full_name="omni/open", private=False))
        for repo_id, title in ((site.repo_id, "canary title"), (5, "open title")):
            session.add(pull(repo_id, title))
        groups = [{"jobs": ["buildkite/omni · Diffusion"], "ruling": "unknown", "kind": "", "tests": []}]
        value = {"overall": "unknown", "head_sha": HEAD, "groups": groups}
        session.add(decision(site.repo_id, "ci", value))


def pull(repo_id: int, title: str, number: int = 1) -> Pull:
    return Pull(
        repo_id=repo_id,
        number=number,
        title=title,
        author="author-1",
        state="open",
        head_sha=HEAD,
        base_sha="b" * 40,
        base_ref="main",
        created_at=NOW,
        updated_at=NOW,
    )


def decision(repo_id: int, kind: str, value: dict[str, object], number: int = 1) -> Decision:
    return Decision(
        repo_id=repo_id, number=number, kind=kind, head_sha=HEAD, decided_at=NOW, value=value, evidence=[]
    )
