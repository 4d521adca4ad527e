"""`ci`: once a required check was red, keeps the CI note in step with the head."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.actions import Action, Record, Schedule, UpsertComment
from bot.ci_judging import judge_head
from bot.ci_note import CiView, FailureGroup, ci_note
from bot.clients import Clients
from bot.dispatch import Handler, JobSpec
from bot.gathering import Look, look_at
from bot.head_checks import HeadChecks, read_checks
from bot.people import claims_unrelated


@dataclass(frozen=True, slots=True)
class CiFacts:
    """How the head's checks stand, and what the failures are."""

    look: Look
    checks: HeadChecks
    groups: tuple[FailureGroup, ...] = ()
    notes: tuple[str, ...] = ()


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
    return CiFacts(look, checks, judged.groups, judged.notes)


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
    if overall != before.get("overall"):
        actions.append(Schedule("triage"))
    return actions


def overall_of(facts: CiFacts) -> str:
    """Return the head in one word: the worst verdict of its failures, or how far its checks are."""
    if not facts.checks.red:
        return "green" if facts.checks.finished else "pending"
    rulings = {group.ruling for group in facts.groups}
    if not rulings:
        return "unknown"
    return next(one for one in ("regression", "unknown", "unrelated") if one in rulings)


def view_of(facts: CiFacts) -> CiView:
    """Return what the note shows."""
    return CiView(
        groups=facts.groups,
        red=facts.checks.red,
        finished=facts.checks.finished,
        required_known=facts.checks.required is not None,
        claim_by=claims_unrelated(facts.look.facts),
        notes=facts.notes,
    )


def value_of(facts: CiFacts, overall: str, red_seen: bool) -> dict[str, Any]:
    """Return the decision's row."""
    return {
        "overall": overall,
        "head_sha": facts.look.target.head_sha,
        "red": list(facts.checks.red),
        "red_seen": red_seen,
        "finished": facts.checks.finished,
        "failures": [failure_value(group) for group in facts.groups],
        "groups": [group.to_value() for group in facts.groups],
        "notes": list(facts.notes),
    }


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
