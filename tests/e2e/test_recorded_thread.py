"""The recorded pull requests, from signed webhooks to the comments: everything is real but GitHub."""

import httpx
import pytest

from bot.demo.replay import Replay
from bot.demo.world import EmbeddedWorld
from tests.e2e.reading import answers, markers, note, perf_check


@pytest.fixture(scope="module")
def played(world: EmbeddedWorld) -> EmbeddedWorld:
    Replay(world, lambda _: None).play()
    return world


@pytest.fixture(scope="module")
def fix(played: EmbeddedWorld) -> int:
    return played.recording.fix.number


@pytest.fixture(scope="module")
def culprit(played: EmbeddedWorld) -> int:
    return played.recording.culprit.number


def test_every_comment_comes_out_once(played: EmbeddedWorld, fix: int, culprit: int) -> None:
    assert Replay(played, lambda _: None).missing() == []
    assert all(count == 1 for number in (fix, culprit) for count in markers(played, number).values())


def test_one_or_two_owners_are_asked_and_only_they_are_mentioned(played: EmbeddedWorld, fix: int) -> None:
    body = note(played, fix, "route")
    first = next(line for line in body.splitlines() if line.startswith("Module owners:"))
    asked = {word.lstrip("@") for word in first.split() if word.startswith("@")}
    assert 1 <= len(asked) <= 2
    assert set(played.github.hub.require_pull(fix).requested) <= asked
    assert "author-01" not in first


def test_the_self_review_is_recognised_although_the_bots_text_was_pasted(
    played: EmbeddedWorld, fix: int
) -> None:
    assert "[x]" in note(played, fix, "route")


def test_the_pasted_comment_commands_nothing(played: EmbeddedWorld, fix: int) -> None:
    comments = played.github.state.comments_of(fix)
    by_author = {f"answer:{one.id}" for one in comments if one.user == "author-01"}
    assert by_author.isdisjoint(str(marker) for marker in markers(played, fix))


def test_the_fix_is_urgent_because_of_its_issue(played: EmbeddedWorld, fix: int) -> None:
    body = note(played, fix, "triage")
    assert "Priority: high" in body
    assert "7780" in body


def test_the_red_is_mains_and_the_author_has_nothing_to_fix(played: EmbeddedWorld, fix: int) -> None:
    body = note(played, fix, "ci")
    assert "Nothing for you to fix" in body
    assert "0 yours, 6 unrelated, 0 unknown" in body
    assert "main is broken" in body
    for exception in ("KeyError", "ImportError", "AssertionError"):
        assert exception in body


def test_the_culprit_is_caught(played: EmbeddedWorld, culprit: int) -> None:
    assert "Performance: slower" in note(played, culprit, "perf")
    # In mode `comment` no check fails a merge.
    assert perf_check(played, culprit).conclusion == "neutral"


def test_the_fix_is_faster_than_main(played: EmbeddedWorld, fix: int) -> None:
    # On a busy machine the interval may be too wide to say more than that nothing got slower.
    title = note(played, fix, "perf").splitlines()[1]
    assert title.startswith(("### Performance: faster, −", "### Performance: no regression, −"))
    assert perf_check(played, fix).conclusion == "success"


def test_the_dashboard_shows_both(played: EmbeddedWorld, fix: int, culprit: int) -> None:
    page = httpx.get(f"{played.address.service}/queue.json").json()
    rows = {item["number"]: item for item in page["items"]}
    assert rows[fix]["ci"]["text"] == "red, unrelated"
    assert rows[culprit]["perf"]["text"].startswith("regression")
    story = httpx.get(f"{played.address.service}/pr/{played.recording.repository}/{fix}")
    assert story.status_code == 200
    assert "Continuous integration" in story.text


def test_played_again_nothing_is_written(played: EmbeddedWorld, fix: int, culprit: int) -> None:
    writes = len(played.github.state.writes())
    Replay(played, lambda _: None).play()
    assert played.github.state.writes()[writes:] == []
    assert all(count == 1 for number in (fix, culprit) for count in markers(played, number).values())


def test_what_is_typed_on_the_page_is_answered(played: EmbeddedWorld, fix: int) -> None:
    before = len(answers(played, fix))
    page = f"{played.github.url}/{played.recording.repository}/pull/{fix}/comment"
    httpx.post(page, data={"user": "stranger-01", "body": "@prgate why"})
    played.settle()
    assert len(answers(played, fix)) == before + 1
    httpx.post(page, data={"user": "stranger-01", "body": "@prgate bench"})
    played.settle()
    refused = answers(played, fix)[-1]
    assert "write permission" in refused


def test_no_secret_reaches_the_logs_or_the_thread(played: EmbeddedWorld, fix: int, culprit: int) -> None:
    secrets = [key for name, key in played.keys.items() if name != "app"]
    secrets.append(played.keys["app"].splitlines()[1])
    texts = [path.read_text("utf-8", "replace") for path in (played.folder / "logs").iterdir()]
    texts += [one.body for number in (fix, culprit) for one in played.github.bot_comments(number)]
    assert [secret for secret in secrets if any(secret in text for text in texts)] == []
