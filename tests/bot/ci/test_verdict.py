"""Whose is the red? Each test tells one situation and the verdict a careful maintainer would give."""

from bot.ci.verdict import Override, judge
from tests.bot.ci.world import (
    BASE,
    ERROR,
    HEAD,
    NAME,
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
    rules,
    ruling,
    verdict,
    world,
)  # fmt: skip

# --- the base branch ---


def test_the_merge_base_fails_the_same_way_so_the_base_branch_is_broken() -> None:
    found = verdict(world(red(), base_runs=[base(red(agent="host-9"))]))
    assert (found.overall, found.failures[0].kind) == ("unrelated", "broken_trunk")
    first = found.failures[0].evidence[0]
    assert (first.rule, first.strength, first.sha) == ("same_signature_on_base", "strong", BASE)
    assert first.says.startswith(f"`{TEST}` fails the same way on the merge base bbbbbbbbbbbb")


def test_another_shard_of_the_merge_base_counts_and_so_does_another_platform_where_this_one_did_not_run() -> (
    None
):
    shards = base(green("AMD: Unit (shard 1)"), red("AMD: Unit (shard 2)"))
    assert ruling(world(red("AMD: Unit (shard 3)"), base_runs=[shards]))[0] == "unrelated"
    assert ruling(world(red("AMD: Unit"), base_runs=[base(red("Unit"))]))[0] == "unrelated"


def test_another_platform_of_the_merge_base_does_not_count_where_this_one_passed() -> None:
    document = world(red("AMD: Unit"), base_runs=[base(red("Unit"), green("AMD: Unit"))])
    assert ruling(document)[0] != "unrelated"


def test_the_job_is_red_on_the_merge_base_but_by_another_failure() -> None:
    elsewhere = base(red(test="tests/engine/test_other.py::test_x", error=("ValueError", "no such shape")))
    assert ruling(world(red(), base_runs=[elsewhere]))[0] == "unknown"


def test_the_same_test_with_another_error_on_the_merge_base_clears_nobody() -> None:
    assert (
        ruling(world(red(), base_runs=[base(red(error=("TypeError", "unhashable type: 'list'")))]))[0]
        == "unknown"
    )


def test_figures_that_collapsed_are_not_the_same_failure() -> None:
    below = ("AssertionError", "accuracy 0.2039 is below 0.2100")
    close = ("AssertionError", "accuracy 0.2085 is below 0.2100")
    gone = ("AssertionError", "accuracy 0.0000 is below 0.2100")
    assert ruling(world(red(error=close), base_runs=[base(red(error=below))]))[0] == "unrelated"
    assert ruling(world(red(error=gone), base_runs=[base(red(error=below))]))[0] == "unknown"


def test_a_bare_assertion_counts_only_at_the_same_place() -> None:
    bare = ("AssertionError", "assert False is True")
    here = pytest_log((TEST, bare), through=("engine/cache.py",))
    there = pytest_log((TEST, bare), through=("engine/pool.py",))
    assert ruling(world(job(log=here), base_runs=[base(job(log=here))]))[0] == "unrelated"
    assert ruling(world(job(log=here), base_runs=[base(job(log=there))]))[0] == "unknown"


def test_a_wrapper_line_on_both_sides_is_no_evidence() -> None:
    wrapper = ("RuntimeError", "Engine core initialization failed. See root cause above.")
    assert ruling(world(red(error=wrapper), base_runs=[base(red(error=wrapper))]))[0] == "unknown"


def test_a_merge_base_that_did_not_run_or_was_canceled_is_no_green_base() -> None:
    touched = [file("engine/cache.py")]
    for conclusion in ("not_run", "canceled", "broken", "waiting_failed"):
        run = base(job(conclusion=conclusion))
        assert ruling(world(red(), files=touched, base_runs=[run]))[0] == "unknown", conclusion
    killed = base(job(log="~~~ Running commands\n$ pytest\n", exit_status=-1))
    assert ruling(world(red(), files=touched, base_runs=[killed]))[0] == "unknown"


def test_two_runs_of_main_before_the_head_are_enough_where_the_merge_base_did_not_run() -> None:
    runs = [main(green(), hours=40, sha="c"), main(red(), hours=30, sha="d"), main(red(), hours=20, sha="e")]
    found = verdict(world(red(), base_runs=runs))
    assert (found.overall, found.failures[0].kind) == ("unrelated", "broken_trunk")
    assert "last green cccccccccccc" in found.failures[0].evidence[0].says


def test_one_run_of_main_is_not_enough_and_neither_are_two_that_were_fixed_since() -> None:
    assert ruling(world(red(), base_runs=[main(red(), hours=20, sha="d")]))[0] == "unknown"
    fixed = [main(red(), hours=30, sha="d"), main(red(), hours=25, sha="e"), main(green(), hours=20, sha="f")]
    assert ruling(world(red(), base_runs=fixed))[0] == "unknown"


def test_runs_of_main_without_a_date_or_after_the_head_are_void() -> None:
    for hours in (-1.0, -30.0):
        runs = [main(red(), hours=hours, sha="d"), main(red(), hours=hours - 1, sha="e")]
        assert ruling(world(red(), base_runs=runs))[0] == "unknown"
    undated = [main(red(), hours=20, sha="d") | {"committed_at": None} for _ in range(3)]
    assert ruling(world(red(), base_runs=undated))[0] == "unknown"
    dated = [main(red(), hours=20, sha="d"), main(red(), hours=21, sha="e")]
    assert ruling(world(red(), base_runs=dated, pr={"head_committed_at": None}))[0] == "unknown"


def test_a_change_that_comes_back_after_its_revert_is_not_cleared_by_its_own_landing() -> None:
    runs = [main(red(), hours=30, sha="d"), main(red(), hours=20, sha="e")]
    assert ruling(world(red(), base_runs=runs))[0] == "unrelated"
    for words in ({"title": "Reland: speed up the cache"}, {"body": "It was reverted in #4."}):
        assert ruling(world(red(), base_runs=runs, pr=words))[0] == "unknown"


def test_without_a_merge_base_a_run_that_claims_to_be_one_is_only_a_run_of_main() -> None:
    assert ruling(world(red(), base_runs=[base(red())], pr={"merge_base_sha": None}))[0] == "unknown"


def test_text_that_differs_each_time_on_the_base_too_is_flaky_where_an_issue_tracks_it() -> None:
    here = red(error=("AssertionError", "assert 'A red fox runs over it' == 'A brown dog sleeps here'"))
    there = red(error=("AssertionError", "assert 'The sky was very blue' == 'Some water is falling'"))
    tracked = [issue(9, "test_evicts compares free text")]
    assert ruling(world(here, base_runs=[base(there)], known_issues=tracked)) == ("unrelated", "flaky")
    assert ruling(world(here, base_runs=[base(there)]))[0] == "unknown"


def test_names_in_quotes_are_not_free_text() -> None:
    here, there = red(error=("KeyError", "'alpha'")), red(error=("KeyError", "'beta'"))
    tracked = [issue(9, "test_evicts compares free text")]
    assert ruling(world(here, base_runs=[base(there)], known_issues=tracked))[0] == "unknown"


def test_a_base_branch_that_flickers_with_this_failure_shows_chance() -> None:
    runs = [
        main(red(), hours=60, sha="c"), main(green(), hours=50, sha="d"), main(red(), hours=40, sha="e"),
        main(green(), hours=30, sha="f"),
    ]  # fmt: skip
    assert ruling(world(red(), base_runs=runs)) == ("unrelated", "flaky")
    assert ruling(world(red(), base_runs=runs[:2]))[0] == "unknown"
    assert ruling(world(red(), base_runs=runs, pr={"title": "Reapply the fast cache"}))[0] == "unknown"


# --- guilt ---


def test_a_traceback_through_a_changed_file_and_a_green_base_is_the_changes() -> None:
    found = verdict(world(red(), files=[file("engine/cache.py")], base_runs=[base(green())]))
    assert (found.overall, found.failures[0].kind) == ("regression", "caused_by_pr")
    says = " ".join(evidence.says for evidence in found.failures[0].evidence)
    assert "`engine/cache.py`, which this pull request changes" in says
    assert "passed on the merge base bbbbbbbbbbbb" in says


def test_guilt_without_a_green_base_is_unknown_and_says_what_would_settle_it() -> None:
    found = verdict(world(red(), files=[file("engine/cache.py")]))
    assert found.overall == "unknown"
    failure = found.failures[0]
    assert (failure.settle_action, failure.settle_target, failure.settle_sha) == ("settle", TEST, BASE)
    assert TEST in str(failure.would_settle_it)
    assert "bbbbbbbbbbbb" in str(failure.would_settle_it)


def test_a_new_file_in_the_traceback_or_the_message_needs_no_base() -> None:
    assert ruling(world(red(), files=[file("engine/cache.py", "added")]))[0] == "regression"
    named = red(error=("AssertionError", "unregistered: ['engine/new_layer.py']"), through=())
    assert ruling(world(named, files=[file("engine/new_layer.py", "added")]))[0] == "regression"
    assert ruling(world(red(), files=[file(TEST.partition("::")[0], "added")]))[0] == "regression"


def test_a_compile_error_in_a_changed_file_is_the_changes() -> None:
    broken = job("Build", log=plain_log("csrc/fused.hip:80:18: error: needs target feature gfx950"))
    assert ruling(world(broken, files=[file("csrc/fused.hip", "added")]))[0] == "regression"
    assert ruling(world(broken, files=[file("csrc/fused.hip")]))[0] == "unknown"
    inside = [file("csrc/fused.hip", patch="@@ -70,4 +70,20 @@ void f()\n+int x;")]
    assert ruling(world(broken, files=inside))[0] == "regression"
    assert (
        ruling(world(broken, files=[file("csrc/fused.hip")], base_runs=[base(green("Build"))]))[0]
        == "regression"
    )


def test_a_compile_error_elsewhere_with_a_green_base_is_no_chance() -> None:
    broken = job("Build", log=plain_log("csrc/gemm.cpp:12:3: error: no member named 'stride'"))
    assert ruling(world(broken, base_runs=[base(green("Build"))]))[0] == "regression"
    assert ruling(world(broken))[0] == "unknown"


def test_a_lint_finding_on_the_base_does_not_hide_a_new_one() -> None:
    old = "engine/pool.py:3:1: F401 `os` imported but unused"
    new = "engine/scheduler.py:9:1: F841 local variable `n` is assigned to but never used"
    before = base(job("Lint", log=plain_log(old)))
    found = verdict(world(job("Lint", log=plain_log(old, new)), base_runs=[before]))
    by_rule = {
        failure.signature.exception: failure.verdict for failure in found.failures if failure.signature
    }
    assert by_rule == {"F401": "unrelated", "F841": "unknown"}
    assert found.overall == "unknown"


def test_a_message_that_speaks_of_changed_code_points_at_the_change() -> None:
    lost = red(
        error=("AttributeError", "'types.SimpleNamespace' object has no attribute 'window_rows'"), through=()
    )
    patched = [file("engine/scheduler.py", patch="@@ -1 +1,2 @@\n+    rows = config.window_rows\n")]
    assert ruling(world(lost, files=patched, base_runs=[base(green())]))[0] == "regression"
    told = {"body": "Adds `window_rows` to the configuration."}
    assert ruling(world(lost, base_runs=[base(green())], pr=told))[0] == "regression"
    assert ruling(world(lost, base_runs=[base(green())]))[0] == "unknown"


def test_an_authors_word_neither_excuses_nor_accuses() -> None:
    lost = red(error=("AttributeError", "no attribute 'window_rows'"), through=())
    claim = {"body": "The failing `window_rows` test is unrelated to this change, it fails on main."}
    found = verdict(world(lost, base_runs=[base(green())], pr=claim))
    assert found.overall == "unknown"
    assert found.claim == claim["body"]
    assert "window_rows" not in " ".join(evidence.says for evidence in found.failures[0].evidence)


def test_a_changed_dockerfile_and_a_green_build_before_is_the_changes() -> None:
    broken = job(
        "Image",
        log=plain_log(
            "#9 [4/8] RUN make install",
            '#9 ERROR: process "/bin/sh -c make install" did not complete successfully: exit code: 2',
        ),
    )
    files = [file("docs/x.md"), file("Dockerfile")]
    assert ruling(world(broken, files=files, base_runs=[base(green("Image"))]))[0] == "regression"
    assert ruling(world(broken, files=files))[0] == "unknown"


def test_a_moved_module_that_can_no_longer_be_imported_is_the_changes() -> None:
    lost = job(log=plain_log(
        "Traceback (most recent call last):", '  File "/app/serve.py", line 3, in <module>',
        "ModuleNotFoundError: No module named 'engine.old_cache'",
    ))  # fmt: skip
    moved = [file("engine/new_cache.py", "renamed", previous="engine/old_cache.py")]
    assert ruling(world(lost, files=moved, base_runs=[base(green())]))[0] == "regression"


def test_the_same_failure_on_two_hosts_with_a_green_base_is_the_changes() -> None:
    again = red(agent="host-2", attempt=2)
    assert ruling(world(red(), base_runs=[base(green())], same_commit_runs=[again]))[0] == "regression"
    same_host = red(agent="host-1", attempt=2)
    assert ruling(world(red(), base_runs=[base(green())], same_commit_runs=[same_host]))[0] == "unknown"
    assert ruling(world(red(), same_commit_runs=[again]))[0] == "unknown"


def test_a_green_base_alone_does_not_make_it_the_changes() -> None:
    assert ruling(world(red(), base_runs=[base(green())]))[0] == "unknown"


def test_time_outs_memory_and_connections_in_changed_code_stay_open() -> None:
    for error in (
        ("TimeoutError", "timed out after 30 s"),
        ("torch.OutOfMemoryError", "CUDA out of memory. Tried 2.10 GiB"),
        ("ConnectionError", "Connection refused"),
        ("RuntimeError", "CUDA error: an illegal memory access"),
    ):
        document = world(red(error=error), files=[file("engine/cache.py")], base_runs=[base(green())])
        assert ruling(document)[0] == "unknown", error


# --- chance ---


def test_the_same_commit_passed_so_it_is_chance() -> None:
    assert ruling(world(red(), same_commit_runs=[green(attempt=2)])) == ("unrelated", "flaky")
    assert ruling(world(red(), same_commit_runs=[green("Another job")]))[0] == "unknown"


def test_the_test_passed_by_name_in_another_red_attempt() -> None:
    log = pytest_log(("tests/engine/test_other.py::test_x", ("ValueError", "odd")))
    attempt = job(log=f"{TEST} PASSED [ 10%]\n{log}", attempt=2)
    assert ruling(world(red(), same_commit_runs=[attempt])) == ("unrelated", "flaky")
    silent = job(log=log, attempt=2)
    assert ruling(world(red(), same_commit_runs=[silent]))[0] == "unknown"


def test_a_pass_on_the_same_commit_does_not_excuse_what_points_at_the_change() -> None:
    document = world(red(), files=[file("engine/cache.py")], same_commit_runs=[green(attempt=2)])
    assert ruling(document)[0] == "unknown"


def test_a_build_that_passed_on_a_second_try_needs_a_second_witness() -> None:
    locked = plain_log("CMake Error: could not write the cache")
    document = world(job("Build", log=locked), same_commit_runs=[green("Build", attempt=2)])
    assert ruling(document)[0] == "unknown"
    seen = [other(8, job("Build", log=locked))]
    assert ruling(document | {"other_prs": seen}) == ("unrelated", "flaky")


def test_two_other_people_had_the_same_failure_before() -> None:
    assert ruling(world(red(), other_prs=[other(8, red()), other(9, red())])) == ("unrelated", "flaky")
    assert ruling(world(red(), other_prs=[other(8, red())]))[0] == "unknown"


def test_evidence_from_the_change_itself_is_void() -> None:
    for wrong in (
        {"author": "user-a"},
        {"author": None},
        {"stacked_on_this": True},
        {"stacked_on_this": None},
        {"ran_at": at(-1)},
        {"ran_at": at(24 * 30)},
        {"ran_at": None},
        {"head_sha": HEAD},
        {"changed_files": [{"path": "engine/scheduler.py"}]},
        {"changed_files": [{"path": "engine/cache.py"}]},
    ):
        pulls = [other(8, red()), other(9, red(), **wrong)]
        assert ruling(world(red(), other_prs=pulls))[0] == "unknown", wrong
    one_person = [other(8, red(), author="user-x"), other(9, red(), author="user-x")]
    assert ruling(world(red(), other_prs=one_person))[0] == "unknown"
    dateless = {"head_committed_at": None}
    assert ruling(world(red(), other_prs=[other(8, red()), other(9, red())], pr=dateless))[0] == "unknown"


def test_a_generic_line_on_other_pull_requests_is_no_evidence() -> None:
    for error in (("AssertionError", "assert 3 == 4"), ("RuntimeError", "Server exited unexpectedly")):
        pulls = [other(8, red(error=error)), other(9, red(error=error))]
        assert ruling(world(red(error=error), other_prs=pulls))[0] == "unknown", error
    silent = plain_log("make: *** [Makefile:3: all] Error 2")
    pulls = [other(8, job(log=silent)), other(9, job(log=silent))]
    assert ruling(world(job(log=silent), other_prs=pulls))[0] == "unknown"


def test_a_missing_package_everywhere_is_the_base_that_drifted() -> None:
    lost = "ModuleNotFoundError: No module named 'polib'"
    log = plain_log("Traceback (most recent call last):", '  File "/app/setup.py", line 3, in <module>', lost)
    pulls = [other(8, job("Build", log=log)), other(9, job("Build", log=log))]
    document = world(job("Build", log=log), other_prs=pulls)
    assert ruling(document) == ("unrelated", "broken_trunk")
    document["pr"]["changed_files"].append(file("requirements.txt"))
    assert ruling(document)[0] == "unknown"


def test_two_witnesses_of_different_kinds_are_enough_and_one_is_not() -> None:
    run, pull, about = main(red(), hours=20, sha="d"), other(8, red()), issue(9, "test_evicts fails at times")
    assert ruling(world(red(), base_runs=[run], other_prs=[pull])) == ("unrelated", "broken_trunk")
    assert ruling(world(red(), base_runs=[run], known_issues=[about])) == ("unrelated", "broken_trunk")
    assert ruling(world(red(), other_prs=[pull], known_issues=[about])) == ("unrelated", "flaky")
    for alone in ({"base_runs": [run]}, {"other_prs": [pull]}, {"known_issues": [about]}):
        assert ruling(world(red(), **alone))[0] == "unknown"
    fixed = [run, main(green(), hours=10, sha="e")]
    assert ruling(world(red(), base_runs=fixed, other_prs=[pull]))[0] == "unknown"
    assert ruling(world(red(), base_runs=[run], other_prs=[pull], pr={"title": "Reland it"}))[0] == "unknown"


def test_one_programming_error_in_many_tests_and_a_green_recent_base_is_the_changes() -> None:
    def many(
        count: int, error: tuple[str, str] = ("TypeError", "rows() takes 1 argument")
    ) -> dict[str, object]:
        return job(log=pytest_log(*[(f"{TEST}[{n}]", error) for n in range(count)]))

    assert ruling(world(many(3), base_runs=[base(green())]))[0] == "regression"
    assert ruling(world(many(2), base_runs=[base(green())]))[0] == "unknown"
    assert ruling(world(many(3)))[0] == "unknown"
    assert ruling(world(many(3), base_runs=[base(green(), hours=24 * 9)]))[0] == "unknown"
    outage = ("TypeError", "'NoneType' object is not subscriptable")
    assert ruling(world(many(3, outage), base_runs=[base(green())]))[0] == "unknown"
    assert ruling(world(many(3), base_runs=[base(green())], other_prs=[other(8, many(3))]))[0] == "unknown"


def test_an_open_issue_with_the_same_test_and_error_tracks_it() -> None:
    tracked = issue(9, "[CI Failure] test_evicts", f"`{TEST}` fails with KeyError: 'lru_tail'")
    assert ruling(world(red(), known_issues=[tracked])) == ("unrelated", "known_issue")
    for wrong in (
        {"state": "closed"},
        {"created_at": at(-1)},
        {"created_at": None},
        {"body": "It fails with another error."},
        {"title": "[CI Failure] test_other", "body": "KeyError: 'lru_tail'"},
    ):
        assert ruling(world(red(), known_issues=[tracked | wrong]))[0] == "unknown", wrong


def test_an_issue_that_the_change_says_it_fixes_excuses_nothing() -> None:
    tracked = issue(9, "[CI Failure] test_evicts", f"`{TEST}` fails with KeyError: 'lru_tail'")
    for words in ("Fixes #9", "closes: #9", "Resolved https://forge.example.org/org/engine/issues/9"):
        found = verdict(world(red(), known_issues=[tracked], pr={"body": words}))
        assert found.overall == "unknown", words
        assert "claims_to_fix_it" in [evidence.rule for evidence in found.failures[0].evidence]


def test_a_quarantined_job_is_excused_by_its_exact_name_and_for_its_own_error() -> None:
    log = plain_log(
        "Traceback (most recent call last):",
        '  File "/x/a.py", line 1, in <module>',
        "ImportError: libcudnn.so.8: cannot open shared object file: No such file or directory",
    )
    note = "ImportError: libcudnn.so.8: cannot open shared object file"
    assert ruling(
        world(job("wheel / cu12", log=log), known_issues=[issue(9, "UNSTABLE wheel / cu12", note)])
    ) == (
        "unrelated",
        "known_issue",
    )
    assert (
        ruling(world(job("wheel / cu12", log=log), known_issues=[issue(9, "UNSTABLE wheel / cu12", "bad")]))[
            0
        ]
        == "unknown"
    )
    assert (
        ruling(world(job("wheel / cu12", log=log), known_issues=[issue(9, "UNSTABLE wheel", note)]))[0]
        == "unknown"
    )


def test_a_disabled_test_that_the_base_shows_too_is_a_known_issue() -> None:
    test = "test_fx.py::TestSurface::test_public_names"
    disabled = issue(
        9, "DISABLED test_public_names (__main__.TestSurface)", "Platforms: linux, win", state="closed"
    )
    document = world(red(test=test), base_runs=[base(red(test=test))], known_issues=[disabled])
    assert ruling(document) == ("unrelated", "known_issue")


# --- machines ---

LOST = (
    "~~~ Preparing working directory\n$ git fetch -v origin\nfatal: unable to access 'https://x/': timed out"
)


def test_a_machine_that_failed_before_the_commands_began_is_infrastructure() -> None:
    assert ruling(world(job(log=LOST, exit_status=128))) == ("unrelated", "infra")
    assert ruling(world(job(log=LOST, exit_status=1)))[0] == "unknown"


def test_a_machines_line_in_the_commands_counts_where_no_changed_file_could_have_made_it() -> None:
    line = "docker: Error response from daemon: nvidia-container-cli: initialization error: driver error"
    log = f"~~~ Running commands\n$ docker run x\n{line}\n"
    assert ruling(world(job(log=log, exit_status=125))) == ("unrelated", "infra")
    assert ruling(world(job(log=log), base_runs=[base(green())])) == ("unrelated", "infra")
    assert ruling(world(job(log=log)))[0] == "unknown"
    for wrong in ({"changed_files_complete": False}, {"changed_files_complete": None, "changed_files": []}):
        assert (
            ruling(world(job(log=log, exit_status=125), pr=wrong, base_runs=[base(green())]))[0] == "unknown"
        )
    assert ruling(world(job(log=log, exit_status=125), files=[file("docker/run.sh")]))[0] == "unknown"


def test_the_same_machines_line_is_no_excuse_where_a_test_failed() -> None:
    log = pytest_log((TEST, ERROR)) + "\nagent lost connection to the pool\nno space left on device"
    assert ruling(world(job(log=log, exit_status=-1)))[0] == "unknown"


def test_a_machines_line_with_a_witness_elsewhere_is_infrastructure() -> None:
    full = "~~~ Running commands\n$ make\nERROR: write /var/x: no space left on device"
    assert ruling(world(job(log=full)))[0] == "unknown"
    assert ruling(world(job(log=full), other_prs=[other(8, job("Docs", log=full))])) == ("unrelated", "infra")


def test_no_log_is_no_innocence() -> None:
    silent = job(log=None, exit_status=None, agent=None, started_at=None)
    found = verdict(world(silent))
    assert found.overall == "unknown"
    assert "log" in str(found.failures[0].would_settle_it)
    again = [green(attempt=2)]
    assert ruling(world(silent, same_commit_runs=again))[0] == "unknown"
    assert ruling(world(silent | {"exit_status": -1}, same_commit_runs=again)) == ("unrelated", "infra")
    assert ruling(world(silent, files=[file(".github/workflows/build.yml")]))[0] == "unknown"


def test_a_change_of_the_environment_is_excused_by_the_base_alone() -> None:
    for files in ([file("requirements/test.txt")], [file("Dockerfile")], [file(".github/workflows/x.yml")]):
        assert ruling(world(job(log=LOST, exit_status=128), files=files))[0] == "unknown"
        assert ruling(world(red(), files=files, same_commit_runs=[green(attempt=2)]))[0] == "unknown"
        assert ruling(world(red(), files=files, base_runs=[base(red())]))[0] == "unrelated"
    unknown_files = {"changed_files": [], "changed_files_complete": None, "title": "Bump the driver image"}
    assert ruling(world(job(log=LOST, exit_status=128), pr=unknown_files))[0] == "unknown"


def test_a_step_that_runs_out_of_time_needs_the_same_on_the_base() -> None:
    slow = job(
        conclusion="timed_out",
        log="~~~ Running commands\n$ pytest\n" + f"{TEST} PASSED [ 10%]\n",
        exit_status=124,
    )
    found = verdict(world(slow, base_runs=[base(slow)]))
    assert found.overall == "unrelated"
    assert "min there and" in found.failures[0].evidence[0].says
    assert ruling(world(slow, base_runs=[base(green())]))[0] == "unknown"


def test_memory_errors_are_the_same_only_if_they_ask_for_the_same_size() -> None:
    def oom(size: str) -> dict[str, object]:
        return red(error=("torch.OutOfMemoryError", f"CUDA out of memory. Tried to allocate {size} GiB"))

    assert ruling(world(oom("12.22"), base_runs=[base(oom("12.22"))]))[0] == "unrelated"
    assert ruling(world(oom("12.22"), base_runs=[base(oom("10.80"))]))[0] == "unknown"


def test_a_performance_gate_is_not_excused_by_a_lucky_run() -> None:
    slow = red(
        "Perf · Text",
        test="tests/perf/test_gate.py::test_text",
        error=("AssertionError", "throughput 31.0 below baseline 42.0"),
    )
    assert ruling(world(slow, same_commit_runs=[green("Perf · Text", attempt=2)]))[0] == "unknown"


# --- the head as a whole ---


def test_the_worst_failure_decides_and_each_keeps_its_own_verdict() -> None:
    second = "tests/engine/test_pool.py::test_grows"
    both = job(log=pytest_log((TEST, ERROR), (second, ("ValueError", "too many rows")), through=()))
    found = verdict(world(both, base_runs=[base(red(through=()))]))
    assert {failure.test: failure.verdict for failure in found.failures} == {
        TEST: "unrelated",
        second: "unknown",
    }
    assert found.overall == "unknown"


def test_cascades_alone_are_unknown_and_no_red_is_green() -> None:
    assert verdict(world(job(conclusion="canceled"), green("B"))).overall == "unknown"
    assert verdict(world(job(conclusion="waiting_failed"))).overall == "unknown"
    assert verdict(world(green(), green("B"))).overall == "green"
    assert verdict(world(red(soft_failed=True), green("B"))).overall == "green"
    assert verdict(world()).overall == "unknown"


def test_a_gate_over_other_jobs_follows_the_worst_of_them() -> None:
    gate = job("all green", log=plain_log('test "failure" = success', "exit 1"), id="gate")
    found = verdict(world(red(), gate, base_runs=[base(red())]))
    assert found.overall == "unrelated"
    assert [failure.evidence[0].rule for failure in found.failures][-1] == "gate_of_other_jobs"


def test_a_job_that_merely_prints_other_jobs_results_is_no_gate() -> None:
    log = plain_log("needs.build.result = success", *[f"compiling part {n}" for n in range(20)], "it broke")
    found = verdict(world(red(), job("Package", log=log), base_runs=[base(red())]))
    assert {failure.job: failure.verdict for failure in found.failures} == {
        NAME: "unrelated",
        "Package": "unknown",
    }


def test_a_scripts_last_words_count_only_with_the_line_before_them() -> None:
    def script(before: str) -> dict[str, object]:
        return job("E2E", log=plain_log(before, "ERROR: connector run failed"))

    assert (
        ruling(world(script("HTTP 404 not found"), base_runs=[base(script("HTTP 404 not found"))]))[0]
        == "unrelated"
    )
    assert (
        ruling(world(script("HTTP 404 not found"), base_runs=[base(script("bad checksum"))]))[0] == "unknown"
    )


def test_two_steps_of_one_name_are_not_one_job() -> None:
    again = green(attempt=2, step_key="other-step")
    assert ruling(world(red(step_key="this-step"), same_commit_runs=[again]))[0] == "unknown"


def test_a_step_that_ran_out_of_time_on_another_platform_of_the_base_clears_nobody() -> None:
    slow = {"conclusion": "timed_out", "log": "~~~ Running commands\n$ pytest\n", "exit_status": 124}
    assert ruling(world(job("AMD: Unit", **slow), base_runs=[base(job("Unit", **slow))]))[0] == "unknown"


def test_a_log_that_counts_more_failures_than_it_names_is_never_excused() -> None:
    log = pytest_log((TEST, ERROR)).replace("1 failed", "3 failed")
    found = verdict(world(job(log=log), base_runs=[base(job(log=log))]))
    assert found.overall == "unknown"
    assert (
        "2 of 3 failures could not be read"
        in found.failures[0].evidence[0].says + found.failures[-1].evidence[0].says
    )


def test_too_many_excuses_at_once_are_none() -> None:
    def many(count: int) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
        tests = [f"tests/part_{n}/test_it.py::test_one_{n}" for n in range(count)]
        errors = [("ValueError", f"shape of part_{'abcdefghijklmnop'[n]} is odd") for n in range(count)]
        names = [f"Part {chr(65 + n)} Test" for n in range(count)]
        heads = [
            red(name, test, error, through=()) for name, test, error in zip(names, tests, errors, strict=True)
        ]
        return heads, [green(name, attempt=2) for name in names]

    few, passed = many(10)
    assert verdict(world(*few, same_commit_runs=passed)).overall == "unrelated"
    lots, passed = many(12)
    found = verdict(world(*lots, same_commit_runs=passed))
    assert {failure.verdict for failure in found.failures} == {"unknown"}
    assert verdict(world(*lots, base_runs=[base(*lots)])).overall == "unrelated"


def test_siblings_share_a_tracked_error_but_not_a_lucky_retry() -> None:
    log = plain_log(
        "Traceback (most recent call last):",
        '  File "/x/a.py", line 1, in <module>',
        "ImportError: libcudnn.so.8: cannot open shared object file",
    )
    jobs = [job(f"wheel / cuda{version}-test", log=log) for version in ("11_8", "12_1")]
    tracked = [
        issue(
            9, "UNSTABLE wheel / cuda12_1-test", "ImportError: libcudnn.so.8: cannot open shared object file"
        )
    ]
    assert ruling(world(*jobs, known_issues=tracked)) == ("unrelated", "known_issue")
    lucky = [green("wheel / cuda12_1-test", attempt=2)]
    assert {failure.verdict for failure in verdict(world(*jobs, same_commit_runs=lucky)).failures} == {
        "unknown",
        "unrelated",
    }


def test_a_sibling_of_a_regression_is_never_excused_by_chance() -> None:
    cuda, rocm = red("Unit", through=("engine/cache.py",)), red("AMD: Unit", agent="host-2")
    document = world(
        cuda, rocm, files=[file("engine/cache.py")], base_runs=[base(green("Unit"))],
        same_commit_runs=[green("AMD: Unit", attempt=2)],
    )  # fmt: skip
    assert {failure.job: failure.verdict for failure in verdict(document).failures} == {
        "Unit": "regression", "AMD: Unit": "unknown",
    }  # fmt: skip


def test_running_the_test_on_purpose_settles_it() -> None:
    def settled(**runs: int) -> str:
        return ruling(world(red(), settled=[{"test": TEST, **runs}]))[0]

    assert settled(base_passed=5, base_failed=0, head_passed=0, head_failed=5) == "regression"
    assert settled(base_passed=0, base_failed=5, head_passed=0, head_failed=5) == "unrelated"
    assert settled(base_passed=3, base_failed=2, head_passed=0, head_failed=5) == "unrelated"
    assert settled(base_passed=1, base_failed=0, head_passed=0, head_failed=1) == "unknown"


def test_a_maintainers_word_replaces_the_verdict_and_is_shown_as_theirs() -> None:
    found = judge(
        read(world(red())), [Override(job=NAME, verdict="unrelated", by="user-m", reason="seen before")]
    )
    assert found.overall == "unrelated"
    assert (found.failures[0].declared_by, found.groups[0].declared_by) == ("user-m", "user-m")
    assert found.failures[0].evidence[0].says == "Declared by user-m: seen before."
    mine = judge(
        read(world(red(), base_runs=[base(red())])), [Override(job=NAME, verdict="regression", by="user-m")]
    )
    assert mine.overall == "regression"


def test_the_note_says_which_action_clears_the_required_status() -> None:
    broken = verdict(world(red(), base_runs=[base(red())]))
    assert broken.blocking == (NAME,)
    assert "rebase" in str(broken.clears_status)
    flaky = verdict(world(red(), same_commit_runs=[green(attempt=2)]))
    assert "run again" in str(flaky.clears_status)
    assert verdict(world(red())).clears_status is None


def test_every_unknown_says_what_would_settle_it() -> None:
    for document in (
        world(red()), world(red(), base_runs=[base(green())]), world(job(log=None)), world(job(log="")),
        world(red(), pr={"merge_base_sha": None}), world(job("Lint", log=plain_log("odd"))),
    ):  # fmt: skip
        for failure in verdict(document).failures:
            assert failure.verdict == "unknown"
            assert failure.would_settle_it
            assert failure.settle_action in ("settle", "retry", "look")


def test_the_names_of_the_rules_come_with_their_sentences() -> None:
    assert rules(world(red(), base_runs=[base(green())])) == ["passed_on_base"]
