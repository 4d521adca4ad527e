"""No guard is idle: with any one of them taken away, some verdict in here turns wrong."""

from collections.abc import Sequence
from typing import Any

import pytest

from bot.ci.decide import STEPS, Ruling, Step, decide
from bot.ci.rules.guilt import RULES, GuiltRule
from bot.ci.scene import build_scene
from bot.ci.verdict import WORST, cases_of
from bot.ci.void import GUARDS, Guards
from bot.ci.weigh import weigh
from tests.bot.ci.test_verdict import LOST
from tests.bot.ci.world import (
    HEAD,
    TEST,
    at,
    base,
    file,
    green,
    issue,
    job,
    main,
    other,
    plain_log,
    pytest_log,
    read,
    red,
    world,
)  # fmt: skip


def beside(**more: Any) -> dict[str, Any]:
    """Return a world in which one run of main and another pull request fail as the head does."""
    pull = {**other(8, red()), **more}
    return world(red(), base_runs=[main(red(), hours=30, sha="d")], other_prs=[pull])


COMPILE = job("Build", log=plain_log("csrc/gemm.cpp:12:3: error: no member named 'stride'"))
DRIFTING = red(error=("AssertionError", "assert 'A red fox runs' == 'A brown dog sleeps'"))
OTHERWISE = red(error=("AssertionError", "assert 'The sky is blue' == 'Some water falls'"))
LACKING = red(error=("AttributeError", "no attribute 'window_rows'"), through=())
RATCHET = red(
    test="tests/test_public_api.py::test_names", error=("AssertionError", "lists differ"), through=()
)
TRACKED = issue(9, "[CI Failure] test_evicts", f"`{TEST}` fails with KeyError: 'lru_tail'")
LUCKY = [green(attempt=2)]
UNREAD = job(log=pytest_log((TEST, ("KeyError", "'lru_tail'"))).replace("1 failed", "2 failed"))

# One world for each step of the decision, in which that step is the one that decides.
STEP_WORLDS: dict[str, dict[str, Any]] = {
    "unread_is_unknown": world(UNREAD, same_commit_runs=LUCKY),
    "settled_guilt": world(
        red(), known_issues=[TRACKED],
        settled=[{"test": TEST, "base_passed": 5, "base_failed": 0, "head_passed": 0, "head_failed": 5}],
    ),
    "fails_on_base": world(red(), base_runs=[base(red())]),
    "definite_guilt": world(red(), files=[file("engine/cache.py", "added")], same_commit_runs=LUCKY),
    "fails_on_main": world(red(), base_runs=[main(red(), hours=30, sha="d"), main(red(), hours=20, sha="e")]),
    "guilt_with_green_base": world(red(), files=[file("engine/cache.py")], base_runs=[base(green())]),
    "repeats_with_green_base": world(
        red(), base_runs=[base(green())], same_commit_runs=[red(agent="host-2", attempt=2)]
    ),
    "compile_error_with_green_base": world(COMPILE, base_runs=[base(green("Build"))]),
    "guilt_forbids_excuses": world(red(), files=[file("engine/cache.py")], same_commit_runs=LUCKY),
    "environment_forbids_excuses": world(red(), files=[file("Dockerfile")], same_commit_runs=LUCKY),
    "varies_on_base": world(
        DRIFTING, base_runs=[base(OTHERWISE)], known_issues=[issue(9, "test_evicts compares free text")]
    ),
    "passed_on_same_commit": world(red(), same_commit_runs=LUCKY),
    "known_issue": world(red(), known_issues=[TRACKED]),
    "on_other_pulls": world(red(), other_prs=[other(8, red()), other(9, red())]),
    "two_witnesses": world(
        red(), base_runs=[main(red(), hours=20, sha="d")], other_prs=[other(8, red())]
    ),
    "broken_code_with_green_base": world(
        job(log=pytest_log(*[(f"{TEST}[{n}]", ("TypeError", "rows() takes 1 argument")) for n in range(3)])),
        base_runs=[base(green())],
    ),
    "flickers": world(
        red(),
        base_runs=[
            main(one, hours=60 - 10 * place, sha=sha)
            for place, (one, sha) in enumerate([(red(), "c"), (green(), "d"), (red(), "e"), (green(), "f")])
        ],
    ),
    "machines_fault": world(job(log=LOST, exit_status=128)),
}  # fmt: skip

# One world for each rule that accuses: without the rule, chance or a green base would excuse the change.
GUILT_WORLDS: dict[str, dict[str, Any]] = {
    "error_in_changed_file": world(COMPILE, files=[file("csrc/gemm.cpp", "added")]),
    "message_names_changed_file": world(
        red(error=("AssertionError", "unregistered: ['engine/layer_rules.py']"), through=()),
        files=[file("engine/layer_rules.py")],
        same_commit_runs=LUCKY,
    ),
    "traceback_through_changed_file": world(red(), files=[file("engine/cache.py")], same_commit_runs=LUCKY),
    "failing_test_changed": world(red(), files=[file("tests/engine/test_cache.py")], same_commit_runs=LUCKY),
    "build_inputs_changed": world(
        job("Image", log=plain_log("ERROR: failed to solve: no such stage")),
        files=[file("Dockerfile")],
        base_runs=[base(green("Image"))],
    ),
    "message_names_changed_code": world(
        LACKING, base_runs=[base(green())], pr={"body": "Adds `window_rows` to the configuration."}
    ),
    "ratchet_with_new_files": world(
        RATCHET,
        files=[file("engine/new.py", "added")],
        known_issues=[
            issue(9, "test_names", "test_names: AssertionError: lists differ"),
        ],
    ),
    "test_files_moved": world(
        red(), files=[file("tests/engine/test_pool.py", "renamed")], known_issues=[TRACKED]
    ),
    "documents_read_by_tests": world(
        red(
            "Docs Test",
            test="tests/test_docs.py::test_pages",
            error=("AssertionError", "a page is odd"),
            through=(),
        ),
        files=[file("docs/guide.md")],
        same_commit_runs=[green("Docs Test", attempt=2)],
    ),
    "claims_to_fix_it": world(red(), pr={"body": "Fixes #9"}, known_issues=[TRACKED], same_commit_runs=LUCKY),
}


# One world for each thing that is void as evidence: it stands beside one witness, and would be the second.
WITNESS = main(red(), hours=30, sha="d")
HIT = job(log=LOST)
VOID_WORLDS: dict[str, dict[str, Any]] = {
    "base_is_the_head": world(red(), base_runs=[WITNESS, {**main(red(), hours=20, sha="e"), "sha": HEAD}]),
    "base_is_later": world(red(), base_runs=[base(red(), hours=-5)]),
    "base_is_undated": world(HIT, base_runs=[{**main(HIT, hours=20, sha="e"), "committed_at": None}]),
    "base_is_too_old": world(red(), base_runs=[WITNESS, main(red(), hours=24 * 15, sha="e")]),
    "other_may_be_stacked": beside(stacked_on_this=None),
    "other_may_be_the_authors": beside(author="user-a"),
    "other_is_this_one": beside(number=5),
    "other_is_this_commit": beside(head_sha=HEAD),
    "other_is_undated": beside(ran_at=None),
    "other_ran_later": beside(ran_at=at(-5)),
    "other_ran_long_ago": beside(ran_at=at(24 * 8)),
}  # fmt: skip


def worst(
    document: dict[str, Any],
    steps: Sequence[Step] = STEPS,
    rules: Sequence[GuiltRule] = RULES,
    guards: Guards = GUARDS,
) -> Ruling:
    """Return the worst verdict, with these steps, rules and guards only."""
    scene = build_scene(read(document), guards=guards)
    found = [decide(weigh(case, scene, rules), steps) for case in cases_of(scene)]
    return min((one.ruling for one in found), key=WORST.index)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_without_any_one_step_a_verdict_turns_wrong(step: Step) -> None:
    document = STEP_WORLDS[step.__name__]
    assert worst(document) != worst(document, steps=[one for one in STEPS if one is not step])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_without_any_one_accusing_rule_a_verdict_turns_milder(rule: GuiltRule) -> None:
    document = GUILT_WORLDS[rule.__name__]
    with_it = worst(document)
    without = worst(document, rules=[one for one in RULES if one is not rule])
    assert WORST.index(without) > WORST.index(with_it)


@pytest.mark.parametrize("void", [*GUARDS.bases, *GUARDS.others], ids=lambda void: void.__name__)
def test_without_any_one_guard_void_evidence_excuses(void: object) -> None:
    document = VOID_WORLDS[void.__name__]  # type: ignore[attr-defined]
    fewer = Guards(
        tuple(one for one in GUARDS.bases if one is not void),
        tuple(one for one in GUARDS.others if one is not void),
    )
    assert (worst(document), worst(document, guards=fewer)) == ("unknown", "unrelated")


@pytest.mark.parametrize("name", [*STEP_WORLDS, *GUILT_WORLDS, *VOID_WORLDS])
def test_no_world_in_here_is_idle(name: str) -> None:
    known = (*STEPS, *RULES, *GUARDS.bases, *GUARDS.others)
    assert name in {one.__name__ for one in known}
