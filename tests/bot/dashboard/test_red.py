"""The red board: what fails, since when, where, how flaky, and whom it hits."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from bot.ci.failures import Failure, Reading
from bot.ci.memory import Seen, remember
from bot.ci.providers.reads import Sighting
from bot.ci.snapshot import Job
from bot.db.engine import Sessions
from bot.db.models import Pull, Repository

NOW = datetime.now(UTC).replace(microsecond=0)
BROKEN = Failure("test", test="tests/test_a.py::test_one", exception="KeyError", message="'norm'")
FLAKY = Failure(
    "test", test="tests/test_b.py::test_two", exception="TimeoutError", message="no answer in 5 s"
)
Tell = Callable[..., None]


@pytest.fixture
def tell(sessions: Sessions) -> Tell:
    """Return what lets CI run one job and the bot see it."""
    with sessions.begin() as session:
        session.add(Repository(id=1, full_name="acme/engine"))
        session.add_all([pull(7, "open"), pull(8, "open"), pull(9, "closed")])
    count = iter(range(1000))

    def one(sha: str, ago: timedelta, *failures: Failure, pull: int | None = None, job: str = "unit") -> None:
        at = NOW - ago
        conclusion = "failed" if failures else "passed"
        seen = Job(id=str(next(count)), provider="buildkite", build="1", name=job, conclusion=conclusion,
                   started_at=at, finished_at=at)  # fmt: skip
        branch = "main" if pull is None else f"branch-{pull}"
        sighting = Sighting(seen, "pipeline", sha * 40, branch, pull is not None, pull, at, False)
        reading = Reading(failures=failures, ran=True, complete=True)
        with sessions.begin() as session:
            remember(session, 1, [Seen(sighting, reading)], "main")

    return one


def pull(number: int, state: str) -> Pull:
    return Pull(
        repo_id=1, number=number, title=f"Change {number}", author="author-1", state=state, head_sha="a" * 40,
        base_sha="b" * 40, base_ref="main", created_at=NOW, updated_at=NOW,
    )  # fmt: skip


def board(client: TestClient, query: str = "") -> dict[str, dict[str, object]]:
    return {item["test"]: item for item in client.get(f"/red.json?{query}").json()["items"]}


def test_a_broken_main_is_told_from_what_only_pull_requests_met(client: TestClient, tell: Tell) -> None:
    tell("1", timedelta(days=5))
    tell("2", timedelta(days=3), BROKEN)
    tell("3", timedelta(hours=3), BROKEN)
    tell("4", timedelta(hours=2), BROKEN, pull=7)
    tell("5", timedelta(hours=1), FLAKY, pull=8)
    rows = board(client)
    broken, flaky = rows[BROKEN.test], rows[FLAKY.test]  # type: ignore[index]
    assert broken["main"] == {"text": "on main now", "tone": "bad"}
    assert (broken["times"], broken["times_on_main"], broken["pulls"], broken["commits"]) == (3, 2, 1, 3)
    assert broken["last_main_sha"] == "3" * 40
    assert datetime.fromisoformat(str(broken["first_at"])) == NOW - timedelta(days=3)
    assert flaky["main"] == {"text": "not seen on main", "tone": "unsure"}
    assert set(board(client, "where=main")) == {BROKEN.test}
    assert set(board(client, "where=pulls")) == {FLAKY.test}
    assert set(board(client, "text=timeout")) == {FLAKY.test}
    assert set(board(client, "text=test_")) == {BROKEN.test, FLAKY.test}
    assert board(client, "text=%25") == {}


def test_a_red_that_passed_on_the_same_commit_counts_as_a_flicker_with_its_n(
    client: TestClient, tell: Tell
) -> None:
    for sha in "123":
        tell(sha, timedelta(hours=5), FLAKY, pull=8)
    for sha in "12":
        tell(sha, timedelta(hours=4), pull=8)
    tell("4", timedelta(hours=3), pull=8)
    row = board(client)[FLAKY.test]  # type: ignore[index]
    assert (row["flickers"], row["met_on"]) == (2, 3)
    page = client.get(f"/red/acme/engine/{row['key']}").text
    assert "on 2 of 3 commits" in page
    assert "50.0 % of 4 commits that ran it" in page


def test_old_flickers_are_no_news(client: TestClient, tell: Tell) -> None:
    tell("1", timedelta(days=40), FLAKY)
    tell("1", timedelta(days=39))
    row = board(client)[FLAKY.test]  # type: ignore[index]
    assert (row["flickers"], row["met_on"]) == (0, 0)
    assert "no commit ran it in two weeks" in client.get(f"/red/acme/engine/{row['key']}").text


def test_whom_it_hits(client: TestClient, tell: Tell) -> None:
    tell("1", timedelta(hours=9), BROKEN, pull=7)
    tell("2", timedelta(hours=8), BROKEN, pull=8)
    tell("3", timedelta(hours=7), BROKEN, pull=7)
    tell("4", timedelta(hours=6), BROKEN, pull=9)
    tell("5", timedelta(hours=5), BROKEN)
    key = board(client)[BROKEN.test]["key"]  # type: ignore[index]
    page = client.get(f"/red/acme/engine/{key}.json").json()
    assert [(one["number"], one["title"]) for one in page["affected"]] == [(7, "Change 7"), (8, "Change 8")]
    assert [one["sha"][0] for one in page["items"]] == ["5", "4", "3", "2", "1"]
    html = client.get(f"/red/acme/engine/{key}").text
    assert '<a href="/pr/acme/engine/7">#7 Change 7</a>' in html


def test_a_job_without_a_test_is_a_row_too(client: TestClient, tell: Tell) -> None:
    tell("1", timedelta(hours=1), Failure("build", message="no space left on device"), job="build wheel")
    item = client.get("/red.json").json()["items"][0]
    assert (item["test"], item["job"]) == (None, "build wheel")
    page = client.get(f"/red/acme/engine/{item['key']}")
    assert "<h1>build wheel</h1>" in page.text
    assert page.text.count("Flaky") == 0


def test_hostile_names_are_text(client: TestClient, tell: Tell) -> None:
    bad = Failure("test", test="t.py::<script>alert(1)</script>", exception="X", message="</code><script>")
    tell("1", timedelta(hours=1), bad, job="<img src=x onerror=alert(1)>")
    key = client.get("/red.json").json()["items"][0]["key"]
    for path in ("/red", f"/red/acme/engine/{key}"):
        assert "<script>" not in client.get(path).text
        assert "<img" not in client.get(path).text


def test_an_unknown_failure_is_a_404_and_another_repository_has_none(
    client: TestClient, tell: Tell, sessions: Sessions
) -> None:
    tell("1", timedelta(hours=1), BROKEN)
    with sessions.begin() as session:
        add_repository(session)
    key = client.get("/red.json").json()["items"][0]["key"]
    assert client.get(f"/red/acme/other/{key}").status_code == 404
    assert client.get("/red/acme/engine/0123456789abcdef").status_code == 404
    assert client.get("/red.json?repo=acme/other").json()["items"] == []
    assert client.get("/red.json?repo=nobody/nothing").json()["items"] == []


def add_repository(session: Session) -> None:
    session.add(Repository(id=2, full_name="acme/other"))
