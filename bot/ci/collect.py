"""Builds the snapshot of a red head out of the providers: the head, its base, main, other pull requests.

What cannot be read stays unknown and is said in a note; it never counts for anybody's innocence.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import httpx

from bot.ci.failures import Reading
from bot.ci.history import History
from bot.ci.logstore import SqlLogs
from bot.ci.memory import Seen
from bot.ci.neighbours import Neighbours, commit_time, known_issues
from bot.ci.providers.buildkite import SLUG, Buildkite
from bot.ci.providers.fetch import Fetcher, origins
from bot.ci.providers.github_actions import Actions
from bot.ci.providers.reads import GitHubReads, Provider, Sighting, UnreadableError, Window
from bot.ci.shelf import Shelf
from bot.ci.sightings import by_commit, split_attempts, unexplained, unique
from bot.ci.snapshot import BaseRun, Job, JobHistory, OtherPull, Snapshot, SnapshotFile, SnapshotPull
from bot.clients import Clients
from bot.config import CiConfig
from bot.facts import PullFacts
from bot.gathering import Look
from bot.github import GitHubFault, RepoClient, access_token
from bot.head_checks import HeadChecks
from bot.settings import Settings

MOST_MAIN_COMMITS = 10  # of which logs are fetched
MOST_KNOWN_COMMITS = 40
FORGOTTEN = timedelta(days=14)  # what is older on main is no evidence
HINT = (
    "not all that ran on `{branch}` lately is known here; `prgate backfill --days 14 --repo {repo}` reads it"
)
BUILDKITE = "buildkite/"
LOG_HOSTS = (
    "buildkiteartifacts.com",
    "results-receiver.actions.githubusercontent.com",
    "pipelines.actions.githubusercontent.com",
    *(f"productionresultssa{number}.blob.core.windows.net" for number in range(20)),
)


@dataclass(frozen=True)
class Collected:
    """A snapshot, what a reader must know of how it was made, and what logs said, by job key."""

    snapshot: Snapshot
    notes: tuple[str, ...]
    readings: Mapping[str, Reading]


@dataclass(frozen=True)
class Subject:
    """What a snapshot is made of: the pull request as it stands, its checks, and the repository's wishes."""

    facts: PullFacts
    checks: HeadChecks
    config: CiConfig
    now: datetime

    @property
    def history_days(self) -> int:
        """How many days of the base branch are looked back at."""
        return self.config.history_days

    @property
    def issue_labels(self) -> tuple[str, ...]:
        """The labels of issues about CI."""
        return self.config.issue_labels

    @property
    def number(self) -> int:
        """The pull request."""
        return self.facts.target.number

    @property
    def head(self) -> str:
        """The commit that is red."""
        return self.facts.target.head_sha


class Reads:
    """GitHub as the providers see it: refusals as UnreadableError; a limit still postpones the whole job."""

    def __init__(self, client: RepoClient) -> None:
        self._client = client
        self.full_name = client.full_name

    def get(self, path: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON below the repository's address; None for 404."""
        try:
            return self._client.get(path, parameters)
        except GitHubFault as error:
            raise UnreadableError(error.status) from error

    def pages(self, path: str, parameters: Mapping[str, Any] | None = None, key: str = "") -> Iterator[Any]:
        """Yield the items of a list; `key` names a list that is wrapped."""
        try:
            yield from self._client.pages(path, parameters, key)
        except GitHubFault as error:
            raise UnreadableError(error.status) from error


def collect(look: Look, checks: HeadChecks, clients: Clients) -> Collected:
    """Return the snapshot of a pull request's head."""
    settings, config = clients.settings, look.config.ci
    subject = Subject(look.facts, checks, config, clients.now)
    with httpx.Client() as http:
        fetcher = Fetcher(allowed(settings), http)
        reads = Reads(clients.github)
        providers = providers_of(config, checks, clients, fetcher)
        repository = clients.repository
        history = History(clients.sessions, repository.id, repository.default_branch, clients.now)
        shelf = Shelf(providers, fetcher, SqlLogs(clients.sessions, clients.now), history)
        return Collector(subject, reads, providers, shelf).collect()


def providers_of(
    config: CiConfig, checks: HeadChecks, clients: Clients, fetcher: Fetcher
) -> dict[str, Provider]:
    """Return the systems that run this repository's CI, by the name that their jobs carry."""
    settings, required = clients.settings, checks.required
    token = access_token(clients.credentials, clients.installation_id)
    needed = None if required is None else frozenset(required)
    actions = Actions(Reads(clients.github), settings.github_api_url, token, needed, fetcher)
    return {"buildkite": buildkite(settings, config, checks, fetcher), "github_actions": actions}


def allowed(settings: Settings) -> frozenset[str]:
    """Return the origins that may be read: the configured servers, and the hosts that logs lie with."""
    urls = (settings.buildkite_api_url, settings.github_api_url)
    return origins(urls, (*LOG_HOSTS, *settings.log_host_list))


def buildkite(settings: Settings, config: CiConfig, checks: HeadChecks, fetcher: Fetcher) -> Buildkite:
    """Return the pipelines of the configuration and those that set a status here."""
    named = config.buildkite.pipelines if config.buildkite else ()
    seen = [name.split("/")[1] for name in checks.standing if name.startswith(BUILDKITE)]
    pipelines = tuple(dict.fromkeys([*named, *(name for name in seen if SLUG.fullmatch(name))]))
    organization = settings.buildkite_org or (config.buildkite.organization if config.buildkite else "")
    token = settings.buildkite_token.get_secret_value()
    if pipelines and not organization:
        fetcher.note("no Buildkite organisation is configured (`[ci.buildkite]`), so no build was read")
        pipelines = ()
    elif pipelines and not token:
        fetcher.note(
            "no Buildkite token is set (`PRGATE_BUILDKITE_TOKEN`, with the scopes `read_builds` and "
            "`read_build_logs`): jobs and logs are not known"
        )
    return Buildkite(settings.buildkite_api_url, token, organization, pipelines, checks.required, fetcher)


class Collector:
    """Reads for one snapshot. `providers` by the name that their jobs carry."""

    def __init__(
        self,
        subject: Subject,
        github: GitHubReads,
        providers: Mapping[str, Provider],
        shelf: Shelf,
    ) -> None:
        self.subject = subject
        self.github = github
        self.providers = providers
        self.shelf = shelf
        self.fetcher = shelf.fetcher
        self.history = shelf.history

    def collect(self) -> Collected:
        """Return the snapshot and the notes; what was seen on the way is kept."""
        committed = self.head_time()
        base = self.merge_base()
        base_time = commit_time(self.github, base) if base else None
        found = [replace(one, pull=self.subject.number) for one in self.seen_on(self.subject.head)]
        latest, earlier = split_attempts(found)
        self.shelf.add(found)
        red = [one for one in latest if one.job.is_failure]
        jobs = (*self.shelf.whole(latest), *self.unexplained(latest))
        main = self.look_at_main(base, committed) if committed else None
        base_runs = tuple(self.base_runs(base, main, red)) if main else ()
        if red and main and not base_runs and not self.fetcher.faults:
            self.hint()
        snapshot = Snapshot(
            repo=self.github.full_name,
            pr=self.pull_part(committed, base, base_time),
            jobs=jobs,
            base_runs=base_runs,
            other_prs=tuple(self.other_pulls(red, base_time, committed)) if red else (),
            same_commit_runs=tuple(self.shelf.whole(earlier)),
            known_issues=known_issues(self.github, self.fetcher, self.subject.issue_labels) if red else (),
            job_history=self.records(main, latest) if main else (),
        )
        self.shelf.keep()
        return Collected(snapshot, tuple(self.fetcher.notes), self.shelf.readings)

    def head_time(self) -> datetime | None:
        """Return when the head was committed, which is never later than now whatever its author wrote."""
        found = commit_time(self.github, self.subject.head)
        if found is None:
            self.fetcher.note("when the head was committed is not known, so main's builds prove nothing")
            return None
        return min(found, self.subject.now)

    def merge_base(self) -> str | None:
        """Return where the pull request left its base branch; None where GitHub does not say."""
        facts = self.subject.facts
        try:
            found = self.github.get(f"/compare/{facts.base_sha}...{self.subject.head}")
        except UnreadableError:
            return None
        sha = ((found or {}).get("merge_base_commit") or {}).get("sha")
        return str(sha) if sha else None

    def seen_on(self, sha: str) -> list[Sighting]:
        """Return what ran on a commit."""
        return unique(one for provider in self.providers.values() for one in provider.on_commit(sha))

    def unexplained(self, latest: Sequence[Sighting]) -> Iterator[Job]:
        """Yield a job for each red check that no job explains."""
        checks = self.subject.checks
        return unexplained(checks.standing, checks.required, latest)

    def look_at_main(self, base: str | None, committed: datetime) -> Window:
        """Bring what is kept of the base branch up to date; return the time that is looked back at."""
        subject, branch = self.subject, self.subject.facts.base_ref
        window = Window(committed - timedelta(days=subject.history_days), committed)
        for provider in self.providers.values():
            for name, part in provider.parts():
                scope, cuts = f"{name} {branch}" if name else "", self.fetcher.cuts
                self.history.learn(scope, window, self.fetcher, partial(part.on_branch, branch))
                if base:
                    # However late: somebody may have run it to settle this very question. A pull request may
                    # have the merge base as its head, and that build is not main's.
                    ran = (one for one in part.on_commit(base) if not one.for_pull and one.branch == branch)
                    self.history.remember(Seen(one) for one in ran)
                known = self.history.covered(scope)
                if self.fetcher.cuts > cuts and not (known and known.start <= window.start):
                    self.hint()
        return window

    def hint(self) -> None:
        """Say how more of the base branch's past would be known."""
        branch = self.subject.facts.base_ref
        self.fetcher.note_cut(HINT.format(branch=branch, repo=self.github.full_name))

    def base_runs(self, base: str | None, window: Window, red: Sequence[Sighting]) -> Iterator[BaseRun]:
        """Yield the runs of the base branch by commit, the merge base first."""
        branch, names = self.subject.facts.base_ref, {one.job.name for one in red}
        start = min(window.start, window.end - FORGOTTEN)
        with self.history.past() as past:
            shas = past.commits(branch, Window(start, window.end), MOST_KNOWN_COMMITS)
            found = past.of_commits(branch, {*shas, *((base,) if base else ())}, names)
            times = past.committed_at({one.sha for one in found})
        commits = by_commit(found, base)
        self.shelf.recall(one for runs in commits.values() for one in runs)
        for place, (sha, runs) in enumerate(commits.items()):
            lately = place < MOST_MAIN_COMMITS
            made = times.get(sha) or (commit_time(self.github, sha) if lately else None)
            if (made is None and not lately) or (made is not None and made > window.end):
                continue
            self.shelf.add(runs[:1], made)
            yield BaseRun(
                sha=sha,
                branch=branch,
                committed_at=made,
                is_merge_base=sha == base,
                jobs=tuple(self.shelf.with_logs(runs, fetch=lately)),
            )

    def other_pulls(
        self, red: Sequence[Sighting], base_time: datetime | None, committed: datetime | None
    ) -> Iterator[OtherPull]:
        """Yield other pull requests that were red between a day before the merge base and the head."""
        if base_time is None or committed is None:
            return
        start = max(base_time - timedelta(days=1), committed - timedelta(days=self.subject.history_days))
        window = Window(start, committed)
        for provider in self.providers.values():
            for name, part in provider.parts():
                scope = f"{name} pulls" if name else ""
                self.history.learn(scope, window, self.fetcher, part.red_pulls)
        with self.history.past() as past:
            found = past.red_pulls(window)
        neighbours = Neighbours(self.github, self.subject.facts, self.shelf.with_logs)
        yield from neighbours.around(red, found)
        self.shelf.add(neighbours.named(found))

    def records(self, window: Window, latest: Sequence[Sighting]) -> tuple[JobHistory, ...]:
        """Return how the head's jobs did on the base branch."""
        names = {one.job.name for one in latest}
        with self.history.past() as past:
            found = past.records(self.subject.facts.base_ref, window, names, self.subject.history_days)
        return tuple(found)

    def pull_part(
        self, committed: datetime | None, base: str | None, base_time: datetime | None
    ) -> SnapshotPull:
        """Return the pull request as the snapshot holds it."""
        facts = self.subject.facts
        return SnapshotPull(
            number=facts.target.number,
            title=facts.title,
            body=facts.body,
            author=facts.author,
            labels=facts.labels,
            head_sha=self.subject.head,
            head_committed_at=committed,
            merge_base_sha=base,
            merge_base_committed_at=base_time,
            changed_files=tuple(
                SnapshotFile.model_validate(one, from_attributes=True) for one in facts.files
            ),
            changed_files_complete=facts.files_complete,
        )
