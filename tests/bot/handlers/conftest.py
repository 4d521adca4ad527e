"""A small world: a real repository behind the stand-in GitHub, a real database, jobs done as they come."""

import json
import socket
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from sqlalchemy import Engine, select

from bot.clients import Clients
from bot.db.engine import open_engine, open_sessions
from bot.db.models import Base, Decision, Delivery, DeliveryState, Job, JobState, Repository, Run, RunState
from bot.demo.github import StandIn
from bot.demo.github.state import INSTALLATION_ID, Comment
from bot.dispatch import JobSpec, RetryLater, UserError, jobs_for, run
from bot.events import parse
from bot.github import GitHubFault
from bot.handlers import HANDLERS
from bot.jobs import enqueue
from bot.settings import Settings, load_settings

FULL_NAME = "omni/omni-lite"
REPO_ID = 0

CONFIG = """
mode = "comment"

[ci]
required = ["buildkite/omni"]

[perf]
queue = "runner.cpu"

[[perf.cases]]
name = "short"
command = ["python", "bench.py"]

[[perf.cases]]
name = "long"
command = ["python", "bench.py", "--long"]

[[perf.paths]]
glob = "omni/layers/**"
cases = ["short"]
"""
GATE = "def rope(x):\n    if len(x) < 2048:\n        return x\n    return x\n"
PAGE = """---
title: {title}
owners: [{owners}]
primary_code_paths: ["{path}"]
---
# {title}
"""
FILES = {
    ".github/prgate.toml": CONFIG,
    ".github/CODEOWNERS": "* @umbrella-01\n/omni/layers/ @owner-01 @owner-02\n",
    "docs/design/module/layers.md": PAGE.format(
        title="Layers", owners='"@owner-01", "@owner-02", "@owner-03"', path="omni/layers/**"
    ),
    "docs/design/module/models.md": PAGE.format(title="Models", owners='"@owner-04"', path="omni/models/**"),
    "omni/layers/rope.py": "def rope(x):\n    return x\n",
    "omni/models/image.py": "SIZE = 1\n",
    "README.md": "# omni\n",
}
PEOPLE = {
    "maintainer-01": "maintain",
    "owner-01": "write",
    "owner-02": "write",
    "owner-03": "write",
    "owner-04": "write",
    "umbrella-01": "admin",
    "author-01": "read",
    "stranger-01": "none",
}


@pytest.fixture(scope="session")
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    return key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain).decode()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare repository with one commit on main and a branch that changes a layer."""
    folder = tmp_path_factory.mktemp("template") / "omni.git"
    subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", str(folder)], check=True)
    stream = b""
    for index, (branch, files, parent) in enumerate(
        [
            ("main", FILES, ""),
            (
                "gate",
                {"omni/layers/rope.py": GATE},
                "main",
            ),
            ("docs", {"README.md": "# omni\n\nMore words.\n"}, "main"),
        ]
    ):
        who = f"author-01 <a@example.org> {1_790_000_000 + index * 60} +0000"
        message = f"Commit {index}"
        stream += f"commit refs/heads/{branch}\ncommitter {who}\ndata {len(message)}\n{message}\n".encode()
        stream += f"from refs/heads/{parent}\n".encode() if parent else b""
        for path, text in files.items():
            body = text.encode()
            stream += f"M 100644 inline {path}\ndata {len(body)}\n".encode() + body + b"\n"
    git = ["git", "-C", str(folder)]
    subprocess.run([*git, "fast-import", "--quiet"], input=stream, check=True)
    return folder


@dataclass
class World:
    """Everything one test needs; `settle` lets all that is due happen."""

    github: StandIn
    engine: Engine
    settings: Settings
    seen: int = 0
    errors: list[str] = field(default_factory=list)
    verbs: tuple[str, ...] = tuple(HANDLERS)  # what is done; a test of commands may leave the rest out

    def __post_init__(self) -> None:
        self.sessions = open_sessions(self.engine)

    @property
    def hub(self):  # type: ignore[no-untyped-def]
        return self.github.hub

    @property
    def repo_id(self) -> int:
        return int(self.hub.shapes.repository()["id"])

    def open(self, branch: str = "gate", number: int = 1, **options: object) -> int:
        options.setdefault("author", "author-01")
        options.setdefault("title", "[Bugfix] Gate the fused path")
        self.hub.open_pull(number, branch, options.pop("author"), **options)
        self.settle()
        return number

    def say(self, body: str, user: str = "maintainer-01", number: int = 1) -> Comment:
        comment = self.hub.comment(number, user, body)
        self.settle()
        return comment

    def receive(self) -> int:
        """Store the deliveries that came and the jobs they ask for, as the service does."""
        fresh = self.github.state.deliveries[self.seen :]
        self.seen += len(fresh)
        with self.sessions() as session:
            for delivery in fresh:
                payload = json.loads(delivery.body)
                event = parse(delivery.event, payload)
                session.add(
                    Delivery(
                        guid=delivery.guid,
                        event=delivery.event,
                        action=delivery.action,
                        repo_id=event.repo.id if event.repo else None,
                        number=event.number,
                        received_at=datetime.now(UTC),
                        payload=zlib.compress(delivery.body),
                        state=DeliveryState.RECEIVED,
                    )
                )
                enqueue(session, jobs_for(event))
            session.commit()
        return len(fresh)

    def settle(self) -> None:
        """Receive and work until nothing is left."""
        for _ in range(200):
            came = self.receive()
            if not self.work() and not came:
                return
        raise AssertionError("the world does not come to rest")

    def work(self) -> int:
        """Do every waiting job once."""
        with self.sessions() as session:
            rows = list(session.scalars(select(Job).where(Job.state == JobState.QUEUED).order_by(Job.id)))
            for row in rows:
                row.state = JobState.DONE
                row.dedupe_key = row.dedupe_key if row.verb == "command" else None
            session.commit()
        for row in [one for one in rows if one.verb in self.verbs]:
            self.do(JobSpec(row.verb, row.repo_id, row.number, row.subject))
        return len(rows)

    def do(self, spec: JobSpec) -> None:
        """Do one job; what a service would write down is kept in `errors`."""
        for _ in range(3):
            clients = Clients(self.sessions, self.settings, datetime.now(UTC), spec)
            try:
                run(spec, clients, HANDLERS)
                return
            except (UserError, RetryLater) as error:
                self.errors.append(f"{spec.verb}: {error}")
                return
            except GitHubFault as error:
                last = f"{spec.verb}: {error}"
        self.errors.append(last)

    def note(self, marker: str, number: int = 1) -> str | None:
        """Return our comment of a marker as it stands; several are a fault."""
        found = [
            c.body for c in self.github.bot_comments(number) if c.body.startswith(f"<!-- prgate:{marker} -->")
        ]
        assert len(found) <= 1, found
        return found[0] if found else None

    def answers(self, number: int = 1) -> list[str]:
        return [c.body for c in self.github.bot_comments(number) if c.body.startswith("<!-- prgate:answer:")]

    def writes(self) -> int:
        """Return how many writes of the API succeeded."""
        return sum(one.status < 300 for one in self.github.state.writes())

    def decisions(self, kind: str, number: int = 1) -> list[Decision]:
        with self.sessions() as session:
            asked = select(Decision).where(Decision.kind == kind, Decision.number == number)
            return list(session.scalars(asked.order_by(Decision.id)))

    def runs(self) -> list[Run]:
        with self.sessions() as session:
            return list(session.scalars(select(Run).order_by(Run.requested_at)))

    def finish(self, run_id: str, state: RunState, **values: object) -> None:
        """Let a run end as the lane would report it, and look at the pull request again."""
        with self.sessions() as session:
            row = session.get(Run, run_id)
            assert row is not None
            row.state = state
            for name, value in values.items():
                setattr(row, name, value)
            enqueue(session, [JobSpec("perf", row.repo_id, row.number)])
            session.commit()
        self.settle()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def live(folder: Path, private_key: str) -> Iterator[World]:
    """A world around the repository `omni.git` in `folder`."""
    with StandIn(folder / "omni.git", FULL_NAME, port=free_port(), people=PEOPLE) as github:
        engine = open_engine(f"sqlite:///{folder / 'prgate.db'}")
        Base.metadata.create_all(engine)
        settings = load_settings(
            {
                "github_api_url": f"{github.url}/api/v3",
                "github_app_id": "99",
                "github_private_key": private_key,
                "github_write_gap_s": 0.0,
                "public_url": "https://prgate.example",
                "data_dir": folder,
            }
        )
        made = World(github, engine, settings)
        row = Repository(
            id=made.repo_id, full_name=FULL_NAME, installation_id=INSTALLATION_ID, default_branch="main"
        )
        with made.sessions() as session:
            session.add(row)
            session.commit()
        yield made
        engine.dispose()


@pytest.fixture
def make_world(private_key: str) -> Callable[[Path], AbstractContextManager[World]]:
    return lambda folder: live(folder, private_key)


@pytest.fixture
def world(template: Path, tmp_path: Path, private_key: str) -> Iterator[World]:
    subprocess.run(["cp", "-r", str(template), str(tmp_path / "omni.git")], check=True)
    with live(tmp_path, private_key) as made:
        yield made
