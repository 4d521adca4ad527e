"""The first pages: what a maintainer sees of the queue and of one pull request."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from bot import store
from bot.actions import Target
from bot.dashboard.routes import create_router
from bot.db.engine import Sessions, open_engine, open_reading_sessions, open_sessions
from bot.db.models import Base, Pull, Repository, Run, RunState

NOW = datetime(2026, 9, 21, 12, tzinfo=UTC)
HEAD = "4d72f68029474d72f68029474d72f68029474d72"


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    engine = open_engine(f"sqlite:///{tmp_path}/db.sqlite")
    Base.metadata.create_all(engine)
    yield open_sessions(engine)
    engine.dispose()


@pytest.fixture
def client(sessions: Sessions, tmp_path: Path) -> Iterator[TestClient]:
    engine = open_engine(f"sqlite:///{tmp_path}/db.sqlite")
    app = FastAPI()
    app.include_router(create_router(open_reading_sessions(engine), "https://github.example"))
    with TestClient(app) as client:
        yield client
    engine.dispose()


def pull(number: int, title: str, **changes: object) -> Pull:
    values = {
        "repo_id": 1,
        "number": number,
        "title": title,
        "author": "author-1",
        "state": "open",
        "head_sha": HEAD,
        "base_sha": "b" * 40,
        "base_ref": "main",
        "created_at": NOW - timedelta(days=number),
        "updated_at": NOW,
    }
    return Pull(**{**values, **changes})


def decide(session: Session, number: int, kind: str, value: dict[str, object], head: str = HEAD) -> None:
    store.record(session, Target(1, "omni/omni", number, head), kind, value, [], NOW)


def fill(sessions: Sessions) -> None:
    with sessions.begin() as session:
        session.add(Repository(id=1, full_name="omni/omni"))
        session.add(pull(1, "Gate the fused path on short sequences"))
        session.add(pull(2, "<script>alert(1)</script> & more", author="author-2"))
        session.add(pull(3, "Already merged", state="closed"))
        decide(session, 1, "priority", {"level": "high", "score": 60, "reasons": []})
        decide(session, 1, "route", {"ask": ["owner-01"], "owners": [], "modules": []})
        decide(session, 1, "ci", {"overall": "unrelated", "failures": []})
        decide(session, 1, "perf", {"decision": "regression", "change_pct": 10.94, "why": "slower"})
        decide(session, 2, "ci", {"overall": "regression", "failures": []}, head="0" * 40)
        session.add(
            Run(
                id="run-1",
                repo_id=1,
                number=1,
                head_sha=HEAD,
                base_sha="b" * 40,
                kind="experiment",
                queue="runner.cpu",
                spec={},
                state=RunState.DONE,
                requested_by="maintainer-1",
                requested_at=NOW,
            )
        )


def test_an_empty_queue_says_what_will_fill_it(client: TestClient) -> None:
    assert "the first webhook fills this page" in client.get("/").text


def test_the_queue_lists_open_pull_requests_most_urgent_first(client: TestClient, sessions: Sessions) -> None:
    fill(sessions)
    page = client.get("/queue.json").json()
    assert page["schema"] == 1
    assert [item["number"] for item in page["items"]] == [1, 2]
    first = page["items"][0]
    assert first["priority"] == {"text": "high", "tone": "bad"}
    assert first["owners"] == [{"login": "owner-01", "open_requests": 1}]
    assert first["ci"]["text"] == "red, unrelated"
    assert first["perf"]["text"] == "regression (+10.9 %)"


def test_a_verdict_on_an_older_head_is_not_shown_as_the_present_one(
    client: TestClient, sessions: Sessions
) -> None:
    fill(sessions)
    second = client.get("/queue.json").json()["items"][1]
    assert second["ci"]["text"] == "–"


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("priority=high", [1]),
        ("ci=unrelated", [1]),
        ("text=author-2", [2]),
        ("text=%25", []),
        ("repo=OMNI/omni", [1, 2]),
        ("repo=other/repo", []),
    ],
)
def test_the_queue_can_be_narrowed(
    client: TestClient, sessions: Sessions, query: str, numbers: list[int]
) -> None:
    fill(sessions)
    page = client.get(f"/queue.json?{query}").json()
    assert [item["number"] for item in page["items"]] == numbers


def test_a_hostile_title_is_text(client: TestClient, sessions: Sessions) -> None:
    fill(sessions)
    html = client.get("/").text
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in html


def test_pages_allow_nothing_from_elsewhere(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    assert "http://" not in answer.text.replace("http://www.w3.org", "")


def test_a_pull_request_tells_its_story(client: TestClient, sessions: Sessions) -> None:
    fill(sessions)
    story = client.get("/pr/omni/omni/1.json").json()
    kinds = {entry["kind"] for entry in story["story"]}
    assert kinds == {"priority", "route", "ci", "perf", "run"}
    html = client.get("/pr/omni/omni/1").text
    assert "asked for by maintainer-1" in html
    assert 'href="https://github.example/omni/omni/pull/1"' in html


def test_an_unknown_pull_request_is_a_404(client: TestClient) -> None:
    assert client.get("/pr/omni/omni/99").status_code == 404


@pytest.mark.parametrize("number", ["0", "-1", "2147483648", "9" * 20, "9" * 5000, "abc"])
@pytest.mark.parametrize("form", ["", ".json"])
def test_a_number_that_no_pull_request_has_is_refused(client: TestClient, number: str, form: str) -> None:
    assert client.get(f"/pr/omni/omni/{number}{form}").status_code in (404, 422)


def test_the_help_lists_every_command(client: TestClient) -> None:
    usages = {item["usage"].split()[0] for item in client.get("/help.json").json()["items"]}
    assert {"help", "review", "bench", "why", "route"} <= usages
    assert "<code>help</code>" in client.get("/help").text


def test_the_style_sheet_is_ours(client: TestClient) -> None:
    assert client.get("/static/site.css").headers["content-type"].startswith("text/css")


def test_nothing_but_our_static_files_is_served(client: TestClient) -> None:
    assert client.get("/static/..%2froutes.py").status_code == 404
    assert client.get("/static/routes.py").status_code == 404
