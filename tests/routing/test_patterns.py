"""Patterns against paths, as GitHub reads them."""

import time

import pytest

from routing.codeowners import parse
from routing.patterns import PatternError, compile_pattern

# pattern, paths that it covers, paths that it does not
CASES = [
    ("Makefile", ["Makefile", "tools/Makefile", "Makefile/x"], ["Makefile.am", "tools/xMakefile"]),
    ("/Makefile", ["Makefile", "Makefile/x"], ["tools/Makefile"]),
    ("build/", ["build/a", "x/build/a/b"], ["build", "x/build", "rebuild/a"]),
    ("/build/", ["build/a", "build/a/b"], ["build", "x/build/a"]),
    ("src/core", ["src/core", "src/core/a.py"], ["x/src/core", "src/corex"]),
    ("src/*", ["src/a.py"], ["src/a/b.py", "src", "x/src/a.py"]),
    ("src/*/", ["src/a/b.py", "src/a/b/c.py"], ["src/a.py"]),
    ("/*", ["README.md"], ["src/a.py"]),
    ("*", ["README.md", "src/a.py"], []),
    ("**", ["README.md", "src/a.py"], []),
    ("/**", ["README.md", "src/a/b.py"], []),
    ("*.py", ["a.py", "x/y/a.py", "odd.py/readme"], ["a.pyc", "py"]),
    ("/*.py", ["a.py"], ["x/a.py"]),
    ("src/*.py", ["src/a.py"], ["src/x/a.py", "x/src/a.py"]),
    ("src/**", ["src/a", "src/a/b"], ["src", "x/src/a"]),
    ("**/core", ["core", "x/core", "x/y/core/z"], ["score"]),
    ("**/core/*.py", ["core/a.py", "x/core/a.py"], ["core/x/a.py"]),
    ("src/**/core", ["src/core", "src/x/core/a", "src/x/y/core"], ["x/src/core", "src/corex"]),
    ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py", "src/a.pyi"]),
    ("src/**/", ["src/a", "src/a/b"], ["src"]),
    ("a**b.txt", ["ab.txt", "axxb.txt", "x/ab.txt"], ["a/b.txt"]),
    ("te?t", ["test", "text/x"], ["tet", "teest"]),
    ("*test*.py", ["test.py", "a_test_b.py"], ["tes.py"]),
    ("v?.*.txt", ["v1.x.txt"], ["v1.txt", "v12.x.txt"]),
    (r"lit\*eral", ["lit*eral"], ["litxeral", "literal"]),
    (r"lit\?", ["lit?"], ["litx"]),
    (r"my\ file", ["my file"], ["my", "file"]),
    ("[slug].tsx", ["[slug].tsx", "x/[slug].tsx"], ["s.tsx", "l.tsx"]),
    ("/docs/", ["docs/"], ["/docs/a", "Docs/a"]),
    ("cash$money+(1).txt", ["cash$money+(1).txt"], ["cashmoney1.txt"]),
    ("привет/", ["привет/мир", "x/привет/🎉"], ["Привет/мир"]),
]


@pytest.mark.parametrize(("pattern", "covered", "others"), CASES, ids=[case[0] for case in CASES])
def test_a_pattern_covers_what_github_says(pattern: str, covered: list[str], others: list[str]) -> None:
    alone = compile_pattern(pattern)
    in_a_file = parse(f"{pattern} @owner\n")
    for path in covered:
        assert alone.matches(path), path
        assert in_a_file.match(path).owners == ("@owner",), path
    for path in others:
        assert not alone.matches(path), path
        assert in_a_file.match(path).line is None, path


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("a/***/b", "three stars"),
        ("/", "lone slash"),
        ("a//b", "two slashes"),
        ("a\\", "backslash"),
        ("", "no pattern"),
    ],
)
def test_a_pattern_without_meaning_says_why(pattern: str, says: str) -> None:
    with pytest.raises(PatternError, match=says):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*" + "a*" * 20 + "b", "a" * 250),
        ("*" + "?a*" * 20 + "b", "a" * 250),
        ("/".join(["**/a"] * 12) + "/x", "a/" * 120 + "y"),
        ("/".join(["**", "*a*"] * 12) + "/x", "aaa/" * 120 + "y"),
    ],
)
def test_no_pattern_blows_up(pattern: str, path: str) -> None:
    parsed = parse(f"{pattern} @owner\n")
    start = time.perf_counter()
    assert parsed.match(path).line is None
    assert not compile_pattern(pattern).matches(path)
    assert time.perf_counter() - start < 0.25


def test_very_long_and_very_deep_paths_are_answered() -> None:
    parsed = parse("* @owner\n/a/** @other\n")
    assert parsed.match("a/" * 2_000 + "b").owners == ("@other",)
    assert parsed.match("a/" * 100_000 + "b").line is None
