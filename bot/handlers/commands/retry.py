"""`retry [JOB…]`: asks the CI provider to run flaky and infrastructure failures again, each job once."""

from datetime import datetime

from bot import rerunning
from bot.actions import Action, Record, RetryJob, Schedule
from bot.commands import Command
from bot.handlers.commands.shared import (
    CommandFacts,
    Reply,
    best_name,
    names_in,
    no_such_job,
    red_groups,
    says,
)
from bot.handlers.retry import plan_kind, refusal_line
from bot.rerunning import Choice, RedJob


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Ask for the jobs, whose answer comes with the providers'; or say why none is asked for."""
    if not facts.red_jobs:
        return says(
            "No red job of this head is known to Buildkite or GitHub Actions, so there is none to retry."
        )
    names, unknown = meant(command.text, facts.red_jobs)
    if unknown is not None:
        return says(no_such_job(unknown, red_groups(facts)))
    head = facts.look.target.head_sha
    value = facts.memory("ci")
    verdicts = value.get("red_jobs", ()) if value.get("head_sha") == head else ()
    before = rerunning.asked_on(facts.memory(rerunning.KIND), head)
    done = [str(one["name"]) for one in before if one["comment_id"] != facts.comment_id]
    choice = rerunning.choose(names, facts.red_jobs, verdicts, done)
    if not choice.ask:
        return says("Not run again:\n" + "\n".join(refusal_line(*one) for one in choice.refused))
    return Reply((), asking(facts, choice))


def meant(text: str, jobs: tuple[RedJob, ...]) -> tuple[tuple[str, ...], str | None]:
    """Return the jobs that are meant (all without a name), and the first name that means none."""
    known = [job.name for job in jobs]
    found = []
    for name in names_in(text):
        job = best_name(name, known)
        if job is None:
            return (), name
        found.append(job)
    return tuple(found) if text.strip() else tuple(known), None


def asking(facts: CommandFacts, choice: Choice) -> tuple[Action, ...]:
    """Return what asks the providers, and lets the answer follow."""
    jobs = tuple(retry_job(job, facts) for job in choice.ask)
    plan = {"ask": [job.job_id for job in choice.ask], "refused": [list(one) for one in choice.refused]}
    later = Schedule("retry", subject=str(facts.comment_id))
    return (*jobs, Record(plan_kind(facts.comment_id), plan), later)


def retry_job(job: RedJob, facts: CommandFacts) -> RetryJob:
    """Return the action that asks for one job."""
    return RetryJob(
        provider="buildkite" if job.provider == "buildkite" else "github_actions",
        source=job.source,
        build=job.build,
        job_id=job.job_id,
        name=job.name,
        by=facts.author,
        comment_id=facts.comment_id,
    )
