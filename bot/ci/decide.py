"""From the evidence about one failure to its verdict: guilt first, then the base, then chance, then machines.

The order is the safety: a step that could excuse stands behind every step that accuses, and what no step
decides is unknown, which is shown red.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from bot.ci.evidence import RANK, Evidence
from bot.ci.rules import machines
from bot.ci.rules.match import compare
from bot.ci.signature import short_class
from bot.ci.weigh import SHAKY, Weighed, context_of

Ruling = Literal["regression", "unrelated", "unknown"]
Kind = Literal["caused_by_pr", "broken_trunk", "flaky", "infra", "known_issue"]
EVIDENCE_LIMIT = 8
WITNESSES_NEEDED = 2
TESTS_NEEDED = 3
RECENT = timedelta(days=3)
PROGRAMMING = frozenset({"AttributeError", "TypeError", "NameError", "UnboundLocalError"})
BASE_RULES = frozenset({"same_signature_on_base", "same_signature_on_main", "settled_fails_on_base"})


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict on one failure; the deciding evidence comes first."""

    ruling: Ruling
    kind: Kind | None
    evidence: tuple[Evidence, ...]

    @property
    def rule(self) -> str:
        """Return the name of the evidence that decided."""
        return self.evidence[0].rule if self.evidence else "none"


def decide(weighed: Weighed, steps: Sequence["Step"] | None = None) -> Decision:
    """Return the verdict on one failure: the first step that knows decides."""
    for step in STEPS if steps is None else steps:
        decision = step(weighed)
        if decision:
            return complete(decision, weighed)
    return complete(Decision("unknown", None, strongest(weighed)), weighed)


def complete(decision: Decision, weighed: Weighed) -> Decision:
    """Add what else is worth saying behind the deciding evidence."""
    extra = [*weighed.guilt, *weighed.doubts(), *context_of(weighed)]
    unique = {(one.rule, one.sha, one.says): one for one in (*decision.evidence, *extra)}
    return Decision(decision.ruling, decision.kind, tuple(unique.values())[:EVIDENCE_LIMIT])


def strongest(weighed: Weighed) -> tuple[Evidence, ...]:
    """Return the evidence of an undecided failure, the weightiest first."""
    found = [*weighed.guilt, *weighed.doubts()]
    return tuple(sorted(found, key=lambda one: RANK[one.strength]))


def regression(*evidence: Evidence | None) -> Decision:
    """Return the verdict that the change did it."""
    return Decision("regression", "caused_by_pr", tuple(one for one in evidence if one))


def unrelated(kind: Kind, *evidence: Evidence | None) -> Decision:
    """Return the verdict that the change did not do it."""
    return Decision("unrelated", kind, tuple(one for one in evidence if one))


def unknown(*evidence: Evidence | None) -> Decision:
    """Return that nobody knows yet."""
    return Decision("unknown", None, tuple(one for one in evidence if one))


def unread_is_unknown(weighed: Weighed) -> Decision | None:
    """What could not be read is never excused."""
    if weighed.case.failure.category != "unread":
        return None
    says = f"Part of the log could not be read: {weighed.case.failure.message}."
    return unknown(Evidence("unread", "weak", says, weighed.case.job.url))


def settled_guilt(weighed: Weighed) -> Decision | None:
    """Running the test on purpose on both sides is the best proof there is."""
    return regression(weighed.settled_head) if weighed.settled_head else None


def fails_on_base(weighed: Weighed) -> Decision | None:
    """The merge base fails the same way: it was there before, whatever else points at the change."""
    proof = weighed.settled_base or weighed.same_on_base
    if proof is None:
        return None
    quarantined = [one for one in weighed.tracked if one.quarantine]
    return unrelated(
        "known_issue" if quarantined else "broken_trunk", proof, weighed.known_test if quarantined else None
    )


def definite_guilt(weighed: Weighed) -> Decision | None:
    """What failed did not exist before the change."""
    return regression(weighed.definite, weighed.passed_on_base) if weighed.definite else None


def fails_on_main(weighed: Weighed) -> Decision | None:
    """Several runs of the base branch fail the same way; where the merge base passed, nothing may accuse."""
    if weighed.same_on_main is None:
        return None
    if weighed.on_base.state == "passed" and (weighed.guilt or weighed.scene.changes_environment):
        return None
    return unrelated("broken_trunk", weighed.same_on_main)


def guilt_with_green_base(weighed: Weighed) -> Decision | None:
    """Something points at the change, and the base passed: it is the change's, unless there is doubt."""
    if not weighed.accusing:
        return None
    strong = weighed.accusing[0].strength == "strong"
    green = weighed.passed_on_base or (
        weighed.passed_on_main if strong and weighed.on_base.state == "not_run" else None
    )
    if green is None:
        return None
    shaky = weighed.nature in SHAKY and not strong
    doubted = weighed.passed_again if strong else weighed.doubts()
    return None if shaky or doubted else regression(weighed.accusing[0], green, *weighed.accusing[1:])


def guilt_forbids_excuses(weighed: Weighed) -> Decision | None:
    """Whatever points at the change forbids an excuse; a mere hint gives way to a pass on the same commit."""
    hints_only = not weighed.accusing
    if not weighed.guilt or (hints_only and weighed.passed_again and not weighed.is_deterministic):
        return None
    return unknown(*strongest(weighed))


def environment_forbids_excuses(weighed: Weighed) -> Decision | None:
    """A change of what is installed, built or run is excused by the base alone."""
    if not weighed.scene.changes_environment:
        return None
    files = weighed.scene.environment_files
    what = f"changes `{files[0]}`" if files else "is about its environment, by its title"
    says = f"This pull request {what}; only the same failure on the base would clear it."
    return unknown(*strongest(weighed), Evidence("environment_changed", "medium", says))


def varies_on_base(weighed: Weighed) -> Decision | None:
    """The base fails the same test with another text each time, and an open issue tracks it."""
    tracked = weighed.known_test
    if weighed.on_base.state != "shape" or tracked is None or tracked.strength != "medium" or weighed.is_perf:
        return None
    base = weighed.on_base.base
    says = (
        f"`{weighed.case.failure.test}` fails on the merge base too, with another text: it differs "
        "from run to run."
    )
    sha = base.run.sha if base else None
    job = weighed.on_base.merge_base.job if weighed.on_base.merge_base else None
    return unrelated(
        "flaky", Evidence("varies_on_base", "strong", says, job.url if job else None, sha), tracked
    )


def passed_on_same_commit(weighed: Weighed) -> Decision | None:
    """The same commit passed: chance. A build needs a second witness; a job without a log stays open."""
    if weighed.passed_again is None or weighed.is_perf:
        return None
    witness = weighed.known or weighed.known_test or weighed.on_another_pull or weighed.seen_on_main
    machine = machines.is_machines_fault(weighed.case) or weighed.nature == "device"
    unseen = not (weighed.case.job.log or weighed.case.job.junit)
    if (weighed.is_deterministic and witness is None) or (unseen and not machine):
        return None
    return unrelated("infra" if machine else "flaky", weighed.passed_again, witness)


def known_issue(weighed: Weighed) -> Decision | None:
    """An open issue tracks this very failure."""
    if weighed.known is None or weighed.is_perf or weighed.is_deterministic:
        return None
    return unrelated("known_issue", weighed.known)


def on_other_pulls(weighed: Weighed) -> Decision | None:
    """Other people's pull requests fail the same way.

    A missing package is no chance, but it is theirs as well as this one's: the base drifted.
    """
    if weighed.on_other_pulls is None or weighed.is_perf:
        return None
    if weighed.is_deterministic:
        drifted = weighed.nature == "dependency" and weighed.scene.files_known
        return unrelated("broken_trunk", weighed.on_other_pulls) if drifted else None
    if weighed.nature in SHAKY and weighed.case.failure.test is None:
        return None
    return unrelated("flaky", weighed.on_other_pulls)


def two_witnesses(weighed: Weighed) -> Decision | None:
    """One run of main, one other pull request, an open issue about the test: two of them tell the same."""
    main = weighed.seen_on_main if weighed.on_base.is_still_red and not weighed.scene.is_reland else None
    issue = weighed.known_test if weighed.known_test and weighed.known_test.strength == "medium" else None
    witnesses = [one for one in (main, weighed.on_another_pull, issue) if one]
    if len(witnesses) < WITNESSES_NEEDED or weighed.is_perf or (weighed.is_deterministic and main is None):
        return None
    return unrelated("broken_trunk" if main else "flaky", *witnesses)


def flickers(weighed: Weighed) -> Decision | None:
    """The base branch flickers with this failure."""
    proof = weighed.settled_flickers or weighed.flickers
    if proof is None or weighed.is_perf or weighed.is_deterministic:
        return None
    return unrelated("flaky", proof)


def machines_fault(weighed: Weighed) -> Decision | None:
    """A machine's line, no test failing anywhere in the log, and a second witness."""
    case, scene = weighed.case, weighed.scene
    if not machines.is_machines_fault(case) or (weighed.passed_on_base and scene.is_reland):
        return None
    witness = (
        machines.infra_elsewhere(case, scene)
        or machines.one_host(case, scene)
        or machines.nothing_ran(case, scene)
    )
    return unrelated("infra", machines.infra_line(case, scene), witness) if witness else None


def repeats_with_green_base(weighed: Weighed) -> Decision | None:
    """The base passed, and the same failure came back on another machine: chance and machines are out."""
    green, repeats = weighed.passed_on_base, weighed.repeats
    if green is None or repeats is None or weighed.doubts():
        return None
    if weighed.nature in SHAKY or weighed.nature == "dependency" or weighed.case.failure.signature is None:
        return None
    return regression(green, repeats)


def broken_code_with_green_base(weighed: Weighed) -> Decision | None:
    """The same programming error in several tests that all passed on a recent merge base is no chance."""
    failure, green = weighed.case.failure, weighed.passed_on_base
    if green is None or failure.test is None or weighed.doubts() or weighed.nature != "plain":
        return None
    base, head = weighed.on_base.base, weighed.scene.snapshot.pr.head_committed_at
    if not base or not base.run.committed_at or not head or head - base.run.committed_at > RECENT:
        return None
    if short_class(failure.exception) not in PROGRAMMING or "NoneType" in failure.message:
        return None
    tests = {other.key for other in weighed.case.reading.failures if compare(failure, other) == "same"}
    if len(tests) < TESTS_NEEDED:
        return None
    says = f"{len(tests)} tests fail with the same programming error in one job."
    return regression(green, Evidence("same_error_in_many_tests", "medium", says, weighed.case.job.url))


def compile_error_with_green_base(weighed: Weighed) -> Decision | None:
    """The base built, this does not, and the error lies in a file of the repository: that is no chance."""
    failure = weighed.case.failure
    green = weighed.passed_on_base
    if failure.category not in ("compile", "lint") or not failure.file or failure.file.startswith("/"):
        return None
    if green is None or weighed.doubts() or weighed.nature != "plain":
        return None
    says = f"The error lies in `{failure.file}`; builds and linters do not fail by chance."
    return regression(green, Evidence("deterministic_failure", "medium", says, weighed.case.job.url))


Step = Callable[[Weighed], Decision | None]
STEPS: tuple[Step, ...] = (
    unread_is_unknown,
    settled_guilt,
    fails_on_base,
    definite_guilt,
    fails_on_main,
    guilt_with_green_base,
    repeats_with_green_base,
    broken_code_with_green_base,
    compile_error_with_green_base,
    guilt_forbids_excuses,
    environment_forbids_excuses,
    varies_on_base,
    passed_on_same_commit,
    known_issue,
    on_other_pulls,
    two_witnesses,
    flickers,
    machines_fault,
)


def is_proven_by_base(decision: Decision) -> bool:
    """Say whether the base itself proves a verdict."""
    return decision.rule in BASE_RULES
