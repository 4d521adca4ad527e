"""Rules that can never win are found; those that can win are left alone."""

import time

import pytest

from routing.codeowners import parse


def shadowed(text: str) -> list[tuple[int, int | None, bool | None]]:
    found = [warning for warning in parse(text).warnings if warning.kind == "shadowed"]
    return [(warning.line, warning.by_line, warning.same_owners) for warning in found]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("/src/a/", "/src/"),
        ("/src/a.py", "*.py"),
        ("/src/test_*.py", "/src/"),
        ("/src/test_*.py", "*.py"),
        ("/src/*", "/src/"),
        ("/src/*/", "/src/"),
        ("/src/**/x", "/src/**"),
        ("src/", "*"),
        ("/a/src/", "src/"),
        ("/a/src/b.py", "src/"),
        ("/*/ext/one", "/*/ext/"),
        ("a?c", "a?c"),
        ("/deps/ncrypto/*", "/deps/"),
        ("*_test.py", "*test.py"),
        ("/a/**/b/*.py", "/a/**/*.py"),
        ("**/x/y", "**/y"),
    ],
)
def test_a_later_broader_rule_shadows(earlier: str, later: str) -> None:
    assert shadowed(f"{earlier} @a\n{later} @b\n") == [(1, 2, False)]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("/src/", "/src/a/"),
        ("*.py", "/src/"),
        ("/src/a", "/src/a/"),
        ("/src/", "/src/*"),
        ("src/", "/src/"),
        ("*.py", "*_test.py"),
        ("*", "/*"),
        ("/a/**/x", "/a/*/x"),
        ("/a?", "/a*b"),
        ("*a*", "*a"),
        ("/docs/readme", "/docs/*"),
    ],
)
def test_a_rule_that_can_still_win_is_not_shadowed(earlier: str, later: str) -> None:
    assert shadowed(f"{earlier} @a\n{later} @b\n") == []


def test_the_same_owners_are_told_apart_from_others() -> None:
    assert shadowed("/src/a/ @Ann @bob\n/docs/ @c\n/src/ @bob @ann\n") == [(1, 3, True)]


def test_a_blank_forgotten_before_an_owner_is_noticed() -> None:
    warnings = parse("/src/models/@ann @bob\n").warnings
    assert [(warning.line, warning.kind) for warning in warnings] == [(1, "at_in_pattern")]


def test_ten_thousand_rules_are_judged_in_a_moment() -> None:
    text = (
        "".join(f"/d{number}/x{number % 7}/ @a\n*.e{number} @b\n" for number in range(5_000)) + "/d17/ @c\n"
    )
    assert shadowed(text) == [(35, 10_001, False)]


def test_a_file_of_wildcards_alone_is_checked_as_far_as_is_reasonable() -> None:
    text = "".join(f"*a{number}*b @a\n" for number in range(20_000))
    start = time.perf_counter()
    (warning,) = parse(text).warnings
    assert time.perf_counter() - start < 20
    assert (warning.kind, warning.line > 10) == ("not_checked", True)
