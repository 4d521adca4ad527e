"""Failures that are one: equal verdict and cause, from one test file or step, across shards and platforms."""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from bot.ci.names import cousin
from bot.ci.signature import Signature, normalise

if TYPE_CHECKING:
    from bot.ci.verdict import EvidenceView, FailureVerdict, SignatureView


class GroupSignature(BaseModel):
    """The exception class and message that stand for a group."""

    model_config = ConfigDict(frozen=True)
    exception: str | None = None
    message: str | None = None


class GroupEvidence(BaseModel):
    """One reason of a group's verdict."""

    model_config = ConfigDict(frozen=True)
    rule: str
    strength: str
    says: str
    url: str | None = None
    sha: str | None = None


class Group(BaseModel):
    """One group: what a comment shows as one line with its reasons.

    `count` is the number of distinct failing tests (or of jobs without one); `exceptions` lists each distinct
    exception with its message; `places` names its test files or steps.
    """

    model_config = ConfigDict(frozen=True)
    signature: GroupSignature
    jobs: tuple[str, ...]
    platforms: tuple[str, ...]
    verdict: str
    kind: str | None
    count: int
    tests: tuple[str, ...]
    exceptions: tuple[str, ...]
    evidence: tuple[GroupEvidence, ...]
    would_settle_it: str | None
    places: tuple[str, ...]
    urls: tuple[tuple[str, str], ...] = ()
    required: bool | None = None
    declared_by: str | None = None


def group_failures(failures: Sequence["FailureVerdict"]) -> tuple[Group, ...]:
    """Return the groups, the worst verdict first."""
    roots = list(range(len(failures)))
    seen: dict[Hashable, int] = {}
    for place, failure in enumerate(failures):
        for key in keys_of(failure):
            union(roots, seen.setdefault(key, place), place)
    members: dict[int, list[FailureVerdict]] = {}
    for place, failure in enumerate(failures):
        members.setdefault(find(roots, place), []).append(failure)
    rank = {"regression": 0, "unknown": 1, "unrelated": 2}
    groups = [make_group(group) for group in members.values()]
    return tuple(sorted(groups, key=lambda group: (rank[group.verdict], group.places, group.jobs)))


def keys_of(failure: "FailureVerdict") -> list[Hashable]:
    """Return what makes a failure one with others: its place with its cause, and a telling signature."""
    head = (failure.verdict, failure.kind, failure.declared_by)
    place = failure.file if failure.test and failure.file else cousin(failure.job)
    keys: list[Hashable] = [(*head, "place", place, cause_of(failure))]
    if failure.signature:
        signature = Signature(failure.signature.exception, failure.signature.message)
        if not signature.is_generic:
            keys.append((*head, "signature", signature.short_class, normalise(signature.message)))
    return keys


def cause_of(failure: "FailureVerdict") -> str:
    """Return the rule that decided; a sibling's word counts as the same cause."""
    rule = failure.evidence[0].rule if failure.evidence else ""
    return "" if failure.verdict == "unknown" or rule == "same_signature_as_sibling" else rule


def union(roots: list[int], one: int, other: int) -> None:
    """Join two members."""
    first, second = find(roots, one), find(roots, other)
    roots[max(first, second)] = min(first, second)


def find(roots: list[int], place: int) -> int:
    """Return the member that stands for a group, shortening the way to it."""
    while roots[place] != place:
        roots[place] = roots[roots[place]]
        place = roots[place]
    return place


def make_group(members: Sequence["FailureVerdict"]) -> Group:
    """Return one group of its members."""
    first = members[0]
    tests = sorted({one.test for one in members if one.test})
    jobs = sorted({one.job for one in members})
    required = [one.required for one in members]
    return Group(
        signature=signature_of(first.signature),
        jobs=tuple(jobs),
        platforms=tuple(sorted({one.platform for one in members if one.platform})),
        verdict=first.verdict,
        kind=first.kind,
        count=len(tests) + len({one.job for one in members if not one.test}),
        tests=tuple(tests),
        exceptions=exceptions_of(members),
        evidence=evidence_of(members),
        would_settle_it=next((one.would_settle_it for one in members if one.would_settle_it), None),
        places=tuple(sorted({one.file or one.job for one in members})),
        urls=tuple(sorted({(one.job, one.url) for one in members if one.url})),
        required=True if True in required else None if None in required else False,
        declared_by=first.declared_by,
    )


def signature_of(signature: "SignatureView | None") -> GroupSignature:
    """Return the signature that stands for a group."""
    return (
        GroupSignature(exception=signature.exception, message=signature.message)
        if signature
        else GroupSignature()
    )


def exceptions_of(members: Sequence["FailureVerdict"]) -> tuple[str, ...]:
    """Return each distinct exception with its message, as printed first."""
    found: dict[Hashable, str] = {}
    for one in members:
        if one.signature:
            key = (one.signature.exception, normalise(one.signature.message))
            parts = (one.signature.exception, one.signature.message)
            found.setdefault(key, ": ".join(part for part in parts if part))
    return tuple(found.values())


def evidence_of(members: Sequence["FailureVerdict"], limit: int = 8) -> tuple[GroupEvidence, ...]:
    """Return a group's reasons: one of each rule and commit, deciding ones first."""
    found: dict[Hashable, EvidenceView] = {}
    for depth in range(max((len(one.evidence) for one in members), default=0)):
        for one in members:
            if depth < len(one.evidence):
                evidence = one.evidence[depth]
                found.setdefault((evidence.rule, evidence.sha), evidence)
    return tuple(GroupEvidence(**one.model_dump()) for one in list(found.values())[:limit])
