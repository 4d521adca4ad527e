"""A small repository, a stand-in GitHub and Buildkite over HTTP, and the collector that reads them."""

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from bot.ci.collect import Collected, Collector, Reads, Subject
from bot.ci.history import History
from bot.ci.logstore import SqlLogs
from bot.ci.providers.buildkite import Buildkite
from bot.ci.providers.fetch import Fetcher, origins
from bot.ci.providers.github_actions import Actions
from bot.ci.providers.reads import Provider
from bot.ci.shelf import Shelf
from bot.ci.snapshot import Snapshot
from bot.config import CiConfig
from bot.db.engine import open_engine, open_sessions
from bot.db.models import Base
from bot.demo.buildkite import Organization
from bot.demo.buildkite.state import Build, Job
from bot.demo.github import StandIn
from bot.demo.github.state import WorkflowJob, WorkflowRun
from bot.github import Credentials, RepoClient, connect, identity
from bot.head_checks import read_checks
from bot.pulls import read_pull

FULL_NAME = "omni/omni"
BUILDKITE_TOKEN = "bk-token"
GITHUB_TOKEN = "plain-token"
NOON = datetime(2026, 9, 20, 12, tzinfo=UTC)
# When each commit was made, as hours before noon.
COMMITS = (
    ("main", "", 72, {"omni/rope.py": "SIZE = 1\n"}),
    ("base", "refs/heads/main", 48, {"omni/rope.py": "SIZE = 2\n"}),
    ("main", "refs/heads/base", 1, {"README.md": "# omni\n"}),
    ("feature", "refs/heads/base", 6, {"omni/rope.py": "SIZE = 3\n"}),
    ("other", "refs/heads/base", 9, {"omni/other.py": "OTHER = 1\n"}),
    ("stacked", "refs/heads/feature", 5, {"omni/stacked.py": "STACKED = 1\n"}),
    ("fork", "refs/heads/base", 12, {"omni/fork.py": "FORK = 1\n"}),
)
FAILED = """\
=========================== short test summary info ============================
FAILED tests/test_rope.py::test_size - AssertionError: assert 3 == 2
========================= 1 failed, 40 passed in 2.31s =========================
"""
PASSED = "========================= 41 passed in 2.31s =========================\n"


def hours_before(hours: float) -> datetime:
    return NOON - timedelta(hours=hours)


@dataclass
class Ci:
    """A repository with CI: what ran is told with `build` and `run`, what is known of it with `collect`."""

    github: StandIn
    buildkite: Organization
    folder: Path
    config: CiConfig = field(default_factory=CiConfig)
    buildkite_token: str = BUILDKITE_TOKEN
    now: datetime = NOON

    def __post_init__(self) -> None:
        self.engine = open_engine(f"sqlite:///{self.folder / 'logs.db'}")
        Base.metadata.create_all(self.engine)
        self.sessions = open_sessions(self.engine)
        self.github.state.accounts[GITHUB_TOKEN] = "prgate-account"
        self.credentials = Credentials(f"{self.github.url}/api/v3", token=GITHUB_TOKEN)
        self.client = RepoClient(connect(self.credentials, None), FULL_NAME, identity(self.credentials))

    def sha(self, ref: str) -> str:
        found = self.github.hub.git.resolve(ref)
        assert found is not None
        return found

    def open(self, number: int = 1, branch: str = "feature", author: str = "author-01") -> None:
        self.github.hub.open_pull(number, branch, author, title=branch)

    def status(
        self, state: str = "failure", context: str = "buildkite/omni", branch: str = "feature"
    ) -> None:
        self.github.hub.set_status(self.sha(branch), context, state, "buildkite[bot]")

    def build(
        self,
        number: int,
        ref: str,
        *jobs: Job,
        branch: str = "main",
        pull: int | None = None,
        hours: float = 5.5,
    ) -> Build:
        """Let a build be seen that was created `hours` before noon."""
        made = Build("omni", number, self.sha(ref), branch, pull, hours_before(hours), list(jobs))
        self.buildkite.publish(made)
        return made

    def run(
        self,
        ref: str,
        *jobs: WorkflowJob,
        event: str = "push",
        branch: str = "main",
        hours: float = 5.5,
        home: str | None = None,
        name: str = "ci",
    ) -> WorkflowRun:
        """Let an Actions run be seen that was created `hours` before noon."""
        state = self.github.state
        conclusions = {job.conclusion for job in jobs}
        ended = "failure" if "failure" in conclusions else "success"
        made = WorkflowRun(
            id=state.new_id(),
            name=name,
            head_sha=self.sha(ref),
            head_branch=branch,
            event=event,
            status="completed",
            conclusion=ended,
            created_at=hours_before(hours),
            jobs=list(jobs),
            head_repository=home,
        )
        state.workflow_runs[made.id] = made
        for job in jobs:
            job.run_id = made.id
        return made

    def providers(self, fetcher: Fetcher, required: tuple[str, ...] | None) -> dict[str, Provider]:
        api, token = self.credentials.api_url, self.buildkite_token
        needed = None if required is None else frozenset(required)
        return {
            "buildkite": Buildkite(self.buildkite.url, token, "omni", ("omni",), required, fetcher),
            "github_actions": Actions(Reads(self.client), api, GITHUB_TOKEN, needed, fetcher),
        }

    def collect(self) -> Collected:
        """Return the snapshot of pull request 1, and the notes."""
        pull = read_pull(self.client, 1, 1, None)
        assert pull is not None
        checks = read_checks(self.client, pull.target.head_sha, "main", self.config)
        with httpx.Client() as http:
            fetcher = Fetcher(origins([self.github.url], []), http)
            subject = Subject(pull, checks, self.config, self.now)
            providers = self.providers(fetcher, checks.required)
            history = History(self.sessions, 1, "main", self.now)
            shelf = Shelf(providers, fetcher, SqlLogs(self.sessions, self.now), history)
            return Collector(subject, Reads(self.client), providers, shelf).collect()

    def snapshot(self) -> Snapshot:
        return self.collect().snapshot


def bk_job(state: str = "failed", log: str | None = FAILED, *, name: str = "Unit", key: str = "") -> Job:
    """Return a job of Buildkite's; its id is new unless `key` is given."""
    at = hours_before(5.4)
    return Job(
        id=key or str(uuid.uuid4()),
        name=name,
        state=state,
        started_at=at,
        finished_at=at + timedelta(minutes=5),
        log=log,
        step_key=name.lower(),
        exit_status=0 if state == "passed" else 1,
    )


def gh_job(
    ci: Ci, conclusion: str = "failure", log: str | None = FAILED, *, name: str = "unit"
) -> WorkflowJob:
    """Return a job of Actions'."""
    at = hours_before(5.4)
    number = ci.github.state.new_id()
    return WorkflowJob(number, 0, name, "completed", conclusion, at, at + timedelta(minutes=5), log)
