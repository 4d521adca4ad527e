"""From a red head to the groups that its note shows: collect, judge, translate."""

from dataclasses import dataclass

from bot import settling, store
from bot.ci.collect import collect
from bot.ci.groups import Group
from bot.ci.reach import base_reach
from bot.ci.verdict import Override, Verdict, judge
from bot.ci_note import FailureGroup, Ruling
from bot.clients import Clients
from bot.comments import EvidenceLine
from bot.gathering import Look
from bot.head_checks import HeadChecks

RULINGS: dict[str, Ruling] = {"regression": "regression", "unrelated": "unrelated", "unknown": "unknown"}


@dataclass(frozen=True, slots=True)
class Judged:
    """The groups of a head's failures, what a reader must know beside them, and the verdict as a whole.

    `merge_base_sha` is the commit that the verdict compared with.
    """

    groups: tuple[FailureGroup, ...] = ()
    notes: tuple[str, ...] = ()
    verdict: Verdict | None = None
    merge_base_sha: str | None = None


def judge_head(look: Look, checks: HeadChecks, clients: Clients) -> Judged:
    """Read everything around a red head and return whose its failures are."""
    collected = collect(look, checks, clients)
    target = look.facts.target
    base = collected.snapshot.pr.merge_base_sha
    with clients.sessions() as session:
        said = store.overrides(session, target.repo_id, target.number)
        on_purpose = settling.settled(session, target, base)
    overrides = [override(row.job, row.verdict, row.by, row.reason) for row in said]
    snapshot = collected.snapshot.model_copy(update={"settled": on_purpose})
    reach = base_reach(snapshot, collected.readings, clients)
    verdict = judge(snapshot, overrides, reach, collected.readings)
    groups = tuple(shown(group) for group in verdict.groups)
    return Judged(groups, (*collected.notes, *verdict.notes), verdict, base)


def override(job: str, verdict: str, by: str, reason: str) -> Override:
    """Return a person's word as the verdict takes it."""
    return Override(
        job=job, verdict="unrelated" if verdict == "unrelated" else "regression", by=by, reason=reason or None
    )


def shown(group: Group) -> FailureGroup:
    """Return a group as the note shows it."""
    return FailureGroup(
        ruling=RULINGS.get(group.verdict, "unknown"),
        kind=group.kind,
        count=group.count,
        jobs=group.jobs,
        tests=group.tests,
        platforms=group.platforms,
        exceptions=group.exceptions,
        evidence=tuple(EvidenceLine(one.says, one.url, one.sha) for one in group.evidence),
        would_settle_it=group.would_settle_it,
        declared_by=group.declared_by,
        urls=group.urls,
    )
