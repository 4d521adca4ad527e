"""What a verdict costs that finds its past in the store: `python -m tests.bot.ci.bench_verdict [BUILDS]`.

BUILDS is how many builds main has a day (10), and other pull requests as many red ones.
The head has up to 500 jobs and 200 failures, the store 30 days of main and of other pull requests. GitHub and
the CI provider answer at once: what is left is reading the store, reading the head's logs, and judging.
"""

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import func, select

from bot.actions import Target
from bot.ci.collect import Collected, Collector, Subject
from bot.ci.coverage import cover
from bot.ci.history import History
from bot.ci.logs import read_job
from bot.ci.logstore import SqlLogs
from bot.ci.memory import Seen
from bot.ci.providers.fetch import Fetcher
from bot.ci.providers.reads import Sighting, Window
from bot.ci.shelf import Shelf
from bot.ci.snapshot import Job
from bot.ci.verdict import Verdict, judge
from bot.config import CiConfig
from bot.db.engine import Sessions, open_engine, open_sessions
from bot.db.models import Base, CiJob, Signature
from bot.facts import FileChange, PullFacts
from bot.head_checks import HeadChecks
from tests.bot.ci.test_verdict_cost import red_job
from tests.bot.ci.world import BASE, HEAD, HEAD_AT

DAYS = 30
SCOPES = ("bench main", "bench pulls")


class Forge:
    """GitHub, which answers at once."""

    full_name = "org/engine"

    def get(self, path: str, parameters: Mapping[str, Any] | None = None) -> Any:
        if path.startswith("/compare/"):
            return {"merge_base_commit": {"sha": BASE}}
        if path.startswith("/pulls/"):
            return {"user": {"login": f"user-{path.rpartition('/')[2]}"}, "base": {"ref": "main"}}
        at = HEAD_AT if path.endswith(HEAD) else HEAD_AT - timedelta(hours=12)
        return {"commit": {"committer": {"date": at.isoformat()}}}

    def pages(self, path: str, parameters: Mapping[str, Any] | None = None, key: str = "") -> Iterator[Any]:
        if path.endswith("/commits"):
            yield {"sha": path}
        if path.endswith("/files"):
            yield {"filename": f"docs/{path.split('/')[2]}.md"}


@dataclass(frozen=True)
class Builds:
    """A CI provider that has the head's jobs and their logs, and nothing that the store has not."""

    head: tuple[Sighting, ...]
    logs: Mapping[str, str]

    def parts(self) -> Iterator[tuple[str, "Builds"]]:
        yield "bench", self

    def on_commit(self, sha: str) -> Iterator[Sighting]:
        yield from self.head if sha == HEAD else ()

    def on_branch(self, branch: str, window: Window) -> Iterator[Sighting]:
        yield from ()

    def red_pulls(self, window: Window) -> Iterator[Sighting]:
        yield from ()

    def log(self, seen: Sighting) -> str | None:
        return self.logs.get(seen.job.name)

    def junit(self, seen: Sighting) -> str | None:
        return None


def jobs_of(count: int, red: int) -> list[Job]:
    """Return `count` jobs, the first `red` of them with two failing tests each."""
    found = [Job.model_validate(red_job(number, 2)) for number in range(red)]
    return found + [Job(name=f"Step {n}", provider="bench", conclusion="passed") for n in range(red, count)]


def sighted(jobs: list[Job], build: str, sha: str, at: datetime, pull: int | None = None) -> list[Sighting]:
    """Return jobs as they are seen in one build."""
    named = [
        job.model_copy(update={"build": build, "id": f"{build}-{n}", "provider": "bench", "log": None})
        for n, job in enumerate(jobs)
    ]
    branch = "main" if pull is None else f"pull-{pull}"
    return [Sighting(job, "bench", sha, branch, pull is not None, pull, at, replaced=False) for job in named]


def fill(history: History, jobs: list[Job], builds: int) -> None:
    """Keep 30 days: `builds` of main a day and as many red ones of pull requests."""
    readings = {job.name: read_job(job) for job in jobs if job.is_failure}
    for number in range(DAYS * builds):
        at = HEAD_AT - timedelta(days=number / builds, hours=1)
        sha = BASE if number == builds else f"{number:040x}"
        red = jobs[: len(readings) // 3] if number % 3 else []
        late = [job for job in jobs if job not in red and not job.is_failure]
        seen = sighted([*red, *late], f"m{number}", sha, at)
        seen += sighted(jobs[:5], f"p{number}", f"{number:039x}f", at, 100 + number)
        history.remember(Seen(one, readings.get(one.job.name), at) for one in seen)
    with history.sessions.begin() as session:
        for scope in SCOPES:
            cover(session, history.repo_id, scope, Window(HEAD_AT - timedelta(days=60), HEAD_AT))


def subject(jobs: list[Job]) -> Subject:
    """Return the pull request that is judged."""
    target = Target(1, "org/engine", 5, HEAD)
    files = tuple(FileChange(f"engine/module_{n}.py", "modified", 1, 1) for n in range(300))
    facts = PullFacts(
        target, "Speed up", "", "user-a", "NONE", "open", merged=False, draft=False, labels=(),
        base_ref="main", base_sha="c" * 40, created_at=HEAD_AT, updated_at=HEAD_AT,
        commits=1, mergeable=True, files=files,
    )  # fmt: skip
    return Subject(facts, HeadChecks({}), CiConfig(), HEAD_AT + timedelta(days=2))


def verdict(sessions: Sessions, jobs: list[Job]) -> tuple[Collected, Verdict]:
    """Collect and judge, as the service does."""
    asked = subject(jobs)
    history = History(sessions, 1, "main", asked.now)
    head = sighted(jobs, "head", HEAD, HEAD_AT, 5)
    logs = {job.name: job.log for job in jobs if job.log}
    providers = {"bench": Builds(tuple(head), logs)}
    with httpx.Client() as http:
        shelf = Shelf(providers, Fetcher(frozenset(), http), SqlLogs(sessions, asked.now), history)
        found = Collector(asked, Forge(), providers, shelf).collect()
    return found, judge(found.snapshot, known=found.readings)


def measure(folder: Path, jobs: int, red: int, builds: int) -> tuple[float, float, Verdict, Sessions]:
    """Return the processor's seconds of a first and of a second verdict, the second and its store."""
    engine = open_engine(f"sqlite:///{folder / f'{jobs}.db'}")
    Base.metadata.create_all(engine)
    sessions = open_sessions(engine)
    all_jobs = jobs_of(jobs, red)
    fill(History(sessions, 1, "main", HEAD_AT), all_jobs, builds)
    took = []
    for _ in range(2):
        started = time.process_time()
        _, found = verdict(sessions, all_jobs)
        took.append(time.process_time() - started)
    return took[0], took[1], found, sessions


def main() -> None:
    """Print what a first and a second verdict cost, by jobs of the head."""
    builds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with tempfile.TemporaryDirectory() as folder:
        for jobs, red in ((125, 25), (250, 50), (500, 100)):
            first, second, found, sessions = measure(Path(folder), jobs, red, builds)
            with sessions() as session:
                kept = session.scalar(select(func.count()).select_from(CiJob))
                signatures = session.scalar(select(func.count()).select_from(Signature))
            print(
                f"{jobs} jobs, {len(found.failures)} failures, {kept} jobs and {signatures} signatures kept: "
                f"first verdict {first:.2f} s, second {second:.2f} s ({found.overall})"
            )


if __name__ == "__main__":
    main()
