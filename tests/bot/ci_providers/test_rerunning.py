"""Which jobs may run again, and what Buildkite answers to the asking."""

from typing import Any

import pytest

from bot.actions import RetryJob, Target
from bot.clients import Clients
from bot.dispatch import JobSpec, RetryLater
from bot.rerunning import RedJob, ask, asked_on, choose
from bot.settings import load_settings
from bot.store import latest_value
from tests.bot.ci_providers.world import BUILDKITE_TOKEN, FAILED, Ci, bk_job

HEAD = "a" * 40


def red(name: str = "Unit", attempt: int = 1) -> RedJob:
    return RedJob("buildkite", "omni/omni", "7", f"id-{name}", name, attempt)


def judged(name: str = "Unit", *verdicts: str, steady: bool = False) -> dict[str, Any]:
    return {"job": name, "id": f"id-{name}", "verdicts": list(verdicts), "steady": steady}


@pytest.mark.parametrize(
    ("job", "verdicts", "done", "why"),
    [
        (red(), [judged("Unit", "flaky")], [], None),
        (red(), [judged("Unit", "infra", "flaky")], [], None),
        (red(), [judged("Unit", "flaky", "regression")], [], "caused by this pull request"),
        (red(), [judged("Unit", "flaky", "unknown")], [], "not decided"),
        (red(), [judged("Unit", "broken_trunk")], [], "would only fail again"),
        (red(), [judged("Unit", "unrelated")], [], "by a person's word"),
        (red(), [judged("Unit", "flaky", steady=True)], [], "do not fail by chance"),
        (red(attempt=2), [judged("Unit", "flaky")], [], "ran again already (attempt 2)"),
        (red(), [judged("Unit", "flaky")], ["Unit"], "each job is once"),
        (red(), [judged("Other", "flaky")], [], "no verdict on this run of it"),
    ],
)
def test_only_chance_and_machines_run_again_and_each_job_once(
    job: RedJob, verdicts: list[dict[str, Any]], done: list[str], why: str | None
) -> None:
    found = choose(["Unit"], [job], verdicts, done)
    assert bool(found.ask) is (why is None)
    assert why is None or why in found.refused[0][1]
    assert choose(["Else"], [job], verdicts, done).ask == ()


def asking(ci: Ci, token: str) -> tuple[Clients, Target, RetryJob]:
    """Return what is needed to ask for the one red job of a build."""
    build = ci.build(7, "feature", bk_job("failed", FAILED), branch="feature", pull=1)
    settings = load_settings({"buildkite_api_url": ci.buildkite.url, "buildkite_token": token})
    clients = Clients(ci.sessions, settings, ci.now, JobSpec("command", 1, 1))
    job = build.jobs[0]
    action = RetryJob("buildkite", f"{ci.buildkite.slug}/omni", "7", job.id, job.name, "owner-01", 5)
    return clients, Target(1, "omni/omni", 1, HEAD), action


def kept(ci: Ci) -> list[Any]:
    with ci.sessions() as session:
        return list(asked_on(latest_value(session, 1, 1, "retry"), HEAD))


def test_buildkite_runs_it_again_once_however_often_the_job_is_done(ci: Ci) -> None:
    clients, target, action = asking(ci, BUILDKITE_TOKEN)
    ask(action, target, clients)
    ask(action, target, clients)
    assert len(ci.buildkite.builds["omni", 7].jobs) == 2
    assert [one["refused"] for one in kept(ci)] == [None]


def test_a_refusal_is_kept_with_what_is_needed(ci: Ci) -> None:
    clients, target, action = asking(ci, "wrong")
    ask(action, target, clients)
    assert "401" in kept(ci)[0]["refused"]
    assert "write_builds" in kept(ci)[0]["refused"]


def test_a_limit_postpones_it_and_keeps_nothing(ci: Ci) -> None:
    clients, target, action = asking(ci, BUILDKITE_TOKEN)
    ci.buildkite.limit(1)
    with pytest.raises(RetryLater):
        ask(action, target, clients)
    assert kept(ci) == []
    ask(action, target, clients)
    assert kept(ci)[0]["refused"] is None


def test_what_was_asked_on_an_older_head_does_not_count(ci: Ci) -> None:
    value = {"head_sha": "b" * 40, "jobs": [{"name": "Unit"}]}
    assert asked_on(value, HEAD) == []
