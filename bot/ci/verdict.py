"""The verdict on a red head: whose is each failure, why, and what would settle the open ones.

`judge` is pure and deterministic: the same snapshot gives the same verdict, in whatever order its jobs come.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from bot.ci.clean import clean_lines
from bot.ci.decide import Decision, Kind, Ruling, decide, is_proven_by_base
from bot.ci.evidence import Evidence
from bot.ci.failures import Reading
from bot.ci.family import with_siblings
from bot.ci.groups import Group, group_failures
from bot.ci.imports import Reach
from bot.ci.logs import excerpt_text
from bot.ci.parsers.steps import is_gate
from bot.ci.rules.text import claims_innocence
from bot.ci.scene import Case, Scene, build_scene
from bot.ci.settle import Settle, settle
from bot.ci.snapshot import Job, Snapshot
from bot.ci.weigh import Weighed, weigh

Overall = Literal["regression", "unrelated", "unknown", "green"]
WAIVER_CAP = 10
WORST: tuple[Ruling, ...] = ("regression", "unknown", "unrelated")
SCHEMA = 1


class Frozen(BaseModel):
    """A frozen value."""

    model_config = ConfigDict(frozen=True)


class SignatureView(Frozen):
    """A failure's exception class and message, as printed."""

    exception: str | None
    message: str


class EvidenceView(Frozen):
    """One reason: the rule that found it, how much it weighs, one sentence, and where to look it up."""

    rule: str
    strength: Literal["strong", "medium", "weak"]
    says: str
    url: str | None = None
    sha: str | None = None


class FailureVerdict(Frozen):
    """The verdict on one failure of one job."""

    job: str
    job_id: str | None
    test: str | None
    signature: SignatureView | None
    verdict: Ruling
    kind: Kind | None
    evidence: tuple[EvidenceView, ...]
    would_settle_it: str | None
    platform: str | None = None
    required: bool | None = None
    url: str | None = None
    category: str = "job"
    settle_action: str | None = None
    settle_target: str | None = None
    settle_sha: str | None = None
    declared_by: str | None = None
    file: str | None = None


class Verdict(Frozen):
    """The verdict on a head: every failure, grouped, and the worst of them.

    `blocking` are the red jobs that are required, or not known not to be; `claim` is the author's own
    sentence of innocence, shown as a claim; `notes` say what could not be known.
    """

    repo: str
    pr: int | None
    head_sha: str | None
    failures: tuple[FailureVerdict, ...]
    overall: Overall
    groups: tuple[Group, ...]
    blocking: tuple[str, ...] = ()
    clears_status: str | None = None
    claim: str | None = None
    notes: tuple[str, ...] = ()

    def to_contract(self) -> dict[str, Any]:
        """Return the verdict as the JSON document of the command line."""
        return {
            "schema": SCHEMA,
            "repo": self.repo,
            "pr": self.pr,
            "head_sha": self.head_sha,
            "failures": [one.model_dump(mode="json") for one in self.failures],
            "overall": self.overall,
            "groups": [group.model_dump(mode="json") for group in self.groups],
            "blocking": list(self.blocking),
            "clears_status": self.clears_status,
            "claim": self.claim,
            "notes": list(self.notes),
        }


class Override(Frozen):
    """A person's word about one job (or one test in it): it replaces the verdict and is shown as theirs."""

    job: str
    verdict: Literal["regression", "unrelated"]
    by: str
    reason: str | None = None
    test: str | None = None


def judge(
    snapshot: Snapshot,
    overrides: Sequence[Override] = (),
    reach: Reach | None = None,
    known: Mapping[str, Reading] = MappingProxyType({}),
) -> Verdict:
    """Return the verdict on a head.

    `reach` is what an import graph adds, and only explains; `known` holds what the logs of jobs said that
    were read before, by job key, so that the snapshot need not carry them.
    """
    scene = build_scene(snapshot, reach, known)
    cases = ordered(cases_of(scene))
    weighed = [weigh(case, scene) for case in cases if not is_cascade(case, cases)]
    decisions = with_cap(with_siblings(weighed, [decide(one) for one in weighed]))
    failures = [view(one, decision) for one, decision in zip(weighed, decisions, strict=True)]
    failures += [gate_view(case, failures) for case in cases if is_cascade(case, cases)]
    failures = [overridden(one, overrides) for one in failures]
    overall = overall_of(failures, snapshot.jobs)
    groups = group_failures(failures)
    return Verdict(
        repo=snapshot.repo,
        pr=snapshot.pr.number,
        head_sha=snapshot.pr.head_sha,
        failures=tuple(failures),
        overall=overall,
        groups=groups,
        blocking=blocking_jobs(snapshot.jobs),
        clears_status=clears_status(failures, blocking_jobs(snapshot.jobs)),
        claim=claims_innocence(snapshot.pr.body),
        notes=notes_on(scene, overall),
    )


def cases_of(scene: Scene) -> list[Case]:
    """Return every failure of the head that needs a verdict."""
    return [
        Case(failure, job, scene.head.readings[place], place)
        for place, job in enumerate(scene.head.jobs)
        if job.is_failure
        for failure in scene.head.readings[place].failures
    ]


def ordered(cases: Iterable[Case]) -> list[Case]:
    """Return cases in an order that does not depend on the snapshot's."""
    return sorted(
        cases,
        key=lambda case: (
            case.job.name, case.job.id or "", case.failure.test or "", case.failure.file or "",
            case.failure.exception or "", case.failure.message,
        ),
    )  # fmt: skip


def is_cascade(case: Case, cases: Sequence[Case]) -> bool:
    """Say whether a job only reports that others failed: its log compares their results, and some failed."""
    if case.failure.category != "job" or case.reading.ran or not case.job.log:
        return False
    others = any(other.job is not case.job and other.failure.signature for other in cases)
    return others and is_gate(clean_lines(excerpt_text(case.job.log)))


def with_cap(decisions: Sequence[Decision]) -> list[Decision]:
    """Take back all excuses that the base does not prove where they have more than WAIVER_CAP causes."""
    excused = [one for one in decisions if one.ruling == "unrelated" and not is_proven_by_base(one)]
    causes = {(one.rule, one.evidence[0].says) for one in excused}
    if len(causes) <= WAIVER_CAP:
        return list(decisions)
    says = (
        f"{len(causes)} failures at once would be excused without proof on the base; that is too "
        "many to trust."
    )
    capped = Evidence("too_many_excuses", "strong", says)
    return [
        Decision("unknown", None, (capped, *one.evidence))
        if one.ruling == "unrelated" and not is_proven_by_base(one)
        else one
        for one in decisions
    ]


def view(weighed: Weighed, decision: Decision) -> FailureVerdict:
    """Return the verdict on one failure, ready to be shown."""
    case = weighed.case
    step: Settle | None = settle(weighed) if decision.ruling == "unknown" else None
    signature = case.failure.signature
    return FailureVerdict(
        job=case.job.name,
        job_id=case.job.id,
        test=case.failure.test,
        signature=SignatureView(exception=signature.exception, message=signature.message)
        if signature
        else None,
        verdict=decision.ruling,
        kind=decision.kind,
        evidence=tuple(evidence_view(one) for one in decision.evidence),
        would_settle_it=step.says if step else None,
        platform=case.job.platform,
        required=case.job.required,
        url=case.job.url,
        category=case.failure.category,
        settle_action=step.action if step else None,
        settle_target=step.target if step else None,
        settle_sha=step.sha if step else None,
        file=case.failure.file,
    )


def evidence_view(evidence: Evidence) -> EvidenceView:
    """Return one piece of evidence, ready to be shown."""
    return EvidenceView(
        rule=evidence.rule, strength=evidence.strength, says=evidence.says, url=evidence.url, sha=evidence.sha
    )


def gate_view(case: Case, failures: Sequence[FailureVerdict]) -> FailureVerdict:
    """Return the verdict on a job that only looks at others: the worst of theirs."""
    worst = min(failures, key=lambda one: WORST.index(one.verdict))
    says = f"`{case.job.name}` only looks at the other jobs; it is red because they are."
    return FailureVerdict(
        job=case.job.name,
        job_id=case.job.id,
        test=None,
        signature=None,
        verdict=worst.verdict,
        kind=worst.kind,
        evidence=(EvidenceView(rule="gate_of_other_jobs", strength="medium", says=says, url=case.job.url),),
        would_settle_it=worst.would_settle_it,
        platform=case.job.platform,
        required=case.job.required,
        url=case.job.url,
        category="gate",
    )


def overridden(one: FailureVerdict, overrides: Sequence[Override]) -> FailureVerdict:
    """Return a failure with a person's word in place of the verdict; the last word counts."""
    fitting = [word for word in overrides if word.job == one.job and word.test in (None, one.test)]
    if not fitting:
        return one
    word = fitting[-1]
    reason = f": {word.reason}" if word.reason else ""
    says = f"Declared by {word.by}{reason}."
    kind: Kind | None = "caused_by_pr" if word.verdict == "regression" else one.kind
    return one.model_copy(
        update={
            "verdict": word.verdict,
            "kind": None if word.verdict == "unrelated" and one.verdict != "unrelated" else kind,
            "declared_by": word.by,
            "would_settle_it": None,
            "evidence": (EvidenceView(rule="declared", strength="strong", says=says), *one.evidence),
        }
    )


def overall_of(failures: Sequence[FailureVerdict], jobs: Sequence[Job]) -> Overall:
    """Return the worst verdict; a head whose only red jobs are cascades is unknown."""
    if failures:
        return min((one.verdict for one in failures), key=WORST.index)
    red = any(job.is_cascade or (job.conclusion == "unknown" and not job.soft_failed) for job in jobs)
    finished = any(job.conclusion in ("passed", "failed", "timed_out") for job in jobs)
    return "green" if finished and not red else "unknown"


def blocking_jobs(jobs: Sequence[Job]) -> tuple[str, ...]:
    """Return the red jobs that a merge waits for: required ones, and those not known not to be."""
    red = [job for job in jobs if job.is_failure or job.is_cascade]
    required = [job.name for job in red if job.required] or [job.name for job in red if job.required is None]
    return tuple(sorted(set(required)))


def clears_status(failures: Sequence[FailureVerdict], blocking: Sequence[str]) -> str | None:
    """Return which action turns the required status green, where no failure is the author's or open."""
    if not failures or not blocking or any(one.verdict != "unrelated" for one in failures):
        return None
    kinds = {one.kind for one in failures if one.job in blocking}
    if kinds <= {"flaky", "infra"}:
        return "The required status turns green when the named jobs are run again on this head."
    if "broken_trunk" in kinds:
        return (
            "The required status stays red until the base branch is fixed and this branch has the "
            "fix: then rebase."
        )
    return (
        "The required status stays red until the tracked issue is solved, or a maintainer merges on "
        "their own word."
    )


def notes_on(scene: Scene, overall: Overall) -> tuple[str, ...]:
    """Return what could not be known, as sentences."""
    snapshot = scene.snapshot
    notes = []
    if snapshot.pr.merge_base_sha is None:
        notes.append("The merge base is not known, so nothing could be compared with it.")
    if snapshot.pr.changed_files_complete is not True:
        notes.append("The list of changed files is not known in full.")
    if snapshot.pr.head_committed_at is None:
        notes.append("The head's commit time is not known, so runs elsewhere could not be used.")
    unread = sum(1 for job in snapshot.jobs if job.is_failure and job.log is None and job.junit is None)
    if unread:
        notes.append(
            f"The logs of {unread} red jobs could not be read."
            if unread > 1
            else "The log of 1 red job could not be read."
        )
    if overall == "unknown" and not any(job.is_failure for job in snapshot.jobs):
        notes.append("No job failed by itself: what is red was canceled or never had its turn.")
    return tuple(notes)
