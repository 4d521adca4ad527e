"""Builds the snapshot of a red head out of the providers: the head, its base, main, other pull requests.

What cannot be read stays unknown and is said in a note; it never counts for anybody's innocence.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import httpx

from bot.ci.logstore import LogStore, SqlLogs
from bot.ci.neighbours import Neighbours, commit_time, known_issues
from bot.ci.providers.buildkite import SLUG, Buildkite
from bot.ci.providers.fetch import Fetcher, origins
from bot.ci.providers.github_actions import Actions
from bot.ci.providers.reads import GitHubReads, Provider, Sighting, UnreadableError, Window
from bot.ci.sightings import by_commit, history, split_attempts, unexplained, unique
from bot.ci.snapshot import BaseRun, Job, Snapshot, SnapshotFile, SnapshotPull
from bot.clients import Clients
from bot.config import CiConfig
from bot.facts import PullFacts
from bot.gathering import Look
from bot.github import GitHubFault, RepoClient, access_token
from bot.head_checks import HeadChecks
from bot.settings import Settings

MOST_LOGS = 80
MOST_MAIN_COMMITS = 10
BUILDKITE = "buildkite/"
LOG_HOSTS = (
    "results-receiver.actions.githubusercontent.com",
    "pipelines.actions.githubusercontent.com",
    *(f"productionresultssa{number}.blob.core.windows.net" for number in range(20)),
)


@dataclass(frozen=True)
class Collected:
    """A snapshot, and what a reader must know of how it was made."""

    snapshot: Snapshot
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Subject:
    """What a snapshot is made of: the pull request as it stands, its checks, and the days to look back."""

    facts: PullFacts
    checks: HeadChecks
    history_days: int
    now: datetime

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
    subject = Subject(look.facts, checks, config.history_days, clients.now)
    with httpx.Client() as http:
        fetcher = Fetcher(allowed(settings), http)
        reads = Reads(clients.github)
        token = access_token(clients.credentials, clients.installation_id)
        required = checks.required
        providers: dict[str, Provider] = {
            "buildkite": buildkite(settings, config, checks, fetcher),
            "github_actions": Actions(
                reads,
                settings.github_api_url,
                token,
                None if required is None else frozenset(required),
                fetcher,
            ),
        }
        logs = SqlLogs(clients.sessions, clients.now)
        return Collector(subject, reads, providers, fetcher, logs).collect()


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
        fetcher: Fetcher,
        logs: LogStore,
    ) -> None:
        self.subject = subject
        self.github = github
        self.providers = providers
        self.fetcher = fetcher
        self.logs = logs
        self.logs_read = 0

    def collect(self) -> Collected:
        """Return the snapshot and the notes."""
        subject = self.subject
        committed = self.head_time()
        base = self.merge_base()
        base_time = commit_time(self.github, base) if base else None
        window = (
            None if committed is None else Window(committed - timedelta(days=subject.history_days), committed)
        )
        latest, earlier = split_attempts(self.seen_on(subject.head))
        main = self.seen_on_main(base, window)
        checks = subject.checks
        red = [one for one in latest if one.job.is_failure]
        neighbours = Neighbours(self.github, subject.facts, self.with_logs)
        jobs = (*self.with_logs(latest), *unexplained(checks.standing, checks.required, latest))
        snapshot = Snapshot(
            repo=self.github.full_name,
            pr=self.pull_part(committed, base, base_time),
            jobs=jobs,
            base_runs=tuple(self.base_runs(main, base, committed)) if committed else (),
            other_prs=tuple(neighbours.around(red, self.red_pulls(base_time, committed))) if red else (),
            same_commit_runs=tuple(self.with_logs(earlier)),
            known_issues=known_issues(self.github, self.fetcher) if red else (),
            job_history=tuple(history(main, subject.history_days)),
        )
        return Collected(snapshot, tuple(self.fetcher.notes))

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

    def seen_on_main(self, base: str | None, window: Window | None) -> list[Sighting]:
        """Return what ran on the merge base, however old, and on the base branch in a window."""
        branch = self.subject.facts.base_ref
        found = []
        if base is not None:
            # Somebody's pull request may have the merge base as its head: its build is not the branch's.
            found = [one for one in self.seen_on(base) if not one.for_pull and one.branch == branch]
        if window is not None:
            found += [one for p in self.providers.values() for one in p.on_branch(branch, window)]
        return unique(found)

    def red_pulls(self, base_time: datetime | None, committed: datetime | None) -> Iterator[Sighting]:
        """Yield red jobs of pull requests between a day before the merge base and the head."""
        if base_time is None or committed is None:
            return
        start = max(base_time - timedelta(days=1), committed - timedelta(days=self.subject.history_days))
        for provider in self.providers.values():
            yield from provider.red_pulls(Window(start, committed))

    def with_logs(self, found: Iterable[Sighting]) -> Iterator[Job]:
        """Yield jobs, the red ones with their logs."""
        for one in found:
            yield self.with_log(one) if one.job.is_failure else one.job

    def with_log(self, one: Sighting) -> Job:
        """Return one job with its log and report, within what one verdict may read."""
        self.logs_read += 1
        if self.logs_read > MOST_LOGS:
            self.fetcher.note(f"more than {MOST_LOGS} red jobs: the logs of the others were not read")
            return one.job
        provider = self.providers.get(one.job.provider or "")
        if provider is None:
            return one.job
        text = self.logs.get(one.job)
        if text is None:
            text = provider.log(one)
            if text is not None:
                self.logs.put(one.job, text)
        return one.job.model_copy(update={"log": text, "junit": provider.junit(one)})

    def base_runs(self, main: Iterable[Sighting], base: str | None, committed: datetime) -> Iterator[BaseRun]:
        """Yield the runs of the base branch by commit, the merge base first."""
        for sha, found in islice(by_commit(main, base).items(), MOST_MAIN_COMMITS):
            made = commit_time(self.github, sha)
            if made is None or made <= committed:
                yield BaseRun(
                    sha=sha,
                    branch=self.subject.facts.base_ref,
                    committed_at=made,
                    is_merge_base=sha == base,
                    jobs=tuple(self.with_logs(found)),
                )

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
