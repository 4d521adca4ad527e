"""Gathers what an episode's issue is made of: its nights, commits from git, the A/B, fixes from GitHub."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from sqlalchemy import select

from bot.clients import Clients
from bot.db.models import Run, RunState
from bot.db.nightly import Episode
from bot.github import GitHubFault, RepoClient, access_token
from bot.mirror import MirrorError, Source
from bot.nightly.due import case_for, drift_run
from bot.nightly.found import Metric, Nights
from bot.nightly.source import Between, History, full_names, globs_for, open_history
from bot.nightly.story import edge
from bot.pulls import CLOSES
from perf_runner.config import PerfConfig
from perf_runner.history.families import Family
from perf_runner.history.tips import Edge
from perf_runner.models import BenchmarkCase, CaseResult

MOST_FIXES = 20


@dataclass(frozen=True, slots=True)
class Fix:
    """A merged pull request that says it closes the episode's issue."""

    number: int
    sha: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """The A/B of last good and flagged commit as it stands; `result` is its one case, once there is one."""

    run_id: str
    state: RunState
    result: CaseResult | None = None
    error: str | None = None
    url: str | None = None


@dataclass(frozen=True)
class EpisodeFacts:
    """One episode: what is stored of it, what its nights say, and what else was read."""

    key: str
    state: str
    issue: int | None
    family: Family
    metric: Metric
    edge: Edge | None
    case: BenchmarkCase | None = None
    between: Between | None = None
    history_says: str = ""
    contained: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    experiment: Experiment | None = None
    fix: Fix | None = None
    reopened_for: int | None = None
    url: str | None = None

    def holds(self, commit: str, tip: str) -> bool:
        """Say whether a tip has a commit; False where that is not known."""
        return self.contained.get((commit, tip), False)


def episode_facts(
    row: Episode, family: Family, nights: Nights, config: PerfConfig, clients: Clients
) -> EpisodeFacts:
    """Return the facts of one episode."""
    first = family.cases[0]
    metric = nights.judged(first)
    found = edge(first, metric)
    case = case_for(config, first.test, first.config)
    issue = row.issue_number
    fix = read_fix(clients.github, issue) if issue else None
    between, says, contained = read_git(found, metric, first.config, fix, config, clients)
    return EpisodeFacts(
        key=row.key,
        state=row.state,
        issue=issue,
        family=family,
        metric=metric,
        edge=found,
        case=case,
        between=between,
        history_says=says,
        contained=contained,
        experiment=read_experiment(found, case, config, clients),
        fix=fix,
        reopened_for=row.data.get("reopened_for"),
        url=clients.series_url(metric.series.id),
    )


def read_fix(client: RepoClient, issue: int) -> Fix | None:
    """Return the newest merged pull request that refers to the issue and says that it closes it."""
    try:
        events = list(client.pages(f"/issues/{issue}/timeline"))
    except GitHubFault:
        return None
    numbers = [number for event in events if (number := merged_reference(event, issue))]
    for number in list(dict.fromkeys(reversed(numbers)))[:MOST_FIXES]:
        pull = client.pull(number)
        sha = (pull or {}).get("merge_commit_sha")
        if pull and pull.get("merged") and sha:
            return Fix(number, str(sha))
    return None


def merged_reference(event: Mapping[str, Any], issue: int) -> int | None:
    """Return the pull request of a cross-reference whose text closes the issue."""
    if event.get("event") != "cross-referenced":
        return None
    source = (event.get("source") or {}).get("issue") or {}
    if not source.get("pull_request"):
        return None
    closes = {int(number) for number in CLOSES.findall((source.get("body") or "")[:65_536])}
    return int(source["number"]) if issue in closes else None


def read_git(
    found: Edge | None,
    metric: Metric,
    case_name: str,
    fix: Fix | None,
    config: PerfConfig,
    clients: Clients,
) -> tuple[Between | None, str, dict[tuple[str, str], bool]]:
    """Return the commits between good and flagged, why they are not known, and which tip has which commit."""
    tips = full_names(value.sha for value in metric.nights)
    good = found.good.sha if found and found.good else ""
    flagged = found.flagged.sha if found else ""
    wanted = full_names([good, flagged, *([fix.sha] if fix else []), *tips[-20:]])
    if not wanted:
        return None, "The nights do not name their commits in full.", {}
    try:
        history = open_history(clients.settings.data_dir.resolve() / "mirrors", source_of(clients), wanted)
        between = None
        if good in wanted and flagged in wanted:
            rules = [(rule.glob, rule.cases) for rule in config.paths]
            name = case.name if (case := case_for(config, "", case_name)) else ""
            between = history.between(good, flagged, globs_for(rules, name))
        suspects = [one.sha for one in between.touching[:4]] if between else []
        contained = contained_in(history, [*suspects, *([fix.sha] if fix else [])], tips[-20:])
    except (MirrorError, GitHubFault, OSError) as error:
        return None, f"The commits could not be read: {error}.", {}
    says = "" if between else "No good night is known, so there is no range of commits."
    return between, says, contained


def contained_in(
    history: History, commits: Sequence[str], tips: Sequence[str]
) -> dict[tuple[str, str], bool]:
    """Return of each commit and tip whether the tip has it."""
    return {(commit, tip): history.contains(commit, tip) for commit in commits for tip in tips}


def source_of(clients: Clients) -> Source:
    """Return where the repository's commits come from."""
    repository = clients.repository
    url = clients.settings.clone_url.format(
        web=clients.settings.github_web_url, full_name=repository.full_name
    )
    return Source(repository.id, url, access_token(clients.credentials, clients.installation_id))


def read_experiment(
    found: Edge | None, case: BenchmarkCase | None, config: PerfConfig, clients: Clients
) -> Experiment | None:
    """Return the A/B of the episode's edge, where it was queued."""
    if found is None or found.good is None or case is None:
        return None
    wanted = drift_run(clients.spec.repo_id, config, case, found.good.sha, found.flagged.sha)
    with clients.sessions() as session:
        run = session.scalars(select(Run).where(Run.id == wanted.run_id)).first()
    if run is None:
        return None
    return Experiment(run.id, run.state, first_result(run.result), run.error, clients.run_url(run.id))


def first_result(result: Mapping[str, Any] | None) -> CaseResult | None:
    """Return the one case of a run's report; None where it is not one (the lane's word is not trusted)."""
    for item in (result or {}).get("results") or ():
        try:
            return CaseResult.model_validate(item)
        except ValidationError:
            return None
    return None
