"""Whole CODEOWNERS files: who owns a path, which lines are skipped, and why."""

import random

import codeowners as other_package
import pytest

from routing.codeowners import SIZE_LIMIT_BYTES, State, parse
from routing.index import Index
from routing.patterns import compile_pattern


def owners(text: str, path: str) -> tuple[str, ...]:
    return parse(text).match(path).owners


def kinds(text: str) -> list[tuple[int, str]]:
    return [(error.line, error.kind) for error in parse(text).errors]


def test_the_last_match_wins_and_replaces_the_owners() -> None:
    text = "* @all\n*.py @py @snake\n/src/ @src\n"
    assert owners(text, "README") == ("@all",)
    assert owners(text, "a/b.py") == ("@py", "@snake")
    assert owners(text, "src/b.py") == ("@src",)


def test_there_are_three_states() -> None:
    parsed = parse("/src/ @src\n/src/generated/\n")
    assert parsed.match("src/a").state is State.OWNED
    cleared = parsed.match("src/generated/a")
    assert (cleared.state, cleared.owners, cleared.line) == (State.CLEARED, (), 2)
    nothing = parsed.match("docs/a")
    assert (nothing.state, nothing.line) == (State.NO_RULE, None)


def test_an_inline_comment_never_names_an_owner() -> None:
    assert owners("*.po @lead # + @translator @second\n", "a.po") == ("@lead",)
    assert owners("*.po @lead#@translator\n", "a.po") == ("@lead",)
    assert owners("* @lead\n*.po # nobody yet: @translator\n", "a.po") == ()


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85"])
def test_no_rule_hides_behind_an_unusual_separator(separator: str) -> None:
    text = f"# a comment{separator}* @hidden\n/src/ @src\n"
    assert owners(text, "a") == ()
    assert owners(text, "src/a") == ("@src",)


def test_byte_order_mark_crlf_tabs_and_blanks_change_nothing() -> None:
    text = "\ufeff* @all\r\n\t/src/\t@src  @more\t \r\n   *.md\t\t@docs # why\r\n/last @last"
    assert owners(text, "a") == ("@all",)
    assert owners(text, "src/x") == ("@src", "@more")
    assert owners(text, "x/a.md") == ("@docs",)
    assert owners(text, "last") == ("@last",)
    assert parse(text).errors == ()


def test_a_path_with_blanks_is_one_path() -> None:
    text = "report @a\n/my\\ docs/ @docs\n*.txt @txt\n"
    assert owners(text, "big report") == ()
    assert owners(text, "my docs/x") == ("@docs",)
    assert owners(text, "notes of today.txt") == ("@txt",)


def test_a_line_with_a_word_that_is_no_owner_is_skipped_alone() -> None:
    text = "* @all\n*.py team\n*.go @go\n*.c @a, @b\n*.rs @robot[bot]\n"
    assert owners(text, "x.py") == ("@all",)
    assert owners(text, "x.go") == ("@go",)
    assert owners(text, "x.c") == ("@all",)
    assert kinds(text) == [(2, "invalid_owner"), (4, "invalid_owner"), (5, "invalid_owner")]
    said = [error.says for error in parse(text).errors]
    assert "`@team`" in said[0]
    assert "blanks, not punctuation" in said[1]
    assert "bot" in said[2]


@pytest.mark.parametrize(
    "owner", ["@a", "@A-b", "@org/team", "@org/team_1.x", "a.b+c@example.org", "@emu_short"]
)
def test_users_teams_and_addresses_are_owners(owner: str) -> None:
    assert owners(f"* {owner}\n", "x") == (owner,)


@pytest.mark.parametrize(
    "owner", ["@", "@-a", "@a/b/c", "@a.b", "a@b", "@@maintainer", "@a\u00a0@b", "@é", "a@b@c.org", "@a/"]
)
def test_other_words_are_none(owner: str) -> None:
    assert kinds(f"* {owner}\n") == [(1, "invalid_owner")]


def test_what_other_dialects_allow_is_skipped_and_named() -> None:
    text = "* @all\n!src/a.py @a\n\\#file @b\n[Docs] @c\n^[Docs][2]\n"
    text += "[Two words] @d\ndocs/ @@developer\na***b @e\n"
    assert kinds(text) == [
        (2, "negation"),
        (3, "escaped_hash"),
        (4, "gitlab_section"),
        (5, "gitlab_section"),
        (6, "gitlab_section"),
        (7, "invalid_owner"),
        (8, "invalid_pattern"),
    ]
    assert owners(text, "src/a.py") == ("@all",)
    assert "GitLab" in parse(text).errors[5].says


def test_brackets_are_plain_characters() -> None:
    text = "* @all\n/pages/[id]/ @pages\n[xy].py @range\nopen[ @open\n"
    assert owners(text, "pages/[id]/a") == ("@pages",)
    assert owners(text, "pages/i/a") == ("@all",)
    assert owners(text, "x.py") == ("@all",)
    assert owners(text, "open[") == ("@open",)
    assert [warning.line for warning in parse(text).warnings if warning.kind == "literal_brackets"] == [
        2,
        3,
        4,
    ]


def test_a_file_of_three_megabytes_has_no_owners() -> None:
    text = "* @all\n" + "#" * SIZE_LIMIT_BYTES
    parsed = parse(text)
    assert parsed.match("a").state is State.NO_RULE
    assert [(error.line, error.kind) for error in parsed.errors] == [(0, "too_large")]
    assert parse("* @all\n" + "é" * (SIZE_LIMIT_BYTES // 2)).errors != ()


def test_an_error_shows_foreign_text_harmlessly_and_short() -> None:
    (error,) = parse("* " + "`\x1b[31m" * 100 + "\n").errors
    assert "\x1b" not in error.says
    assert error.says.count("`") == 2
    assert len(error.says) < 200


def test_rules_are_listed_as_written() -> None:
    rules = parse("# top\n* @all\n\nsrc/ @A @b\n").rules
    written = [(rule.line, rule.pattern, rule.owners) for rule in rules]
    assert written == [(2, "*", ("@all",)), (4, "src/", ("@A", "@b"))]


def test_many_folders_do_not_grow_the_memory_for_ever() -> None:
    index = Index(max_folders=50)
    index.add(compile_pattern("**/x/*.py"), 1)
    for number in range(500):
        assert index.find(f"a{number}/x/b.py") == 1
    assert len(index.folders) <= 50
    assert len(index.reached) <= 53


def test_the_package_of_pypi_agrees_where_both_follow_github() -> None:
    rng = random.Random(7)
    names = ["src", "docs", "core", "a", "b", "test"]
    shapes = [
        "/{a}/",
        "{a}/{b}",
        "{a}/",
        "*.{e}",
        "/{a}/*",
        "/{a}/**",
        "**/{a}/*.{e}",
        "/{a}/{b}.{e}",
        "{a}*/",
        "{a}",
    ]
    lines = ["* @all"]
    for number in range(120):
        pattern = rng.choice(shapes).format(
            a=rng.choice(names), b=rng.choice(names), e=rng.choice(["py", "md"])
        )
        lines.append(f"{pattern} @o{number}")
    text = "\n".join(lines) + "\n"
    theirs, ours = other_package.CodeOwners(text), parse(text)
    for _ in range(600):
        folders = [rng.choice(names) for _ in range(rng.randint(0, 4))]
        path = "/".join([*folders, f"{rng.choice(names)}.{rng.choice(['py', 'md', 'c'])}"])
        assert [owner for _, owner in theirs.of(path)] == list(ours.match(path).owners), path
