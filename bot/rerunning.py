"""Asks CI providers to run a red job again: which jobs may be, the asking itself, and what is kept of it.

Sources: Buildkite's REST API, "Retry a job" (each job id once; token scope `write_builds`); GitHub's REST
API, "Re-run a job from a workflow run" (permission `actions: write`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx

from bot import store
from bot.actions import RetryJob, Target
from bot.ci.collect import allowed, providers_of
from bot.ci.providers.fetch import Fetcher
from bot.ci.providers.reads import Sighting
from bot.ci.sightings import split_attempts, unique
from bot.clients import Clients
from bot.dispatch import RetryLater
from bot.gathering import Look
from bot.github import GitHubFault
from bot.head_checks import read_checks

KIND = "retry"
RETRIABLE = frozenset({"flaky", "infra"})
TIMEOUT_S = 20.0
LIMITED, LIMIT_PAUSE_S = 429, 60
WORDS = {
    "regression": "caused by this pull request",
    "unknown": "not decided",
    "unrelated": "unrelated by a person's word",
    "broken_trunk": "main's own, and would only fail again",
    "known_issue": "a known issue's, and would only fail again",
}


@dataclass(frozen=True, slots=True)
class RedJob:
    """A red job that stands on this head, as its provider has it now; `attempt` above 1: it ran again.

    `source` is Buildkite's `organisation/pipeline`, or Actions' workflow.
    """

    provider: str
    source: str
    build: str
    job_id: str
    name: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Which jobs to ask for, and why not for the others: (name, reason in Markdown)."""

    ask: tuple[RedJob, ...]
    refused: tuple[tuple[str, str], ...]


def red_jobs(look: Look, clients: Clients) -> tuple[RedJob, ...]:
    """Read the red jobs that stand on the head now."""
    target = look.facts.target
    checks = read_checks(clients.github, target.head_sha, look.facts.base_ref, look.config.ci)
    with httpx.Client() as http:
        fetcher = Fetcher(allowed(clients.settings), http)
        providers = providers_of(look.config.ci, checks, clients, fetcher)
        seen = unique(one for provider in providers.values() for one in provider.on_commit(target.head_sha))
    latest, _ = split_attempts(seen)
    configured = look.config.ci.buildkite
    organization = clients.settings.buildkite_org or (configured.organization if configured else "")
    return tuple(red_job(one, organization) for one in latest if one.job.is_failure and one.job.id)


def red_job(seen: Sighting, organization: str) -> RedJob:
    """Return a sighting as a job that may be asked for."""
    job = seen.job
    source = f"{organization}/{seen.source}" if job.provider == "buildkite" else seen.source
    return RedJob(job.provider or "", source, job.build or "", job.id or "", job.name, job.attempt or 1)


def choose(
    names: Sequence[str], jobs: Iterable[RedJob], verdicts: Iterable[Mapping[str, Any]], done: Iterable[str]
) -> Choice:
    """Return what may be asked for: flaky and infrastructure verdicts, each job once, never build or lint.

    `names` are the jobs that are meant, `verdicts` the latest decision's `red_jobs`, `done` the names of the
    jobs of this head that were asked for before.
    """
    known = {str(one["id"]): one for one in verdicts if one.get("id")}
    before = set(done)
    ask: list[RedJob] = []
    refused: list[tuple[str, str]] = []
    for job in (one for one in jobs if one.name in names):
        why = reason_against(job, known.get(job.job_id), job.name in before)
        if why is None:
            ask.append(job)
        else:
            refused.append((job.name, why))
    return Choice(tuple(ask), tuple(dict.fromkeys(refused)))


def reason_against(job: RedJob, judged: Mapping[str, Any] | None, asked_before: bool) -> str | None:
    """Return why a job is not run again; None where it may be."""
    if asked_before:
        return "it was asked for on this head already, and each job is once"
    if job.attempt > 1:
        return f"it ran again already (attempt {job.attempt})"
    if judged is None:
        return "no verdict on this run of it is there yet"
    if judged.get("steady"):
        return "builds, linters and collection do not fail by chance"
    others = [word for word in judged.get("verdicts", ()) if word not in RETRIABLE]
    if others:
        return f"a failure in it is {WORDS.get(others[0], 'not flaky')}"
    return None


def asked_on(value: Mapping[str, Any], head_sha: str) -> list[Mapping[str, Any]]:
    """Return what was asked of providers on this head, out of the decision's value."""
    return list(value.get("jobs", ())) if value.get("head_sha") == head_sha else []


def ask(action: RetryJob, target: Target, clients: Clients) -> None:
    """Ask for one job, once, and keep the answer; RetryLater where GitHub asks to wait."""
    with clients.sessions() as session:
        value = store.latest_value(session, target.repo_id, target.number, KIND)
    known = asked_on(value, target.head_sha)
    if any(one["job_id"] == action.job_id for one in known):
        return
    says = ask_buildkite(action, clients) if action.provider == "buildkite" else ask_github(action, clients)
    kept = {"head_sha": target.head_sha, "jobs": [*known, {**asdict(action), "refused": says}]}
    with clients.sessions() as session:
        store.record(session, target, KIND, kept, [], clients.now)
        clients.keep(session)


def ask_github(action: RetryJob, clients: Clients) -> str | None:
    """Ask GitHub Actions; return why it refused."""
    try:
        clients.github.write("POST", f"/actions/jobs/{quote(action.job_id, safe='')}/rerun")
    except GitHubFault as fault:
        hint = "; the App needs `actions: write`" if fault.status == 403 else ""
        return f"{fault}{hint}"
    return None


def ask_buildkite(action: RetryJob, clients: Clients) -> str | None:
    """Ask Buildkite; return why it refused. RetryLater where it limits requests."""
    settings = clients.settings
    organization, _, pipeline = action.source.partition("/")
    parts = ("organizations", organization, "pipelines", pipeline, "builds", action.build)
    path = "/".join(quote(part, safe="") for part in (*parts, "jobs", action.job_id, "retry"))
    token = settings.buildkite_token.get_secret_value()
    if clients.lease is not None:
        clients.lease.left_s()
    try:
        answer = httpx.put(
            f"{settings.buildkite_api_url}/v2/{path}",
            headers={"Authorization": f"Bearer {token}"},
            timeout=TIMEOUT_S,
        )
    except httpx.HTTPError as error:
        return f"Buildkite did not answer ({type(error).__name__}); whether it runs again is not known"
    if answer.status_code == LIMITED:
        raise RetryLater(datetime.now(UTC) + timedelta(seconds=LIMIT_PAUSE_S), "Buildkite limits requests")
    if answer.is_success:
        return None
    hint = "; the token needs the scope `write_builds`" if answer.status_code in (401, 403) else ""
    return f"Buildkite answered {answer.status_code}{hint}"
