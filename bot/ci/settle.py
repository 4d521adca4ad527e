"""What would settle an undecided failure: something a person or a command can do next."""

from dataclasses import dataclass, replace
from typing import Literal

from bot.ci.evidence import short
from bot.ci.nature import Nature
from bot.ci.rules.settled import settled_run, what_was_seen
from bot.ci.weigh import SHAKY, Weighed

Action = Literal["settle", "retry", "look"]


@dataclass(frozen=True, slots=True)
class Settle:
    """The next step: run a test on a commit on purpose, retry a job, or look at a log."""

    action: Action
    target: str
    sha: str | None
    says: str


def settle(weighed: Weighed) -> Settle:
    """Return what would settle a failure that is undecided; what was run on purpose in vain is said first."""
    run, step = settled_run(weighed.case, weighed.scene), next_step(weighed)
    if run is None or step.action != "settle":
        return step
    seen = what_was_seen(weighed.case, run, weighed.on_base)
    if run.could_not:
        return replace(step, says=f"{seen} {step.says}")
    job = weighed.case.job.name
    return Settle("look", job, step.sha, f"{seen} A person has to look, or retry `{job}`.")


def next_step(weighed: Weighed) -> Settle:
    """Return the next step for a failure whose test was not run on purpose."""
    job, test = weighed.case.job.name, weighed.case.failure.test
    base = weighed.scene.snapshot.pr.merge_base_sha
    head = weighed.scene.snapshot.pr.head_sha
    if weighed.case.failure.category == "unread":
        return Settle(
            "look", job, head, f"Read the log of `{job}` in full: only part of it could be read here."
        )
    if weighed.case.failure.signature is None:
        return Settle("retry", job, head, no_log(weighed, job))
    if base is None:
        says = f"Rebase on the base branch, so that there is a merge base, and run `{test or job}` on both."
        return Settle("retry", job, head, says)
    if weighed.on_base.state != "passed":
        return on_base_first(weighed, base)
    return on_head_again(weighed, head)


def no_log(weighed: Weighed, job: str) -> str:
    """Return the next step for a job that tells nothing."""
    if weighed.case.job.log is None:
        return f"Fetch the log of `{job}`, or retry the job: without a log nothing can be compared."
    return f"Retry `{job}` and compare the end of its log: no error was recognised in it."


def on_base_first(weighed: Weighed, base: str) -> Settle:
    """Return the next step where the base says nothing yet."""
    job, test = weighed.case.job.name, weighed.case.failure.test
    if test and weighed.case.failure.category == "test":
        says = f"Run `{test}` on the merge base {short(base)}: the same failure there makes it the base branch's{size(weighed.nature)}."  # noqa: E501
        return Settle("settle", test, base, says)
    says = f"Run `{job}` on the merge base {short(base)}: the same failure there makes it the base branch's{size(weighed.nature)}."  # noqa: E501
    return Settle("retry", job, base, says)


def on_head_again(weighed: Weighed, head: str | None) -> Settle:
    """Return the next step where the base passed: does it come back on another machine?"""
    job, test = weighed.case.job.name, weighed.case.failure.test
    other = f" other than `{weighed.case.job.agent}`" if weighed.case.job.agent else ""
    if test and weighed.case.failure.category == "test" and weighed.nature not in SHAKY:
        says = f"Run `{test}` several times on the merge base and on {short(head)}: failing only on the head makes it this pull request's, a pass there makes it flaky."  # noqa: E501
        return Settle("settle", test, head, says)
    says = f"Retry `{job}` on {short(head)} on a machine{other}: a pass makes it flaky, the same failure makes it likely this pull request's{size(weighed.nature)}."  # noqa: E501
    return Settle("retry", job, head, says)


def size(nature: Nature) -> str:
    """Return which figure has to be compared for the failures that need one."""
    return {
        "timeout": " (compare how long the step takes)",
        "memory": " (compare the sizes asked for)",
        "device": " (compare which hosts are hit)",
        "perf": " (measure both on one machine)",
    }.get(nature, "")
