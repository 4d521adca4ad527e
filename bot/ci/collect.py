"""Builds the snapshot of a red head out of the providers: the head, its base, main, other pull requests.

What cannot be read stays unknown and is said in a note; it never counts for anybody's innocence.
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import httpx

from bot.ci.logstore import LogStore
from bot.ci.providers.buildkite import Buildkite, created, jobs_of
from bot.ci.providers.fetch import Fetcher, host_of
from bot.ci.providers.github_actions import Actions
from bot.ci.snapshot import (
    BaseRun,
    Job,
    JobHistory,
    KnownIssue,
    OtherPull,
    Snapshot,
    SnapshotFile,
    SnapshotPull,
)
from bot.clients import Clients
from bot.facts import PullFacts
from bot.gathering import Look
from bot.github import GitHubFault, RepoClient, access_token
from bot.head_checks import HeadChecks
from bot.pulls import merge_base

MOST_LOGS = 80
MOST_OTHERS = 8
MOST_MAIN_COMMITS = 10
MOST_ISSUES = 100
ISSUE_LABEL = "ci-failure"
BUILDKITE = "buildkite/"
LOG_HOSTS = ("results-receiver.actions.githubusercontent.com", "productionresultssa0.blob.core.windows.net")


@dataclass(frozen=True)
class Collected:
    """A snapshot, and what a reader must know of how it was made."""

    snapshot: Snapshot
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Sighting:
    """A job seen in a build: where it ran, and whether a later attempt replaced it."""

    job: Job
    pipeline: str
    sha: str
    branch: str
    pull: int | None
    created_at: datetime | None
    replaced: bool


def collect(look: Look, checks: HeadChecks, clients: Clients) -> Collected:
    """Return the snapshot of a pull request's head."""
    with httpx.Client() as http:
        return Collector(look, checks, clients, http).collect()


class Collector:
    """Reads for one snapshot."""

    def __init__(self, look: Look, checks: HeadChecks, clients: Clients, http: httpx.Client) -> None:
        self.facts: PullFacts = look.facts
        self.look = look
        self.checks = checks
        self.client: RepoClient = clients.github
        self.head = look.facts.target.head_sha
        settings = clients.settings
        hosts = {host_of(settings.buildkite_api_url), host_of(settings.github_api_url), *LOG_HOSTS}
        self.fetcher = Fetcher(
            frozenset({*hosts, *settings.log_host_list, *local(settings.log_host_list, hosts)}), http
        )
        self.store = LogStore(clients.sessions, clients.now)
        config = look.config.ci.buildkite
        organization = settings.buildkite_org or (config.organization if config else "")
        token = settings.buildkite_token.get_secret_value()
        self.buildkite = Buildkite(settings.buildkite_api_url, token, organization, self.fetcher)
        token_of_github = access_token(clients.credentials, clients.installation_id)
        self.actions = Actions(self.client, settings.github_api_url, token_of_github, self.fetcher)
        self.logs_read = 0

    def collect(self) -> Collected:
        """Return the snapshot and the notes."""
        committed = self.committed_at(self.head)
        base_sha = merge_base(self.client, self.facts.base_sha, self.head)
        base_time = self.committed_at(base_sha) if base_sha else None
        head = [*self.buildkite_head(), *self.actions_of(self.head)]
        main = [*self.buildkite_main(committed), *self.actions_of(base_sha)]
        newest, earlier = split_attempts(head)
        jobs = [*self.with_logs(newest), *self.unread(newest)]
        snapshot = Snapshot(
            repo=self.client.full_name,
            pr=self.pull_part(committed, base_sha, base_time),
            jobs=tuple(jobs),
            base_runs=tuple(self.base_runs(main, base_sha, committed)),
            other_prs=tuple(self.other_pulls(base_time, committed)),
            same_commit_runs=tuple(self.with_logs(earlier)),
            known_issues=tuple(self.known_issues()),
            job_history=tuple(history(main, self.look.config.ci.history_days)),
        )
        return Collected(snapshot, tuple(self.fetcher.notes))

    def committed_at(self, sha: str) -> datetime | None:
        """Return when a commit was made; None where GitHub does not say."""
        try:
            found = self.client.get(f"/commits/{sha}") or {}
        except GitHubFault:
            return None
        date = ((found.get("commit") or {}).get("committer") or {}).get("date")
        return Job.model_validate({"started_at": date}).started_at

    def pull_part(
        self, committed: datetime | None, base: str | None, base_time: datetime | None
    ) -> SnapshotPull:
        """Return the pull request as the snapshot holds it."""
        facts = self.facts
        return SnapshotPull(
            number=facts.target.number,
            title=facts.title,
            body=facts.body,
            author=facts.author,
            labels=facts.labels,
            head_sha=self.head,
            head_committed_at=committed,
            merge_base_sha=base,
            merge_base_committed_at=base_time,
            changed_files=tuple(
                SnapshotFile.model_validate(one, from_attributes=True) for one in facts.files
            ),
            changed_files_complete=facts.files_complete,
        )

    def pipelines(self) -> list[str]:
        """Return the Buildkite pipelines: those of the configuration, and those that set a status here."""
        config = self.look.config.ci.buildkite
        named = list(config.pipelines) if config else []
        seen = [name.split("/")[1] for name in self.checks.standing if name.startswith(BUILDKITE)]
        found = list(dict.fromkeys([*named, *seen]))
        if found and not self.buildkite.organization:
            self.fetcher.note(
                "no Buildkite organisation is configured (`[ci.buildkite]`), so no build was read"
            )
            return []
        if found and not self.buildkite.token:
            self.fetcher.note(
                "no Buildkite token is set (`PRGATE_BUILDKITE_TOKEN`): jobs and logs are not known"
            )
        return found

    def required(self, pipeline: str) -> bool | None:
        """Say whether a pipeline's status is required; None where the rules are not known."""
        needed = self.checks.required
        if needed is None:
            return None
        return any(
            name == BUILDKITE + pipeline or name.startswith(f"{BUILDKITE}{pipeline}/") for name in needed
        )

    def sightings(self, pipeline: str, asked: Mapping[str, str]) -> Iterator[Sighting]:
        """Yield the ended jobs of a pipeline's builds, newest build first."""
        for build in self.buildkite.builds(pipeline, asked):
            pull = (build.get("pull_request") or {}).get("id")
            number = int(str(pull)) if str(pull).isdigit() else None
            sha, branch = str(build.get("commit") or ""), str(build.get("branch") or "")
            for job, replaced in jobs_of(build, self.required(pipeline), pipeline):
                yield Sighting(job, pipeline, sha, branch, number, created(build), replaced)

    def buildkite_head(self) -> Iterator[Sighting]:
        """Yield what ran on the head."""
        for pipeline in self.pipelines():
            yield from self.sightings(pipeline, {"commit": self.head})

    def buildkite_main(self, committed: datetime | None) -> Iterator[Sighting]:
        """Yield what ran on the base branch in the days before the head was committed."""
        if committed is None:
            self.fetcher.note("when the head was committed is not known, so main's builds prove nothing")
            return
        window = timedelta(days=self.look.config.ci.history_days)
        asked = {
            "branch": self.facts.base_ref,
            "created_from": (committed - window).isoformat(),
            "created_to": committed.isoformat(),
        }
        for pipeline in self.pipelines():
            yield from self.sightings(pipeline, asked)

    def actions_of(self, sha: str | None) -> Iterator[Sighting]:
        """Yield what GitHub Actions ran on a commit."""
        if sha is None:
            return
        required = None if self.checks.required is None else frozenset(self.checks.required)
        try:
            for job, replaced in self.actions.jobs(sha, required):
                yield Sighting(job, "", sha, "", None, job.started_at, replaced)
        except GitHubFault as error:
            self.fetcher.note(f"GitHub Actions could not be read ({error.status}): `actions: read` is needed")

    def with_logs(self, found: Iterable[Sighting]) -> Iterator[Job]:
        """Yield jobs, the red ones with their logs."""
        for one in found:
            yield one.job.model_copy(update={"log": self.log(one)}) if one.job.is_failure else one.job

    def log(self, one: Sighting) -> str | None:
        """Return the log of one job, within what one verdict may read."""
        self.logs_read += 1
        if self.logs_read > MOST_LOGS:
            self.fetcher.note(f"more than {MOST_LOGS} red jobs: the logs of the others were not read")
            return None
        if one.job.provider == "buildkite":
            return self.store.text(one.job, lambda: self.buildkite.log(one.job, one.pipeline))
        return self.store.text(one.job, lambda: self.actions.log(one.job))

    def unread(self, found: Sequence[Sighting]) -> Iterator[Job]:
        """Yield red checks that no provider explains, so that none of them is forgotten."""
        explained = {BUILDKITE + one.pipeline for one in found if one.pipeline}
        names = {one.job.name for one in found} | {one.job.name.rpartition(" / ")[2] for one in found}
        for name, standing in self.checks.standing.items():
            pipeline = "/".join(name.split("/")[:2])
            if standing == "failed" and name not in names and pipeline not in explained:
                needed = None if self.checks.required is None else name in self.checks.required
                yield Job(id=name, name=name, required=needed, conclusion="failed")

    def base_runs(
        self, main: Sequence[Sighting], base: str | None, committed: datetime | None
    ) -> Iterator[BaseRun]:
        """Yield the runs of the base branch by commit, the merge base first."""
        by_commit: dict[str, list[Sighting]] = {}
        for one in main:
            if not one.replaced or one.job.is_failure:
                by_commit.setdefault(one.sha, []).append(one)
        order = sorted(by_commit, key=lambda sha: (sha != base, -newest(by_commit[sha])))
        for sha in islice(order, MOST_MAIN_COMMITS):
            made = self.committed_at(sha)
            if made is None or committed is None or made <= committed:
                jobs = tuple(self.with_logs(by_commit[sha]))
                yield BaseRun(
                    sha=sha,
                    branch=self.facts.base_ref,
                    committed_at=made,
                    is_merge_base=sha == base,
                    jobs=jobs,
                )

    def other_pulls(self, base_time: datetime | None, committed: datetime | None) -> Iterator[OtherPull]:
        """Yield other pull requests that were red between a day before the merge base and the head."""
        if base_time is None or committed is None:
            return
        asked = {
            "state": "failed",
            "created_from": (base_time - timedelta(days=1)).isoformat(),
            "created_to": committed.isoformat(),
        }
        by_pull: dict[int, list[Sighting]] = {}
        for pipeline in self.pipelines():
            for one in self.sightings(pipeline, asked):
                if one.pull is not None and one.pull != self.facts.target.number and not one.replaced:
                    by_pull.setdefault(one.pull, []).append(one)
        for number, found in islice(by_pull.items(), MOST_OTHERS):
            yield self.other_pull(number, found)

    def other_pull(self, number: int, found: Sequence[Sighting]) -> OtherPull:
        """Return one other pull request with its red jobs."""
        try:
            pull = self.client.pull(number) or {}
            files = list(islice(self.client.pages(f"/pulls/{number}/files"), 300)) if pull else None
        except GitHubFault:
            pull, files = {}, None
        base_ref = (pull.get("base") or {}).get("ref")
        sha = found[0].sha
        return OtherPull(
            number=number,
            author=(pull.get("user") or {}).get("login"),
            head_sha=sha,
            ran_at=found[0].created_at,
            stacked_on_this=base_ref != self.facts.base_ref if base_ref else None,
            changed_files=None
            if files is None
            else tuple(SnapshotFile(path=one["filename"]) for one in files),
            jobs=tuple(self.with_logs(one for one in found if one.sha == sha)),
        )

    def known_issues(self) -> Iterator[KnownIssue]:
        """Yield the issues that track failures of CI, the latest first."""
        asked = {"labels": ISSUE_LABEL, "state": "all", "sort": "updated"}
        try:
            for one in islice(self.client.pages("/issues", asked), MOST_ISSUES):
                if not one.get("pull_request"):
                    yield issue_part(one)
        except GitHubFault as error:
            self.fetcher.note(f"issues could not be read ({error.status})")


def issue_part(one: Mapping[str, Any]) -> KnownIssue:
    """Return an issue as the snapshot holds it."""
    labels = [label["name"] for label in one.get("labels") or () if isinstance(label, dict)]
    return KnownIssue.model_validate({**one, "url": one.get("html_url"), "labels": labels})


def split_attempts(found: Sequence[Sighting]) -> tuple[list[Sighting], list[Sighting]]:
    """Return the latest attempt of every job of the newest build, and everything else of the same commit."""
    newest_build: dict[str, datetime] = {}
    for one in found:
        if one.created_at and one.job.provider == "buildkite":
            newest_build[one.pipeline] = max(newest_build.get(one.pipeline, one.created_at), one.created_at)
    latest = [
        one
        for one in found
        if not one.replaced
        and (one.pipeline not in newest_build or one.created_at == newest_build[one.pipeline])
    ]
    return latest, [one for one in found if one not in latest]


def newest(found: Sequence[Sighting]) -> float:
    """Return the time of the newest build among these, as a number to sort by."""
    return max((one.created_at.timestamp() for one in found if one.created_at), default=0.0)


def history(main: Iterable[Sighting], days: int) -> Iterator[JobHistory]:
    """Yield how each job did on the base branch."""
    by_name: dict[str, list[Job]] = {}
    for one in main:
        by_name.setdefault(one.job.name, []).append(one.job)
    for name, jobs in by_name.items():
        seconds = [job.seconds for job in jobs if job.conclusion == "passed" and job.seconds is not None]
        yield JobHistory(
            name=name,
            window_days=days,
            passed=sum(job.conclusion == "passed" for job in jobs),
            failed=sum(job.is_failure for job in jobs),
            median_seconds=statistics.median(seconds) if seconds else None,
        )


def local(extra: Sequence[str], hosts: Iterable[str]) -> Iterator[str]:
    """Yield the configured hosts with the ports of those that are extra hosts already."""
    yield from (host for host in hosts if host.rpartition(":")[0] in extra)
