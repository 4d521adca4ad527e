"""`why [JOB]`: the reasons behind a verdict, or behind all that was decided here."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bot.ci_note import explain
from bot.commands import Command
from bot.escape import code, text
from bot.handlers.commands.shared import CommandFacts, Reply, match_job, no_such_job, red_groups, says


def answer(facts: CommandFacts, command: Command, now: datetime) -> Reply:
    """Explain one job, or everything."""
    groups = red_groups(facts)
    if command.text:
        job = match_job(command.text, groups)
        if job is None:
            return says(no_such_job(command.text, groups))
        return says(*explain([group for group in groups if job in group.jobs], facts.at))
    parts = [why_route(facts.memory("route")), why_priority(facts.memory("priority"))]
    parts += explain(groups, facts.at) if groups else [why_ci(facts.memory("ci"))]
    parts.append(why_perf(facts.memory("perf")))
    return says(*(part for part in parts if part))


def why_route(value: Mapping[str, Any]) -> str:
    """Return why these people."""
    owners = value.get("owners") or ()
    lines = [f"- {code(one['login'])}: {text('; '.join(one['reasons']), 500)}" for one in owners[:15]]
    if not lines:
        return "**Owners**: none was found for these files." if value else "**Owners**: not worked out yet."
    reason = value.get("not_asked_because")
    note = f"\n\nNobody is asked: {text(reason)}." if reason else ""
    return "**Owners**\n" + "\n".join(lines) + note


def why_priority(value: Mapping[str, Any]) -> str:
    """Return why this priority."""
    if not value:
        return ""
    by = f", set by {code(value['override_by'])}" if value.get("override_by") else ""
    lines = [f"- {text(one['signal'])} ({one['points']:+d})" for one in value.get("reasons", ())[:20]]
    return f"**Priority: {text(value['level'])}**{by}\n" + "\n".join(lines)


def why_ci(value: Mapping[str, Any]) -> str:
    """Return how CI stands where no failure is known."""
    if not value:
        return ""
    return (
        "**CI**: green."
        if value.get("overall") == "green"
        else "**CI**: no failure of this head is explained yet."
    )


def why_perf(value: Mapping[str, Any]) -> str:
    """Return what was measured."""
    if not value:
        return ""
    lines = [
        f"- {code(one['case'])}: {text(one.get('why') or 'not measured', 400)}"
        for one in value.get("cases", ())
    ]
    return f"**{text(value.get('headline', 'Performance'))}**\n" + "\n".join(lines)
