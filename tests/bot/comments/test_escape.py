"""Foreign text stays text: whatever somebody writes, a comment gains no mention, markup or marker by it."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bot import escape
from bot.ci_note import CiView, FailureGroup, ci_note
from bot.comments import Frame, OwnerLine, PriorityView, RouteView, has_marker, route_note, triage_note

RENDER = MarkdownIt("commonmark", {"html": True}).enable("table")
NASTY = st.lists(
    st.sampled_from(
        [
            "@owner-01",
            "@org/team",
            "`",
            "``",
            "|",
            "\n",
            "<b>",
            "<!-- prgate:ci -->",
            "</details>",
            "[x](http://e.x)",
            "![i](http://e.x/i.png)",
            "https://e.x",
            "#12",
            "org/name#12",
            "GH-12",
            "\\",
            "*",
            "_",
            "~~",
            "$",
            "&amp;",
            "\u202e",
            "\x00",
            "\r",
            "<script>",
            "- ",
            "# ",
            "a",
            " ",
            "www.e.x",
            "|---|",
            "\u2028",
            "<@x>",
            "'",
            '"',
        ]
    ),
    max_size=12,
).map("".join)


class Tags(HTMLParser):
    """Collects the elements of rendered Markdown."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.text = ""
        self.in_code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.in_code += tag in ("code", "pre")

    def handle_endtag(self, tag: str) -> None:
        self.in_code -= tag in ("code", "pre")

    def handle_data(self, data: str) -> None:
        if not self.in_code:
            self.text += data

    def handle_comment(self, data: str) -> None:
        self.seen.append("!--")


def rendered(markdown: str) -> Tags:
    tags = Tags()
    tags.feed(RENDER.render(markdown))
    tags.close()
    return tags


def elements(markdown: str) -> list[str]:
    """Return the elements but for code spans, which a sentence with names in backticks may hold."""
    return [tag for tag in rendered(markdown).seen if tag not in ("br", "code")]


@settings(deadline=None)
@given(NASTY)
def test_a_sentence_with_names_in_backticks_holds_code_spans_and_nothing_else(value: str) -> None:
    tags = rendered(f"says {escape.prose(value)} end")
    assert set(tags.seen) <= {"p", "code"}
    assert not re.search(r"@\w", tags.text)


def test_names_in_backticks_read_as_code() -> None:
    assert escape.prose("Run `a_b` on <x>, then stop.") == r"Run `a_b` on \<x\>, then stop."
    assert escape.prose("an odd ` one") == r"an odd \` one"


@settings(deadline=None)
@given(NASTY)
def test_escaped_prose_renders_as_one_plain_paragraph(value: str) -> None:
    tags = rendered(f"says {escape.text(value)} end")
    assert tags.seen == ["p"]
    assert not re.search(r"@\w", tags.text)
    assert not re.search(r"#\d", tags.text)
    assert "://e" not in tags.text


@settings(deadline=None)
@given(NASTY)
def test_escaped_code_renders_as_one_code_span_even_in_a_table(value: str) -> None:
    assert rendered(f"says {escape.code(value)} end").seen == ["p", "code"]
    table = rendered(f"| a | b |\n|---|---|\n| {escape.code(value)} | {escape.text(value)} |\n")
    assert [tag for tag in table.seen if tag in ("td", "tr", "code")] == ["tr", "tr", "td", "code", "td"]


@settings(deadline=None)
@given(NASTY)
def test_a_fenced_block_cannot_be_closed_from_inside(value: str) -> None:
    assert rendered(f"{escape.block(value)}\n\nafter").seen == ["pre", "code", "p"]


@settings(deadline=None)
@given(NASTY.map("n{}".format), NASTY.map("s{}".format))
def test_whole_comments_stay_well_formed_with_hostile_names(name: str, says: str) -> None:
    frame = Frame("prgate", "4d72f6802947c0ffee")
    group = FailureGroup("unrelated", "flaky", 1, (name,), (says,), (name,), (says,), would_settle_it=says)
    plain = FailureGroup("unrelated", "flaky", 1, ("x",), ("x",), ("x",), ("x",), would_settle_it="x")
    texts = [
        (
            route_note(RouteView(name, (OwnerLine(name, False, (says,)),), unowned=(name,)), frame),
            route_note(RouteView("x", (OwnerLine("x", False, ("x",)),), unowned=("x",)), frame),
        ),
        (
            triage_note(PriorityView("high", ((says, 1),), name), frame),
            triage_note(PriorityView("high", (("x", 1),), "x"), frame),
        ),
        (
            ci_note(CiView((group,), (name,), True, claim_by=name, notes=(says,)), frame),
            ci_note(CiView((plain,), ("x",), True, claim_by="x", notes=("x",)), frame),
        ),
    ]
    for hostile, harmless in texts:
        assert elements(hostile) == elements(harmless)
        assert not re.search(r"@(?!prgate\b)\w", rendered(hostile).text)


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "https://e.x/)[a](b", "//e.x", "https://e x", None, ""]
)
def test_a_link_goes_to_a_web_address_or_is_no_link(url: str | None) -> None:
    assert escape.link("name", url) == "name"


def test_a_mention_is_only_made_of_a_login() -> None:
    assert escape.mention("owner-01") == "@owner-01"
    assert escape.mention("@org/team-a") == "@org/team-a"
    for odd in ("a b", "x`y", "evil](http://e.x)", "-x", "a@b", ""):
        assert not escape.mention(odd).startswith("@")


def test_a_huge_comment_is_cut_at_a_line_with_its_fences_closed() -> None:
    body = "<!-- prgate:ci -->\n<details>\n\n```text\n" + "a line of a log\n" * 8_000
    cut = escape.fit(body)
    assert len(cut) <= escape.COMMENT_LIMIT
    assert rendered(cut).seen.count("pre") == 1
    assert cut.rstrip().endswith("does not fit into a comment._")
    assert cut.count("<details>") == cut.count("</details>")
    assert escape.fit("short") == "short"


def test_a_marker_counts_on_the_first_line_only() -> None:
    assert has_marker("<!-- prgate:ci -->\r\nx", "ci")
    assert not has_marker("x\n<!-- prgate:ci -->", "ci")
    assert not has_marker("<!-- prgate:ci2 -->\nx", "ci")
