"""`prgate backfill` reads CI's past into the store: paced, resumed, and said in words where it cannot."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx
import pytest
from sqlalchemy import func, select

from bot.ci.backfill import Backfill, Filled
from bot.ci.collect import Reads
from bot.ci.history import History
from bot.ci.logstore import SqlLogs
from bot.ci.providers.fetch import Fetcher, Pace, origins
from bot.db.models import CiJob, Signature
from tests.bot.ci_providers.test_buildkite import red_head
from tests.bot.ci_providers.world import FULL_NAME, GITHUB_TOKEN, PASSED, Ci, bk_job, gh_job


@dataclass
class Quiet:
    """Takes the progress, and waits no time."""

    waits: list[str] = field(default_factory=list)
    days: list[int] = field(default_factory=list)

    def day(self, repo: str, done: int, days: int) -> None:
        self.days.append(done)

    def wait(self, seconds: float, why: str) -> None:
        if why:
            self.waits.append(f"{seconds:.0f}")


def fill(ci: Ci, days: int, progress: Quiet | None = None, patience_s: float = 600) -> Filled:
    """Read the past of the world's repository."""
    progress = progress or Quiet()
    with httpx.Client() as http:
        fetcher = Fetcher(origins([ci.github.url], []), http, Pace(0.0, patience_s, progress.wait))
        history = History(ci.sessions, 1, "main", ci.now)
        providers = ci.providers(fetcher, None)
        logs = SqlLogs(ci.sessions, ci.now)
        return Backfill(history, Reads(ci.client), providers, fetcher, logs, progress).run(days)


def a_past(ci: Ci) -> None:
    """Let main and two pull requests have run CI for some days, on both providers."""
    ci.open(2, "other", "author-02")
    ci.build(1, "main~2", bk_job(), bk_job("passed", PASSED, name="Lint"), hours=70)
    ci.build(2, "base", bk_job("passed", PASSED), hours=47)
    ci.build(3, "other", bk_job(), branch="other", pull=2, hours=30)
    ci.run("base", gh_job(ci), hours=46)


def size(ci: Ci) -> int:
    with ci.sessions() as session:
        return session.scalar(select(func.count()).select_from(CiJob)) or 0


def test_the_past_is_read_a_day_at_a_time_and_a_second_run_adds_nothing(ci: Ci) -> None:
    a_past(ci)
    progress = Quiet()
    first = fill(ci, 4, progress)
    assert (first.jobs, first.logs, first.whole, progress.days) == (5, 3, True, [0, 1, 2, 3])
    ci.buildkite.requests.clear()
    second = fill(ci, 4)
    assert (second.jobs, second.logs, size(ci)) == (0, 0, 5)
    assert len(ci.buildkite.requests) == 2  # the last day, for main and for pull requests
    with ci.sessions() as session:
        (row,) = session.scalars(select(Signature).where(Signature.job == "Unit"))
        assert (row.times, row.times_on_main, row.pulls) == (3, 2, 1)
        made = session.scalars(select(CiJob.committed_at).where(CiJob.branch == "main"))
        assert sum(at is not None for at in made) == 3


def test_a_run_that_was_stopped_goes_on_where_it_was(ci: Ci) -> None:
    a_past(ci)
    fill(ci, 2)
    assert size(ci) == 3
    ci.buildkite.requests.clear()
    fill(ci, 4)
    assert size(ci) == 5
    assert not any("/3/jobs/" in path for path in ci.buildkite.requests)  # the log of build 3 is known


def test_a_verdict_after_it_finds_its_evidence_there(ci: Ci) -> None:
    a_past(ci)
    fill(ci, 4)
    red_head(ci)
    ci.buildkite.requests.clear()
    snapshot = ci.snapshot()
    assert [run.sha for run in snapshot.base_runs] == [ci.sha("base"), ci.sha("main~2")]
    assert [path for path in ci.buildkite.requests if "/1/jobs/" in path] == []


def test_a_forks_red_run_is_kept_with_its_pull_request(ci: Ci) -> None:
    ci.open(2, "other", "author-02")
    ci.run("other", gh_job(ci), event="pull_request", branch="patch-1", home="author-02/omni", hours=30)
    fill(ci, 2)
    with ci.sessions() as session:
        assert list(session.scalars(select(CiJob.number))) == [2]
        assert [row.pulls for row in session.scalars(select(Signature))] == [1]


def test_a_limit_is_waited_for_and_said(ci: Ci) -> None:
    a_past(ci)
    ci.buildkite.limit(2)
    progress = Quiet()
    found = fill(ci, 4, progress)
    assert (found.jobs, found.whole, progress.waits) == (5, True, ["60", "60"])


def test_without_patience_what_is_missing_is_said_and_read_the_next_time(ci: Ci) -> None:
    a_past(ci)
    ci.buildkite.limit(100)
    found = fill(ci, 4, patience_s=0)
    assert (found.jobs, found.whole) == (1, False)
    assert list(found.notes) == ["127.0.0.1 limits how much may be read now; what is missing is not known"]
    ci.buildkite.limit(0)
    assert fill(ci, 4).jobs == 4


def prgate(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "bot", *arguments]
    plain = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **environment}
    return subprocess.run(command, env=plain, capture_output=True, text=True, check=False, timeout=120)


def settings_of(ci: Ci) -> dict[str, str]:
    return {
        "PRGATE_DATA_DIR": str(ci.folder / "data"),
        "PRGATE_GITHUB_API_URL": ci.credentials.api_url,
        "PRGATE_GITHUB_TOKEN": GITHUB_TOKEN,
    }


def test_the_command_says_what_came_in(ci: Ci) -> None:
    from datetime import UTC, datetime

    run = ci.run("base", gh_job(ci))
    run.created_at = datetime.now(UTC)
    environment = settings_of(ci)
    done = prgate(environment, "backfill", "--days", "1", "--repo", FULL_NAME, "--json")
    assert (done.returncode, done.stderr.strip()) == (0, "")
    (found,) = json.loads(done.stdout)["repositories"]
    assert (found["repo"], found["jobs"], found["logs"], found["whole"]) == (FULL_NAME, 1, 1, True)
    again = prgate(environment, "backfill", "--days", "1")
    assert again.stdout == f"{FULL_NAME}: 0 jobs and 0 logs of 1 days were read\n"


@pytest.mark.parametrize(
    ("change", "arguments", "code", "says"),
    [
        ({"PRGATE_GITHUB_TOKEN": ""}, (), 3, "no GitHub token is set; set PRGATE_GITHUB_TOKEN"),
        ({}, (), 2, "no repository is installed yet; name one with --repo owner/name"),
        ({}, ("--repo", "omni/unknown"), 2, "GitHub shows no repository 'omni/unknown'"),
        ({"PRGATE_GITHUB_API_URL": "http://127.0.0.1:1"}, ("--repo", FULL_NAME), 3, "GitHub did not answer"),
    ],
)
def test_what_is_missing_is_one_line(
    ci: Ci, change: dict[str, str], arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = prgate({**settings_of(ci), **change}, "backfill", "--days", "1", *arguments)
    assert done.returncode == code
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""
