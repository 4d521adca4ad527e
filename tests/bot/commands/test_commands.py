"""What a comment tells the bot, and everything that looks like a command but is none."""

import time

import pytest

from bot.commands import SPECS, VERBS, Command, Misunderstood, Spec, Unread, parse
from bot.comments import Frame, OwnerLine, PriorityView, RouteView, help_text, route_note, triage_note

HANDLES = ["prgate"]
FRAME = Frame("prgate", "4d72f6802947c0ffee", "https://prgate.example/pr/org/name/1")


@pytest.mark.parametrize(
    ("body", "verb", "text"),
    [
        ("@prgate help", "help", ""),
        ("@prgate bench", "bench", ""),
        ("@prgate bench 512x512_steps20 1024x1024_steps20", "bench", "512x512_steps20 1024x1024_steps20"),
        ("Thanks for looking!\n\n@prgate bench\n", "bench", ""),
        ("Thanks for looking!\n@prgate bench", "bench", ""),
        ("@PrGate[bot] WHY Simple · Diffusion Test", "why", "Simple · Diffusion Test"),
        ("@prgate: priority high", "priority", "high"),
        ("@prgate, route", "route", ""),
        ("@prgate benchmark", "bench", ""),
        ("@prgate unrelated Lint because main fails too", "unrelated", "Lint because main fails too"),
    ],
)
def test_a_line_that_starts_with_the_mention_is_a_command(body: str, verb: str, text: str) -> None:
    assert parse(body, HANDLES) == (Command(verb, text),)


@pytest.mark.parametrize(
    "body",
    [
        "@prgate",
        "@prgate please review",
        "@prgate please review the submitted diff.",
        "@prgate could you please re-review the current head?",
        "@prgate PTAL",
        "@prgate could you take a look, thanks!",
    ],
)
def test_a_bare_mention_or_a_polite_request_asks_for_a_review(body: str) -> None:
    assert parse(body, HANDLES) == (Command("review"),)


@pytest.mark.parametrize(
    "body",
    [
        "I asked @prgate bench yesterday",
        "Could @prgate review this?",
        "> @prgate bench",
        "> quoted\n@prgate bench",  # Markdown's lazy continuation: still the quote
        "```\n@prgate bench\n```",
        "~~~text\n@prgate bench\n~~~",
        "    @prgate bench",
        "`@prgate bench`",
        "- @prgate bench",
        "1. @prgate bench",
        "# @prgate bench",
        "| a |\n|---|\n| @prgate bench |",
        "<!-- @prgate bench -->",
        "<!--\n@prgate bench\n-->",
        "<details><summary>x</summary>\n\n@prgate bench\n\n</details>",
        "<b>@prgate bench</b>",
        "<sub>\n@prgate bench</sub>",
        "\\@prgate bench",
        "&#64;prgate bench",
        "[@prgate bench](https://example.org)",
        "https://example.org/@prgate bench",
        "someone@prgate bench",
        "@prgate-fan bench",
        "@prgate/team bench",
        "@prgate_x bench",
        "@prgate please",
        "**@prgate** bench",
        "@prgate is wrong here, the regression is real",
        "@prgate thanks!",
        "@prgate help me understand why this is so slow on my machine",
        "",
        "no mention at all",
    ],
)
def test_what_is_code_quote_html_url_or_a_sentence_does_nothing(body: str) -> None:
    assert parse(body, HANDLES) == ()


def test_an_unknown_word_gets_the_nearest_command_and_a_lone_one_is_answered() -> None:
    assert parse("@prgate bnech", HANDLES) == (Misunderstood("bnech", VERBS["bench"].usage),)
    assert parse("@prgate frobnicate", HANDLES) == (Misunderstood("frobnicate", None),)
    assert parse("@prgate priority", HANDLES) == (Misunderstood("priority", VERBS["priority"].usage),)


def test_several_commands_count_once_each_and_there_is_an_end_to_them() -> None:
    body = "\n".join(["@prgate why", "@prgate bench", "@prgate why"])
    assert parse(body, HANDLES) == (Command("why"), Command("bench"))
    many = "\n".join(f"@prgate bench case{number}" for number in range(100))
    assert len(parse(many, HANDLES)) == 5


def test_every_handle_counts_and_no_handle_means_no_command() -> None:
    assert parse("@review-bot bench", ["prgate", "@review-bot"]) == (Command("bench"),)
    assert parse("@prgate bench", []) == ()
    assert parse("@ bench", ["", "@"]) == ()


def rendered(markdown: str) -> str:
    """Return a comment as it lands in the clipboard of someone who copies it from the page."""
    from bot.markdown import parser, rendered_lines

    tokens = parser().parse(markdown)
    return "\n\n".join("\n".join(rendered_lines(t.children or ())) for t in tokens if t.type == "inline")


@pytest.mark.parametrize("copy", [str, rendered], ids=["raw", "rendered"])
def test_the_bots_own_text_pasted_by_somebody_else_does_nothing(copy: type[str]) -> None:
    ours = [
        route_note(RouteView("author-01", (OwnerLine("owner-01", True, ("CODEOWNERS line 3",)),)), FRAME),
        triage_note(PriorityView("high", (("the title says bugfix", 10),)), FRAME),
        help_text(FRAME),
    ]
    for body in ours:
        pasted = copy(body) + "\n\nThe six failures are in a file that this change does not touch.\n"
        assert parse(pasted, HANDLES, ours) == ()


def test_a_pasted_comment_with_a_command_of_ones_own_below_still_counts() -> None:
    ours = [help_text(FRAME)]
    assert parse(rendered(ours[0]) + "\n\n@prgate bench", HANDLES, ours) == (Command("bench"),)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.verb)
def test_a_note_whose_marker_has_a_commands_name_does_not_swallow_it(spec: Spec) -> None:
    ours = [f"<!-- prgate:{spec.verb} -->\nWhat was found.\n", route_note(RouteView("a", ()), FRAME)]
    said = f"{spec.verb} high" if spec.least_words else spec.verb
    assert [one.verb for one in parse(f"@prgate {said}", HANDLES, ours) if isinstance(one, Command)] == [
        spec.verb
    ]


def test_no_comment_but_the_help_has_a_line_that_starts_with_the_mention() -> None:
    """So that a paste is harmless even where the original cannot be read any more."""
    for body in (route_note(RouteView("a", ()), FRAME), triage_note(PriorityView("low", ()), FRAME)):
        assert parse(rendered(body), HANDLES) == ()


def test_the_help_lists_exactly_what_is_understood() -> None:
    text = help_text(FRAME)
    for spec in SPECS:
        assert f"`@prgate {spec.usage}`" in text


@pytest.mark.parametrize(
    "filler",
    ["[", "`", "*a", "> ", "<", "![[", "- ", "_*", "<a ", "\\", "&#64;", "((", "[a](", "@prgate ", "~", "| "],
)
def test_hostile_markdown_is_read_quickly(filler: str) -> None:
    hostile = filler * (60_000 // len(filler))
    start = time.monotonic()
    parse(f"@prgate bench\n{hostile}\n", HANDLES, [hostile])
    assert time.monotonic() - start < 5


class TestLongComments:
    """What stands behind the part of a comment that is read."""

    FILLER = "Some words about the change.\n\n" * 700

    def test_a_command_there_is_answered_and_never_obeyed(self) -> None:
        assert parse(f"{self.FILLER}\n@prgate bench short\n", HANDLES) == (Unread("@prgate bench short"),)
        both = parse(f"@prgate help\n\n{self.FILLER}\n@prgate bench", HANDLES)
        assert both == (Command("help"), Unread("@prgate bench"))

    def test_a_mention_in_a_sentence_or_a_quote_there_is_not(self) -> None:
        for line in ("> @prgate bench", "as @prgate bench said", "@prgate thanks!", "    @prgate bench"):
            assert parse(f"{self.FILLER}\n{line}\n", HANDLES) == ()

    def test_a_line_that_is_only_cut_by_the_limit_is_no_command(self) -> None:
        body = "x" * 19_990 + " @prgate bench"
        assert parse(body, HANDLES) == ()
