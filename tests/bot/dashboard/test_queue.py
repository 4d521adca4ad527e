"""The queue as a view of decisions: filters, whose turn it is, load, and what a push does to it."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from bot import store
from bot.actions import Target
from bot.db.engine import Sessions
from bot.db.models import Repository
from bot.facts import PullFacts, ReviewView

NOW = datetime(2026, 9, 21, 12, tzinfo=UTC)
A, B = "a" * 40, "b" * 40


def facts(number: int, head: str = A, **changes: object) -> PullFacts:
    values: dict[str, object] = {
        "target": Target(1, "acme/engine", number, head),
        "title": f"Change {number}",
        "body": "",
        "author": f"author-{number}",
        "author_association": "CONTRIBUTOR",
        "state": "open",
        "merged": False,
        "draft": False,
        "labels": (),
        "base_ref": "main",
        "base_sha": B,
        "created_at": NOW - timedelta(days=number),
        "updated_at": NOW - timedelta(hours=number),
        "commits": 1,
        "mergeable": True,
        "files": (),
    }
    return PullFacts(**{**values, **changes})  # type: ignore[arg-type]


def look(session: Session, number: int, head: str = A, **changes: object) -> None:
    """Read a pull request as a handler does at the start of each job."""
    store.remember_pull(session, facts(number, head, **changes))


def decide(session: Session, number: int, kind: str, value: dict[str, object], head: str = A) -> None:
    store.record(session, Target(1, "acme/engine", number, head), kind, value, [], NOW)


@pytest.fixture
def session(sessions: Sessions) -> Session:
    with sessions.begin() as session:
        session.add(Repository(id=1, full_name="acme/engine"))
    return sessions()


def rows(client: TestClient, query: str = "") -> dict[int, dict[str, object]]:
    return {item["number"]: item for item in client.get(f"/queue.json?{query}").json()["items"]}


def numbers(client: TestClient, query: str) -> set[int]:
    return set(rows(client, query))


def test_a_push_takes_back_what_was_said_of_the_head_before(client: TestClient, session: Session) -> None:
    look(session, 1)
    decide(session, 1, "priority", {"level": "high", "score": 60})
    decide(session, 1, "ci", {"overall": "regression"})
    decide(session, 1, "perf", {"decision": "regression", "change_pct": 9.0})
    session.commit()
    assert rows(client)[1]["ci"] == {"text": "red, regression", "tone": "bad"}
    look(session, 1, head=B)
    session.commit()
    pushed = rows(client)[1]
    assert (pushed["ci"], pushed["perf"]) == ({"text": "–", "tone": "soft"},) * 2
    assert pushed["priority"] == {"text": "high", "tone": "bad"}
    decide(session, 1, "ci", {"overall": "green"}, head=A)  # a late word about the head before
    session.commit()
    assert rows(client)[1]["ci"] == {"text": "–", "tone": "soft"}


def test_pushed_back_the_head_has_its_verdict_again(client: TestClient, session: Session) -> None:
    look(session, 1)
    decide(session, 1, "ci", {"overall": "unrelated"})
    look(session, 1, head=B)
    look(session, 1, head=A)
    decide(session, 1, "ci", {"overall": "unrelated"})  # the same as before: no new row, but it holds again
    session.commit()
    assert rows(client)[1]["ci"] == {"text": "red, unrelated", "tone": "good"}


def test_the_side_that_is_waited_for(client: TestClient, session: Session) -> None:
    asked = {"ask": ["owner-1"]}
    changes = ReviewView("owner-1", "CHANGES_REQUESTED", A, NOW)
    look(session, 1)
    look(session, 2)
    decide(session, 2, "route", asked)
    look(session, 3, draft=True)
    decide(session, 3, "route", asked)
    look(session, 4, reviews=(changes,))
    look(session, 5)
    decide(session, 5, "route", asked)
    decide(session, 5, "ci", {"overall": "regression"})
    look(session, 6, requested_reviewers=("owner-9",))
    session.commit()
    waiting = {number: row["waiting"] for number, row in rows(client).items()}
    assert waiting == {1: "nobody", 2: "reviewers", 3: "author", 4: "author", 5: "author", 6: "reviewers"}
    for side in ("author", "reviewers", "nobody"):
        wanted = {number for number, found in waiting.items() if found == side}
        assert numbers(client, f"waiting={side}") == wanted


def test_who_is_asked_and_how_loaded_they_are(client: TestClient, session: Session) -> None:
    for number in (1, 2, 3):
        look(session, number)
        decide(session, number, "route", {"ask": ["Owner-One", "team/two"] if number == 1 else ["owner-one"]})
    session.commit()
    assert rows(client)[1]["owners"] == [
        {"login": "Owner-One", "open_requests": 3},
        {"login": "team/two", "open_requests": 1},
    ]
    assert numbers(client, "owner=@OWNER-one") == {1, 2, 3}
    assert numbers(client, "owner=team/two") == {1}
    look(session, 2, state="closed", merged=True)
    session.commit()
    assert rows(client)[1]["owners"][0]["open_requests"] == 2  # type: ignore[index]
    decide(session, 1, "route", {"ask": ["team/two"]})
    session.commit()
    assert numbers(client, "owner=owner-one") == {3}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("state=merged", {3}),
        ("state=closed", {4}),
        ("state=all", {1, 2, 3, 4}),
        ("text=%232", {2}),
        ("text=2", {2}),
        ("text=change", {1, 2}),
        ("text=author-2", {2}),
        ("text=%25", set()),
        ("text=acme/engine%233", {3}),
        ("text=https://github.example/acme/engine/pull/4/files", {4}),
        ("text=https://github.example/other/engine/pull/4", set()),
        ("repo=ACME/engine", {1, 2}),
        ("repo=acme/other", set()),
        ("perf=improved", {1}),
        ("ci=green", {1}),
        ("ci=nonsense", set()),
        ("sort=nonsense", {1, 2}),
    ],
)
def test_the_queue_is_narrowed(client: TestClient, session: Session, query: str, found: set[int]) -> None:
    look(session, 1)
    look(session, 2)
    look(session, 3, state="closed", merged=True)
    look(session, 4, state="closed")
    decide(session, 1, "ci", {"overall": "green"})
    decide(session, 1, "perf", {"decision": "no_regression", "improved": True, "change_pct": -4.0})
    session.commit()
    assert numbers(client, query) == found


def test_a_pasted_address_leads_to_the_story(client: TestClient, session: Session) -> None:
    look(session, 7, state="closed", merged=True)
    session.commit()
    answer = client.get(
        "/", params={"text": "see https://github.example/acme/engine/pull/7#x"}, follow_redirects=False
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/pr/acme/engine/7")
    unknown = client.get("/", params={"text": "https://github.example/acme/engine/pull/8"})
    assert "No pull request matches" in unknown.text


def test_the_form_keeps_what_was_asked_and_the_next_page_too(client: TestClient, session: Session) -> None:
    for number in range(1, 4):
        look(session, number)
    session.commit()
    html = client.get("/?repo=acme/engine&state=all&limit=2").text
    assert 'value="acme/engine"' in html
    assert '<option value="all" selected>' in html
    following = html.partition('class="more" href="?')[2].partition('"')[0].replace("&amp;", "&")
    assert "repo=acme%2Fengine" in following
    assert "state=all" in following
    assert numbers(client, following) == {1}
