"""All evidence about one failure, gathered before anything is decided."""

from collections.abc import Sequence
from dataclasses import dataclass

from bot.ci.evidence import Evidence
from bot.ci.nature import Nature, nature_of
from bot.ci.rules import base, elsewhere, guilt, issues, machines, reachable, retries, settled
from bot.ci.rules.base import OnBase
from bot.ci.rules.guilt import GuiltRule
from bot.ci.scene import Case, Scene

SHAKY: frozenset[Nature] = frozenset({"timeout", "memory", "device", "network"})


@dataclass(frozen=True, slots=True)
class Weighed:
    """One failure with all that speaks for and against the change."""

    case: Case
    scene: Scene
    on_base: OnBase
    nature: Nature
    guilt: tuple[Evidence, ...]
    tracked: tuple[issues.Tracked, ...]
    same_on_base: Evidence | None
    same_on_main: Evidence | None
    passed_on_base: Evidence | None
    passed_on_main: Evidence | None
    seen_on_main: Evidence | None
    flickers: Evidence | None
    passed_again: Evidence | None
    repeats: Evidence | None
    known: Evidence | None
    known_test: Evidence | None
    on_other_pulls: Evidence | None
    on_another_pull: Evidence | None
    settled_base: Evidence | None
    settled_head: Evidence | None
    settled_flickers: Evidence | None

    @property
    def definite(self) -> Evidence | None:
        """Return guilt that needs no green base."""
        return next((one for one in self.guilt if one.definite), None)

    @property
    def accusing(self) -> tuple[Evidence, ...]:
        """Return the guilt that weighs more than a hint."""
        return tuple(one for one in self.guilt if one.strength != "weak")

    @property
    def is_deterministic(self) -> bool:
        """Say whether chance does not make this kind of failure."""
        return retries.is_deterministic(self.case)

    @property
    def is_perf(self) -> bool:
        """Say whether this is a performance gate: it has a judge of its own."""
        return self.nature == "perf"

    def doubts(self) -> tuple[Evidence, ...]:
        """Return what speaks against guilt, though it does not prove innocence."""
        found = (
            self.passed_again,
            self.seen_on_main,
            self.on_another_pull,
            self.known,
            self.known_test if self.known_test and self.known_test.strength == "medium" else None,
            self.flickers,
            self.settled_flickers,
        )
        return tuple(one for one in found if one)


def weigh(case: Case, scene: Scene, guilt_rules: Sequence[GuiltRule] = guilt.RULES) -> Weighed:
    """Gather all evidence about one failure."""
    on_base = base.look_at_base(case, scene)
    tracked = issues.tracked_by(case, scene)
    return Weighed(
        case=case,
        scene=scene,
        on_base=on_base,
        nature=nature_of(case.failure, case.job.name),
        guilt=guilt.guilt_of(case, scene, guilt_rules),
        tracked=tracked,
        same_on_base=base.same_signature_on_base(case, scene, on_base),
        same_on_main=base.same_signature_on_main(case, scene, on_base),
        passed_on_base=base.passed_on_base(case, scene, on_base),
        passed_on_main=base.passed_on_main(case, scene, on_base),
        seen_on_main=base.seen_once_on_main(case, scene, on_base),
        flickers=base.flickers_on_main(case, scene, on_base),
        passed_again=retries.passed_on_same_commit(case, scene)
        or retries.test_passed_on_same_commit(case, scene),
        repeats=retries.repeats_on_another_host(case, scene),
        known=issues.known_issue(case, tracked),
        known_test=issues.known_test(case, tracked),
        on_other_pulls=elsewhere.same_signature_on_other_pulls(case, scene),
        on_another_pull=elsewhere.seen_on_another_pull(case, scene),
        settled_base=settled.settled_fails_on_base(case, scene, on_base),
        settled_head=settled.settled_fails_on_head_only(case, scene),
        settled_flickers=settled.settled_flickers(case, scene),
    )


def settled_in_vain(weighed: Weighed) -> Evidence | None:
    """Return what a run on purpose showed, where it proves nothing."""
    if weighed.settled_base or weighed.settled_head or weighed.settled_flickers:
        return None
    return settled.settled_otherwise(weighed.case, weighed.scene, weighed.on_base)


def context_of(weighed: Weighed) -> tuple[Evidence, ...]:
    """Return what else is worth saying: the base's state, machines, records."""
    case, scene, on_base = weighed.case, weighed.scene, weighed.on_base
    found = (
        weighed.passed_on_base,
        base.fails_otherwise_on_base(case, scene, on_base),
        base.no_baseline(case, scene, on_base),
        weighed.passed_on_main,
        weighed.repeats,
        retries.other_tests_failed_on_same_commit(case, scene),
        machines.infra_line(case, scene),
        reachable.imports_say(case, scene),
        machines.odd_duration(case, scene),
        machines.job_record(case, scene),
        settled_in_vain(weighed),
    )
    return tuple(one for one in found if one)
