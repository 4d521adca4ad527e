"""Reads CI's past into the store, a day at a time, the newest first: paced, and resumed where it stopped.

What was read whole is noted as covered, so that a second run asks only for the rest; a log that was read is
never read again.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

import httpx

from bot.ci.collect import Reads, allowed, buildkite
from bot.ci.history import History
from bot.ci.logs import read_job
from bot.ci.logstore import LogStore, SqlLogs
from bot.ci.memory import Seen
from bot.ci.neighbours import pull_of
from bot.ci.providers.fetch import Fetcher, Pace
from bot.ci.providers.github_actions import Actions
from bot.ci.providers.reads import GitHubReads, Provider, Sighting, UnreadableError, Window
from bot.ci.shelf import with_log
from bot.ci.snapshot import Job
from bot.clients import Clients
from bot.config import CiConfig
from bot.dispatch import RetryLater
from bot.gathering import repo_config
from bot.github import access_token
from bot.head_checks import HeadChecks, statuses

DAY = timedelta(days=1)
GAP_S = 0.2  # Buildkite answers about 400 requests in a minute
PATIENCE_S = 3 * 3600.0
MOST_RUNS = 1_000  # GitHub shows no more of one query
MOST_PAGES = 20
LOGS_AT_ONCE = 50
MOST_UNREAD = 5_000


class Progress(Protocol):
    """Where a run tells how far it is."""

    def day(self, repo: str, done: int, days: int) -> None:
        """A day of a repository begins."""

    def wait(self, seconds: float, why: str) -> None:
        """Sleep; `why` is empty for the ordinary pause between two requests."""


@dataclass
class Filled:
    """What a run brought in for one repository; `whole` False: something could not be read."""

    repo: str
    days: int
    jobs: int = 0
    logs: int = 0
    whole: bool = True
    notes: dict[str, None] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return it as the command prints it."""
        return {
            "repo": self.repo,
            "days": self.days,
            "jobs": self.jobs,
            "logs": self.logs,
            "whole": self.whole,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Backfill:
    """One repository's past, about to be read. `branch` is its default branch."""

    history: History
    github: GitHubReads
    providers: Mapping[str, Provider]
    fetcher: Fetcher
    logs: LogStore
    progress: Progress

    def run(self, days: int) -> Filled:
        """Read `days` days back from now, and return what came in."""
        filled = Filled(self.github.full_name, days)
        before = self.history.size()
        for number in range(days):
            self.progress.day(self.github.full_name, number, days)
            end = self.history.now - number * DAY
            self._patiently(partial(self._day, Window(end - DAY, end), filled))
        filled.jobs = self.history.size() - before
        filled.whole = self.fetcher.faults == 0
        filled.notes |= self.fetcher.notes
        return filled

    def _patiently(self, step: Callable[[], None]) -> None:
        """Do a step; where GitHub asks to wait, wait and do it again: what it did is kept."""
        while True:
            try:
                step()
                return
            except RetryLater as later:
                seconds = max(1.0, (later.at - datetime.now(later.at.tzinfo)).total_seconds())
                self.progress.wait(seconds, "GitHub limits how much may be read")

    def _day(self, day: Window, filled: Filled) -> None:
        branch = self.history.main
        for provider in self.providers.values():
            for name, part in provider.parts():
                found = self._learn(f"{name} {branch}" if name else "", day, partial(part.on_branch, branch))
                self.history.remember(self._dated(found, day))
                pulls = self._learn(f"{name} pulls" if name else "", day, part.red_pulls)
                self.history.remember(self._named(pulls))
        filled.logs += self._read_logs(day)

    def _learn(self, scope: str, day: Window, ask: Callable[[Window], Iterator[Sighting]]) -> list[Sighting]:
        return self.history.learn(scope, day, self.fetcher, ask)

    def _dated(self, found: list[Sighting], day: Window) -> Iterator[Seen]:
        """Yield one job a commit of the branch with the commit's own time, of which evidence depends."""
        if not found:
            return
        times = commit_times(self.github, self.history.main, day)
        for sha, one in {one.sha: one for one in found}.items():
            if sha in times:
                yield Seen(one, committed_at=times[sha])

    def _named(self, found: list[Sighting]) -> Iterator[Seen]:
        """Yield the red jobs of forks with the pull request's number, which their runs do not say."""
        red = [one for one in found if one.pull is None and one.job.is_failure]
        numbers = {sha: pull_of(self.github, sha) for sha in {one.sha for one in red}}
        yield from (Seen(replace(one, pull=numbers[one.sha])) for one in red if numbers[one.sha])

    def _read_logs(self, day: Window) -> int:
        """Read the logs of red jobs that nobody read yet, and keep what they say; return how many."""
        with self.history.past() as past:
            unread = past.unread(day, MOST_UNREAD)
        read: list[Seen] = []
        count = 0
        for one in unread:
            reading = self._read(one)
            count += reading is not None
            read += [reading] if reading is not None else []
            if len(read) >= LOGS_AT_ONCE:
                self.history.remember(read)
                read = []
        self.history.remember(read)
        return count

    def _read(self, one: Sighting) -> Seen | None:
        """Return what one job's log and report say; None where there are none to be had."""
        provider = self.providers.get(one.job.provider or "")
        if provider is None:
            return None
        job = with_log(one, provider, self.logs)
        return None if job.log is None and job.junit is None else Seen(one, read_job(job))


def commit_times(github: GitHubReads, branch: str, day: Window) -> dict[str, datetime]:
    """Return when the branch's commits around a day were made; empty where GitHub does not say."""
    span = {"since": (day.start - 2 * DAY).isoformat(), "until": day.end.isoformat()}
    found: dict[str, datetime] = {}
    try:
        for one in github.pages("/commits", {"sha": branch, **span}):
            date = ((one.get("commit") or {}).get("committer") or {}).get("date")
            made = Job.model_validate({"started_at": date}).started_at
            if made is not None:
                found[str(one["sha"])] = made
    except UnreadableError:
        return {}
    return found


def backfill(clients: Clients, days: int, progress: Progress) -> Filled:
    """Read a repository's CI of the last days into the store. GitHubFault where GitHub refuses at all."""
    repository, settings = clients.repository, clients.settings
    branch = repository.default_branch
    config: CiConfig = repo_config(clients.github, branch)[0].ci
    reads = Reads(clients.github)
    checks = HeadChecks(statuses(clients.github, branch))
    with httpx.Client() as http:
        fetcher = Fetcher(allowed(settings), http, Pace(GAP_S, PATIENCE_S, progress.wait))
        token = access_token(clients.credentials, clients.installation_id)
        actions = Actions(reads, settings.github_api_url, token, None, fetcher, most_runs=MOST_RUNS)
        builds = replace(buildkite(settings, config, checks, fetcher), most_pages=MOST_PAGES)
        providers: dict[str, Provider] = {"buildkite": builds, "github_actions": actions}
        history = History(clients.sessions, repository.id, branch, clients.now)
        logs = SqlLogs(clients.sessions, clients.now)
        return Backfill(history, reads, providers, fetcher, logs, progress).run(days)
