"""The CI note: what a red head means for its author, group by group. Pure, made from a verdict alone."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from bot.comments import EvidenceLine, Frame, evidence_line, render
from bot.escape import code, prose

Ruling = Literal["regression", "unrelated", "unknown"]
ORDER: tuple[Ruling, ...] = ("regression", "unknown", "unrelated")
TITLES = {
    "regression": "Caused by this pull request",
    "unknown": "Not decided",
    "unrelated": "Not caused by this pull request",
}
KINDS = {
    "broken_trunk": "main is broken",
    "flaky": "flaky",
    "infra": "infrastructure",
    "known_issue": "known issue",
}
SHOWN_GROUPS = 20
SHOWN_TESTS = 12


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures that are one: equal verdict and cause, across shards and platforms.

    `count` counts the distinct failing tests (or jobs without a test); `declared_by` names the person whose
    word replaced the verdict.
    """

    ruling: Ruling
    kind: str | None
    count: int
    jobs: tuple[str, ...]
    tests: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    evidence: tuple[EvidenceLine, ...] = ()
    would_settle_it: str | None = None
    declared_by: str | None = None
    urls: tuple[tuple[str, str], ...] = ()

    def to_value(self) -> dict[str, Any]:
        """Return the group as JSON, for the decision's row."""
        return asdict(self)

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> "FailureGroup":
        """Return a group from its row."""
        known = {one.name for one in fields(cls)}
        plain: dict[str, Any] = {key: value[key] for key in value.keys() & known}
        plain = {key: tuple(item) if isinstance(item, list) else item for key, item in plain.items()}
        plain["evidence"] = tuple(EvidenceLine(**line) for line in plain.get("evidence", ()))
        plain["urls"] = tuple((str(name), str(url)) for name, url in plain.get("urls", ()))
        return cls(**plain)


@dataclass(frozen=True, slots=True)
class CiView:
    """A head's CI: `red` lists the required checks that failed; none of them and `finished` means green.

    `notes` say what could not be read, and which token would tell; `settleable` are the tests that a word of
    a maintainer would run on merge base and head.
    """

    groups: tuple[FailureGroup, ...]
    red: tuple[str, ...]
    finished: bool
    required_known: bool = True
    claim_by: str | None = None
    notes: tuple[str, ...] = ()
    clears_status: str | None = None
    settleable: tuple[str, ...] = ()

    def count(self, ruling: Ruling) -> int:
        """Return how many failures have this verdict."""
        return sum(group.count for group in self.groups if group.ruling == ruling)


def ci_note(view: CiView, frame: Frame) -> str:
    """Return the CI note."""
    ordered = sorted(view.groups, key=lambda group: ORDER.index(group.ruling))
    return render(
        "ci",
        "ci",
        frame,
        view=view,
        title=title(view),
        opening=opening(view),
        groups=ordered[:SHOWN_GROUPS],
        hidden=max(0, len(ordered) - SHOWN_GROUPS),
        titles=TITLES,
        kinds=KINDS,
        shown_tests=SHOWN_TESTS,
        next_steps=[
            next_step(group, f"@{frame.handle}", view.settleable) for group in ordered[:SHOWN_GROUPS]
        ],
        status_step=status_step(view),
    )


def title(view: CiView) -> str:
    """Return the first line: how many failures are whose."""
    if not view.red:
        return "CI is green on this head" if view.finished else "CI is running on this head"
    if not view.groups:
        return "CI is red on this head, and nothing is known yet about why"
    counts = [
        f"{view.count('regression')} yours",
        f"{view.count('unrelated')} unrelated",
        f"{view.count('unknown')} unknown",
    ]
    return f"CI is red on this head: {', '.join(counts)}"


def opening(view: CiView) -> str:
    """Return the sentence that the author needs first."""
    if not view.red:
        return (
            "Nothing for you to fix."
            if view.finished
            else "An earlier head was red; this one is not judged yet."
        )
    if view.count("regression"):
        return "Please look at the failures that this pull request causes; they come first below."
    if not view.groups:
        return "No failure could be read, so nothing is said about whose it is."
    if view.count("unknown"):
        return "Nothing here is proven to be yours; what would settle the open ones is said below."
    return "Nothing for you to fix."


def next_step(group: FailureGroup, at: str, settleable: Sequence[str] = ()) -> str:
    """Return what to do about one group, in Markdown; `settleable` tests may be run by a command."""
    job = group.jobs[0] if group.jobs else ""
    if group.declared_by and group.ruling == "unrelated":
        return "No action by the author: this is a maintainer's word."
    if group.ruling == "unknown":
        settle = prose(group.would_settle_it) if group.would_settle_it else "A look by a maintainer."
        run = f" `{at} settle` does." if set(settleable).intersection(group.tests) else ""
        return f"{settle}{run} A maintainer may also say `{at} unrelated` or `{at} mine` with the job's name."
    if group.ruling == "regression":
        return "Fix it here."
    return {
        "broken_trunk": "Wait for the fix on the base branch, then rebase.",
        "flaky": f"Re-run {code(job)}; `{at} retry` asks CI for it.",
        "infra": f"Re-run {code(job)}, as `{at} retry` does; the machine failed, not the code.",
        "known_issue": f"Tracked already; re-run {code(job)} once it is solved.",
    }.get(group.kind or "", "No action by the author.")


def status_step(view: CiView) -> str | None:
    """Return which action clears the required status, where nothing is the author's to fix."""
    if not view.red or not view.groups or view.count("regression") or view.count("unknown"):
        return None
    names = ", ".join(code(name) for name in view.red)
    return f"{prose(view.clears_status)} Red: {names}." if view.clears_status else f"Red: {names}."


def explain(groups: Sequence[FailureGroup], at: str) -> tuple[str, ...]:
    """Return the answer to `why JOB` as Markdown paragraphs: each group's verdict and all its evidence."""
    return tuple(paragraph for group in groups for paragraph in explain_group(group, at))


def explain_group(group: FailureGroup, at: str) -> tuple[str, ...]:
    """Return one group's verdict, its evidence as a list, and the next step."""
    kind = f" ({KINDS[group.kind]})" if group.kind in KINDS else ""
    jobs = ", ".join(code(job) for job in group.jobs[:10])
    head = (
        f"**{TITLES[group.ruling]}{kind}**: {group.count} failure{'s' if group.count != 1 else ''} in {jobs}."
    )
    reasons = "\n".join(f"- {evidence_line(line)}" for line in group.evidence) or "- no evidence either way"
    return head, reasons, next_step(group, at)
