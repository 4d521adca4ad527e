"""`retry`: answers a comment that asked for jobs to be run again, once the providers have answered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot import rerunning, store
from bot.actions import Action, UpsertComment
from bot.clients import Clients
from bot.comments import answer
from bot.dispatch import Handler, JobSpec
from bot.escape import code, prose, text
from bot.gathering import Look, look_at


@dataclass(frozen=True, slots=True)
class RetryFacts:
    """What one comment asked for (`plan`), and what the providers said to each job of this head."""

    look: Look
    comment_id: int
    plan: Mapping[str, Any]
    answered: Sequence[Mapping[str, Any]]


def gather(spec: JobSpec, clients: Clients) -> RetryFacts | None:
    """Read the plan of the comment that the job names, and the providers' answers."""
    if spec.number is None or not spec.subject.isdigit():
        return None
    look = look_at(spec, clients, (rerunning.KIND,))
    if look is None:
        return None
    with clients.sessions() as session:
        plan = store.latest_value(session, spec.repo_id, spec.number, plan_kind(int(spec.subject)))
    answered = rerunning.asked_on(look.memory[rerunning.KIND], look.target.head_sha)
    return RetryFacts(look, int(spec.subject), plan, answered)


def plan_kind(comment_id: int) -> str:
    """Return the kind under which is kept what a comment asked for."""
    return f"{rerunning.KIND}:{comment_id}"


def decide(facts: RetryFacts, now: datetime) -> list[Action]:
    """Return the answer: what was asked for, and what was refused and why. Pure."""
    if not facts.look.usable or not facts.plan:
        return []
    marker = f"answer:{facts.comment_id}:retry"
    return [UpsertComment(marker, answer(marker, facts.look.frame, paragraphs(facts)))]


def paragraphs(facts: RetryFacts) -> tuple[str, ...]:
    """Return the answer's paragraphs."""
    by_id = {str(one["job_id"]): one for one in facts.answered}
    wanted = [by_id[job_id] for job_id in facts.plan.get("ask", ()) if job_id in by_id]
    asked = [code(one["name"]) for one in wanted if not one["refused"]]
    refused = [f"- {code(one['name'])}: {text(one['refused'])}" for one in wanted if one["refused"]]
    refused += [refusal_line(name, why) for name, why in facts.plan.get("refused", ())]
    says = []
    if asked:
        says.append(f"Asked to run again: {', '.join(asked)}. How that ends counts in the CI note.")
    if refused:
        says.append("Not run again:\n" + "\n".join(refused))
    return tuple(says) or ("The head moved before anything was asked for.",)


def refusal_line(name: str, why: str) -> str:
    """Return one job that is not run again, with the reason."""
    return f"- {code(name)}: {prose(why)}"


HANDLER = Handler("retry", gather, decide, lambda facts: facts.look.target)
