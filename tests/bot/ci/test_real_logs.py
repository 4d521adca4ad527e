"""Logs of real runs of real tools parse to the failures that those runs had."""

import pytest

from bot.ci.failures import Reading
from bot.ci.logs import read_job
from bot.ci.snapshot import Job
from tests.bot.ci.world import LOGS, log_of

SHAPES = {
    "tests.test_shapes.TestArea.test_known[circle - odd [one]]": ("KeyError", "'circle - odd [one]'"),
    "tests.test_shapes.test_text": (
        "AssertionError",
        "assert {'a': 1, 'b': [1, 2]} == {'a': 1, 'b': [1, 3]}",
    ),
    "tests.test_shapes.test_wrapped": ("KeyError", "'hexagon'"),
    "tests.test_shapes.test_setup": ("ConnectionError", "no database"),
    "tests.test_shapes.test_teardown": ("ValueError", "left open"),
}


def reading(name: str) -> Reading:
    return read_job(Job(name="job", conclusion="failed", log=log_of(name)))


def named(found: Reading) -> dict[str | None, tuple[str | None, str]]:
    return {failure.key: (failure.exception, failure.message) for failure in found.failures}


@pytest.mark.parametrize("log", ["pytest_xdist", "pytest_color", "pytest_short", "pytest_native"])
def test_pytest_is_read_in_every_style_and_the_wrapped_cause_is_found(log: str) -> None:
    found = reading(log)
    assert named(found) == SHAPES
    assert found.complete


def test_a_traceback_leads_through_the_files_it_names() -> None:
    by_key = {failure.key: failure for failure in reading("pytest_color").failures}
    wrapped = by_key["tests.test_shapes.test_wrapped"]
    assert wrapped.paths == ("tests/test_shapes.py", "pkg/shapes.py")
    assert wrapped.outer == "RuntimeError: Engine core initialization failed. See root cause above."


def test_one_line_tracebacks_still_name_every_test() -> None:
    assert named(reading("pytest_line")).keys() == SHAPES.keys()


def test_what_a_test_prints_does_not_become_a_failure() -> None:
    """The first test prints a forged failure and a forged summary banner before it fails."""
    found = reading("pytest_color")
    assert not any("forged" in (failure.test or "") for failure in found.failures)
    assert len(found.failures) == 5


def test_subtests_are_counted_with_their_tests() -> None:
    found = reading("pytest_plain")
    assert found.complete
    assert named(found)["tests.test_unit.Areas.test_subs"] == ("AssertionError", "4 != 2")
    assert len(found.failures) == 8


def test_a_collection_error_names_the_file_that_could_not_be_imported() -> None:
    (failure,) = reading("pytest_collect").failures
    assert (failure.category, failure.test, failure.exception) == (
        "collection", "tests/test_collect.py", "ImportError",
    )  # fmt: skip
    assert failure.message.startswith("cannot import name 'volume' from 'pkg.shapes'")


def test_a_broken_conftest_and_a_missing_file_are_refusals_to_start() -> None:
    (conftest,) = reading("pytest_conftest").failures
    assert (conftest.category, conftest.exception, conftest.file) == (
        "collection", "ModuleNotFoundError", "/build/shapes/conf/conftest.py",
    )  # fmt: skip
    (usage,) = reading("pytest_usage").failures
    assert (usage.category, usage.message) == ("collection", "file or directory not found: tests/nowhere.py")


def test_a_worker_that_died_names_the_test_it_was_in() -> None:
    (failure,) = reading("pytest_crash").failures
    assert (failure.category, failure.test, failure.exception) == (
        "crash", "tests/test_crash.py::test_dies", "WorkerCrashed",
    )  # fmt: skip


def test_a_test_that_passed_when_run_again_is_no_failure() -> None:
    found = reading("pytest_rerun")
    assert [failure.test for failure in found.failures] == ["tests/test_flaky.py::test_always"]
    assert "tests.test_flaky.test_second_time" in found.passed


@pytest.mark.parametrize("log", ["pytest_faulthandler", "pytest_timeout_thread"])
def test_a_run_that_was_killed_for_time_says_where_it_stood(log: str) -> None:
    found = reading(log)
    (failure,) = found.failures
    assert failure.category == "timeout"
    assert "/build/shapes/tests/test_slow.py" in failure.paths
    assert not found.complete


def test_a_test_that_timed_out_by_signal_is_that_tests_failure() -> None:
    (failure,) = reading("pytest_timeout_signal").failures
    assert (failure.test, failure.message) == (
        "tests/test_slow.py::test_sleeps", "Timeout (>1.0s) from pytest-timeout.",
    )  # fmt: skip


def test_unittest_blocks_are_read_with_subtests() -> None:
    found = reading("unittest")
    assert named(found) == {
        "tests.test_unit.Areas.test_raises": ("KeyError", "'ring'"),
        "tests.test_unit.Areas.test_subs": ("AssertionError", "4 != 2"),
        "tests.test_unit.Areas.test_wrong": ("AssertionError", "9 != 8"),
    }
    assert found.passed == {"tests.test_unit.Areas.test_right"}
    assert found.complete


def test_a_report_and_the_log_of_one_run_agree_on_the_names() -> None:
    report = read_job(Job(name="job", conclusion="failed", junit=(LOGS / "junit.xml").read_text()))
    assert named(report).keys() == SHAPES.keys()
    assert named(report)["tests.test_shapes.test_setup"] == ("ConnectionError", "no database")
    both = read_job(
        Job(
            name="job",
            conclusion="failed",
            log=log_of("pytest_color"),
            junit=(LOGS / "junit.xml").read_text(),
        )
    )
    assert named(both) == SHAPES
    assert "tests.test_shapes.test_passes" in both.passed


def test_cargo_panics_by_target_and_test() -> None:
    found = reading("cargo")
    assert {failure.test: failure.line for failure in found.failures} == {
        "src/lib.rs::tests::wrong": 5,
        "src/lib.rs::tests::missing": 6,
        "tests/outer.rs::outer": 1,
    }
    assert found.passed == {"src.lib.tests.right"}


def test_go_names_leaf_tests_panics_and_packages_that_do_not_build() -> None:
    found = {(failure.category, failure.test): failure for failure in reading("go").failures}
    assert found.keys() == {
        ("test", "example.org/shapes/boom.TestBoom"),
        ("test", "example.org/shapes/shapes.TestWrong/three"),
        ("compile", None),
    }
    assert found["test", "example.org/shapes/shapes.TestWrong/three"].message == "Area(3) = 9, want 8"
    assert found["test", "example.org/shapes/boom.TestBoom"].exception == "panic"
    assert found["compile", None].file == "bad/bad.go"


def test_go_with_all_output_finds_the_message_before_the_verdict() -> None:
    found = reading("go_v")
    assert [failure.message for failure in found.failures] == ["Area(3) = 9, want 8"]
    assert "example.org.shapes.shapes.TestRight" in found.passed


def test_jest_tests_and_suites_that_do_not_load() -> None:
    found = {failure.test or failure.file: failure for failure in reading("jest").failures}
    assert found.keys() == {
        "src/area.test.js > area > of three", "src/area.test.js > area > of text", "src/broken.test.js",
    }  # fmt: skip
    assert found["src/area.test.js > area > of text"].exception == "TypeError"
    assert "Expected: 8 / Received: 9" in found["src/area.test.js > area > of three"].message
    assert found["src/broken.test.js"].category == "collection"


def test_vitest_with_colours() -> None:
    found = {failure.test or failure.file: failure for failure in reading("vitest").failures}
    assert found["vt/area.test.mjs > area > of three"].message == "expected 9 to be 8 // Object.is equality"
    assert found["vt/area.test.mjs > area > never ends"].message == "Test timed out in 50ms."
    assert found["vt/broken.test.mjs"].category == "collection"
    assert len(found) == 4


def test_mocha_joins_the_suites_above_a_test() -> None:
    (failure,) = reading("mocha").failures
    assert failure.test == "mo/area.spec.cjs > area > squares > of three"
    assert failure.exception == "AssertionError"


def test_ctest_tells_how_each_test_ended() -> None:
    assert {(failure.test, failure.category) for failure in reading("ctest").failures} == {
        ("wrong", "test"), ("dies", "crash"), ("slow", "timeout"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("log", "file", "line", "says"),
    [
        ("gcc", "bad.cpp", 1, "invalid conversion"),
        ("cargo_compile", "src/lib.rs", 9, "mismatched types"),
        ("tsc", "src/types.ts", 1, "Type 'string' is not assignable"),
        ("mypy", "pkg/lints.py", 2, "Incompatible types in assignment"),
        ("cmake", "CMakeLists.txt", 3, "find_package"),
        ("eslint", "/build/js/src/lint.js", 1, "assigned a value but never used"),
        ("ruff", "pkg/lints.py", 1, "Import block is un-sorted"),
        ("ruff_concise", "pkg/lints.py", 1, "Import block is un-sorted"),
        ("ruff_format", "pkg/lints.py", 2, "would be reformatted"),
    ],
)
def test_compilers_and_linters_name_file_and_line(log: str, file: str, line: int, says: str) -> None:
    first = reading(log).failures[0]
    assert (first.file, first.line) == (file, line)
    assert says in first.message


def test_every_finding_of_a_linter_is_a_failure_of_its_own() -> None:
    rules = [failure.exception for failure in reading("ruff").failures]
    assert rules == ["I001", "F401", "F821"]
    assert rules == [failure.exception for failure in reading("ruff_concise").failures]


def test_linkers_and_package_managers_say_what_is_missing() -> None:
    assert "undefined reference to `f()'" in reading("ld").failures[0].message
    assert reading("pip").failures[0].message.startswith("Could not find a version that satisfies")
