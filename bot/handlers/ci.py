"""`ci`: once a required check was red, keeps the CI note in step with the head."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot import permissions, settling
from bot.actions import Action, Record, Schedule, UpsertComment
from bot.ci.failures import DETERMINISTIC
from bot.ci.rules.retries import STEADY_JOB
from bot.ci.verdict import Verdict
from bot.ci_judging import Judged, judge_head
from bot.ci_note import CiView, FailureGroup, ci_note
from bot.clients import Clients
from bot.dispatch import Handler, JobSpec
from bot.experiments import Arms
from bot.gathering import Look, look_at
from bot.handlers.perf import current_run, read_runs
from bot.head_checks import HeadChecks, read_checks
from bot.people import claims_unrelated

MOST_JOBS = 500


@dataclass(frozen=True, slots=True)
class CiFacts:
    """How the head's checks stand, and what its failures were judged to be.

    `settles_unasked`: tests may be run on purpose without anybody asking, and were not yet.
    """

    look: Look
    checks: HeadChecks
    judged: Judged = field(default_factory=Judged)
    settles_unasked: bool = False


def gather(spec: JobSpec, clients: Clients) -> CiFacts | None:
    """Read the checks of the head; only where a counted one is red, read why."""
    look = look_at(spec, clients, ("ci",))
    if look is None:
        return None
    if not look.usable:
        return CiFacts(look, HeadChecks({}))
    target = look.facts.target
    checks = read_checks(clients.github, target.head_sha, look.facts.base_ref, look.config.ci)
    if not checks.red:
        return CiFacts(look, checks)
    judged = judge_head(look, checks, clients)
    return CiFacts(look, checks, judged, settles_unasked(look, judged, spec, clients))


def settles_unasked(look: Look, judged: Judged, spec: JobSpec, clients: Clients) -> bool:
    """Say whether this head's open tests are run without a word: once, where the author may write."""
    config = look.config.ci
    if config.settle is None or not config.settle_budget_minutes or look.routing_only or look.paused:
        return False
    if judged.merge_base_sha is None or not settling.open_tests(judged.verdict):
        return False
    if current_run(look, read_runs(spec, clients, settling.KIND), settling.KIND) is not None:
        return False
    return permissions.at_least(permissions.level(clients, look.facts.author), "write")


def decide(facts: CiFacts, now: datetime) -> list[Action]:
    """Return the note and the record: pure. Without a red there is no note, nor before the first one."""
    look, checks = facts.look, facts.checks
    if not look.usable:
        return []
    before = look.memory["ci"]
    red_seen = bool(checks.red or before.get("red_seen"))
    overall = overall_of(facts)
    actions: list[Action] = []
    if red_seen and look.config.ci.note:
        body = ci_note(view_of(facts), look.frame)
        actions.append(UpsertComment("ci", body, only_edit=look.routing_only or not checks.red))
    actions.append(Record("ci", value_of(facts, overall, red_seen)))
    if facts.settles_unasked:
        actions += settle_unasked(facts)
    if overall != before.get("overall"):
        actions.append(Schedule("triage"))
    return actions


def settle_unasked(facts: CiFacts) -> list[Action]:
    """Return the run that the repository's budget pays for."""
    config, base = facts.look.config.ci, facts.judged.merge_base_sha
    if config.settle is None or base is None:
        return []
    tests = [one.test for one in settling.open_tests(facts.judged.verdict)][: config.settle.most_tests]
    budget_s = min(config.settle_budget_minutes * 60.0, config.settle.time_budget_s)
    target = facts.look.target
    arms = Arms(base, target.head_sha)
    return [settling.tests_run(config.settle, tests, arms, target, (settling.BY_BUDGET, budget_s))]


def overall_of(facts: CiFacts) -> str:
    """Return the head in one word: the worst verdict of its failures, or how far its checks are."""
    if not facts.checks.red:
        return "green" if facts.checks.finished else "pending"
    # A red check without a failure that could be read is not known to be anybody's.
    verdict = facts.judged.verdict
    return verdict.overall if verdict and verdict.failures else "unknown"


def view_of(facts: CiFacts) -> CiView:
    """Return what the note shows."""
    return CiView(
        groups=facts.judged.groups,
        red=facts.checks.red,
        finished=facts.checks.finished,
        required_known=facts.checks.required is not None,
        claim_by=claimant(facts),
        notes=tuple(dict.fromkeys(facts.judged.notes)),
        clears_status=facts.judged.verdict.clears_status if facts.judged.verdict else None,
        settleable=settleable(facts),
    )


def settleable(facts: CiFacts) -> tuple[str, ...]:
    """Return the tests that `settle` would run, where the repository says how."""
    if facts.look.config.ci.settle is None:
        return ()
    return tuple(one.test for one in settling.open_tests(facts.judged.verdict))


def claimant(facts: CiFacts) -> str | None:
    """Return the author where they say that the red is not theirs, in the description or a comment."""
    if facts.judged.verdict is not None and facts.judged.verdict.claim:
        return facts.look.facts.author
    return claims_unrelated(facts.look.facts)


def value_of(facts: CiFacts, overall: str, red_seen: bool) -> dict[str, Any]:
    """Return the decision's row."""
    return {
        "overall": overall,
        "head_sha": facts.look.target.head_sha,
        "red": list(facts.checks.red),
        "red_seen": red_seen,
        "finished": facts.checks.finished,
        "failures": [failure_value(group) for group in facts.judged.groups],
        "groups": [group.to_value() for group in facts.judged.groups],
        "notes": list(facts.judged.notes),
        "open_tests": settling.to_values(settling.open_tests(facts.judged.verdict)),
        "red_jobs": red_jobs(facts.judged.verdict),
    }


def red_jobs(verdict: Verdict | None) -> list[dict[str, Any]]:
    """Return each red job with the verdicts on its failures: what a retry is decided by."""
    found: dict[tuple[str, str | None], dict[str, Any]] = {}
    for one in verdict.failures if verdict is not None else ():
        job = found.setdefault(
            (one.job, one.job_id), {"job": one.job, "id": one.job_id, "verdicts": [], "steady": False}
        )
        word = one.kind if one.verdict == "unrelated" and not one.declared_by else one.verdict
        if (word or one.verdict) not in job["verdicts"]:
            job["verdicts"].append(word or one.verdict)
        job["steady"] = (
            job["steady"] or one.category in DETERMINISTIC or bool(STEADY_JOB.search(one.job[:400]))
        )
    return list(found.values())[:MOST_JOBS]


def failure_value(group: FailureGroup) -> dict[str, Any]:
    """Return a group as a page lists it: what failed, whose it is, and why."""
    what = f"{group.tests[0]} and {group.count - 1} more" if group.count > 1 and group.tests else None
    return {
        "job": ", ".join(group.jobs),
        "test": what or next(iter(group.tests), None),
        "verdict": group.ruling,
        "kind": group.kind,
        "evidence": [{"says": line.says, "url": line.url, "sha": line.sha} for line in group.evidence],
        "would_settle_it": group.would_settle_it,
    }


HANDLER = Handler("ci", gather, decide, lambda facts: facts.look.target)
