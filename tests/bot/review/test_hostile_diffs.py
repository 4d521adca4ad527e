"""Any text may come as a diff or a description: no crash, no hang, bounded work."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.review import ReviewRequest, review
from bot.review.change import DIFF_LIMIT

HEAD = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n"


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=400), st.text(max_size=400))
def test_any_description_is_read(title: str, body: str) -> None:
    review(ReviewRequest(title=title, body=body))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet=" \tdefiforlambda():[]{}='\"\\\n#@x1", max_size=60), max_size=30))
def test_any_python_is_read(lines: list[str]) -> None:
    flat = [line.replace("\n", " ") for line in lines]
    body = "".join(f"+{line}\n" for line in flat)
    review(ReviewRequest(diff=f"{HEAD}@@ -0,0 +1,{len(flat)} @@\n{body}"))


def test_what_is_no_diff_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="not a unified diff"):
        review(ReviewRequest(diff=f"{HEAD}@@ -1,5 +1,9 @@\n+x\n"))
    with pytest.raises(ValueError, match="at most"):
        review(ReviewRequest(diff="x" * (DIFF_LIMIT + 1)))


@pytest.mark.parametrize("line", ["(" * 3000, "-" * 50_000 + "1", "x = " + "a.b" * 20_000, "| " * 30_000])
def test_hostile_lines_cost_little(line: str) -> None:
    began = time.monotonic()
    review(
        ReviewRequest(title="[perf] faster", body=f"{line}\n" * 3, diff=f"{HEAD}@@ -0,0 +1,1 @@\n+{line}\n")
    )
    assert time.monotonic() - began < 5


def test_a_long_cut_hunk_is_parsed_in_bounded_time() -> None:
    body = "".join(f"+    x{number} = call(1,\n" for number in range(4_000))
    began = time.monotonic()
    review(ReviewRequest(diff=f"{HEAD}@@ -0,0 +1,4000 @@\n{body}"))
    assert time.monotonic() - began < 20
