"""Other runs of the very same commit: a pass proves a flake; a second failure proves nothing by itself."""

import re

from bot.ci.evidence import Evidence, count
from bot.ci.failures import DETERMINISTIC, Reading
from bot.ci.nature import nature_of
from bot.ci.rules.base import url_of
from bot.ci.rules.match import compare
from bot.ci.scene import Case, Scene
from bot.ci.snapshot import Job

STEADY_JOB = re.compile(
    r"lint|format|(?:^|[^a-z])build(?:[^a-z]|$)|compile|type-?check|mypy|clippy|pre-?commit|docs?(?:[^a-z]|$)"
    r"|spell|link-?check|changelog|licen[cs]e|label|policy|sanity|backwards?_compat|(?:^|[^a-z])bc[_-]|package|schema",
    re.I,
)


def passed_on_same_commit(case: Case, scene: Scene) -> Evidence | None:
    """The same job passed on the same commit, in another attempt or build."""
    for job in retries_of(case, scene):
        if job.conclusion == "passed":
            attempt = f"build {job.build}" if job.build and job.build != case.job.build else "another attempt"
            says = f"`{case.job.name}` passed on this very commit in {attempt}."
            return Evidence("passed_on_same_commit", "strong", says, url_of(job), scene.snapshot.pr.head_sha)
    return None


def test_passed_on_same_commit(case: Case, scene: Scene) -> Evidence | None:
    """Another attempt of the job on this commit was red too, but this test passed in it by name."""
    key = case.failure.key
    if key is None or nature_of(case.failure) in ("memory", "device", "timeout"):
        return None
    for job, reading in red_retries(case, scene):
        if key in reading.passed:
            says = f"`{case.failure.test}` passed in another attempt of `{job.name}` on this very commit."
            return Evidence(
                "test_passed_on_same_commit", "strong", says, url_of(job), scene.snapshot.pr.head_sha
            )
    return None


def other_tests_failed_on_same_commit(case: Case, scene: Scene) -> Evidence | None:
    """Another attempt failed in other tests: a hint of chance, no proof."""
    key = case.failure.key
    if key is None:
        return None
    for job, reading in red_retries(case, scene):
        keys = {failure.key for failure in reading.failures}
        if key not in keys and any(keys - {None}):
            says = f"Another attempt of `{job.name}` on this commit failed in other tests."
            return Evidence("other_tests_failed_on_same_commit", "medium", says, url_of(job))
    return None


def repeats_on_another_host(case: Case, scene: Scene) -> Evidence | None:
    """The same failure came back on this commit on another machine, in a retry or on another platform."""
    hosts = {host for host in (case.job.agent,) if host}
    job_seen = None
    for job, reading in (*red_retries(case, scene), *cousins(case, scene)):
        if job.agent and job.agent not in hosts and shows(case, reading):
            job_seen = job_seen or job
            hosts.add(job.agent)
    if job_seen is None or not case.job.agent:
        return None
    says = (
        f"The same failure came back on this commit on {count(len(hosts), 'host')}, last seen in "
        f"`{job_seen.name}`."
    )
    return Evidence("repeats_on_another_host", "medium", says, url_of(job_seen), scene.snapshot.pr.head_sha)


def shows(case: Case, reading: Reading) -> bool:
    """Say whether another run of this commit shows the same failure."""
    return any(
        other.key == case.failure.key and compare(case.failure, other) == "same" for other in reading.failures
    )


def cousins(case: Case, scene: Scene) -> list[tuple[Job, Reading]]:
    """Return the other red jobs of the head in which the same test failed."""
    key = case.failure.key
    if key is None:
        return []
    places = {place for place, _ in scene.head.by_test.get(key, []) if place != case.place}
    return [(scene.head.jobs[place], scene.head.readings[place]) for place in sorted(places)]


def retries_of(case: Case, scene: Scene) -> list[Job]:
    """Return the other runs of a job on the same commit."""
    named = [scene.retries.jobs[place] for place in scene.retries.by_name.get(case.job.name, [])]
    return [job for job in named if (job.id != case.job.id or job.id is None) and same_step(job, case.job)]


def same_step(one: Job, other: Job) -> bool:
    """Say whether two jobs of one name are not known to be two steps."""
    return one.step_key is None or other.step_key is None or one.step_key == other.step_key


def red_retries(case: Case, scene: Scene) -> list[tuple[Job, Reading]]:
    """Return the other red runs of a job on the same commit, read."""
    places = scene.retries.by_name.get(case.job.name, [])
    return [
        (scene.retries.jobs[place], scene.retries.readings[place])
        for place in places
        if place in scene.retries.readings
    ]


def is_deterministic(case: Case) -> bool:
    """Say whether a failure is of a kind that chance does not make: builds, lint, policy, collection.

    Where the log names no finding, the job's name tells.
    """
    if case.failure.category in DETERMINISTIC:
        return True
    return (
        case.failure.category == "job"
        and not case.reading.ran
        and bool(STEADY_JOB.search(case.job.name[:400]))
    )
