"""A preview reads a pull request over HTTP and writes nothing."""

from typing import Any

import pytest

from bot.handlers import HANDLERS
from bot.preview import describe, parse_reference, preview

World = Any


@pytest.mark.parametrize(
    ("text", "remote", "found"),
    [
        ("https://github.com/org/name/pull/12", None, ("org/name", 12)),
        ("https://github.com/org/name/pull/12/files?x=1", None, ("org/name", 12)),
        ("org/name#12", None, ("org/name", 12)),
        ("12", "git@github.com:org/name.git", ("org/name", 12)),
        ("#12", "https://github.com/org/name", ("org/name", 12)),
        ("12", None, None),
        ("https://example.org/", None, None),
        ("org/name", None, None),
    ],
)
def test_a_pull_request_is_named_in_several_ways(text: str, remote: str | None, found: object) -> None:
    assert parse_reference(text, remote) == found


def test_it_shows_what_the_bot_would_post_and_posts_nothing(world: World) -> None:
    world.hub.open_pull(1, "gate", "author-01", title="[Bugfix] Gate the fused path")
    planned = preview("omni/omni-lite", 1, world.settings, HANDLERS)
    assert world.writes() == 0
    text = describe(planned)
    assert "--- comment (route)" in text
    assert "--- comment (triage)" in text
    assert "--- review requests: owner-0" in text
    world.settle()
    assert world.note("route").strip() in text


def test_a_pull_request_that_is_not_there_is_said(world: World) -> None:
    with pytest.raises(LookupError, match="no pull request 99"):
        preview("omni/omni-lite", 99, world.settings, HANDLERS)
