"""The story of a pull request: why these owners, this priority, every failure and every experiment."""

import pytest
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from bot import store
from bot.actions import SetOverride, Target
from bot.dashboard.rendering import coded, web_url
from bot.db.engine import Sessions
from bot.db.models import Repository, Run, RunState
from tests.bot.dashboard.filling import case_result, machine
from tests.bot.dashboard.test_queue import NOW, A, B, decide, look

GROUP = {
    "ruling": "unrelated",
    "kind": "broken_trunk",
    "count": 2,
    "jobs": ["unit tests (1)", "unit tests (2)"],
    "tests": ["tests/test_a.py::test_one", "tests/test_a.py::test_two"],
    "platforms": ["cuda"],
    "exceptions": ["AssertionError: <b>3</b> == 4"],
    "evidence": [
        {"says": "`test_one` fails on main, too.", "url": "https://ci.example/1", "sha": B},
        {"says": "A stranger's page.", "url": "javascript:alert(1)", "sha": None},
    ],
    "would_settle_it": "A run of `test_one` on the base.",
    "urls": [["unit tests (1)", "https://ci.example/job/1"]],
}


@pytest.fixture
def session(sessions: Sessions) -> Session:
    with sessions.begin() as session:
        session.add(Repository(id=1, full_name="acme/engine"))
    session = sessions()
    look(session, 1)
    return session


def story(client: TestClient) -> str:
    return client.get("/pr/acme/engine/1").text


def run(number: int, state: RunState = RunState.DONE, **changes: object) -> Run:
    values = {
        "id": f"run-{number}",
        "repo_id": 1,
        "number": 1,
        "head_sha": A,
        "base_sha": B,
        "kind": "experiment",
        "queue": "runner.h200",
        "spec": {"cases": [{"name": "case 3"}]},
        "state": state,
        "requested_by": "maintainer-1",
        "requested_at": NOW,
        "machine": machine(),
        "result": {"results": [case_result(3)]} if state is RunState.DONE else None,
        "finished_at": NOW if state is RunState.DONE else None,
    }
    return Run(**{**values, **changes})


def test_it_says_why_these_owners_and_this_priority(client: TestClient, session: Session) -> None:
    owners = [{"login": "owner-1", "reasons": ["module page scheduler.md", "CODEOWNERS line 6"]}]
    decide(session, 1, "route", {"ask": ["owner-1"], "owners": owners, "unowned_files": ["LICENSE"]})
    decide(
        session, 1, "priority", {"level": "high", "score": 35, "reasons": [{"signal": "red", "points": 35}]}
    )
    session.commit()
    html = story(client)
    for said in ("asked: owner-1", "module page scheduler.md, CODEOWNERS line 6", "no owner: LICENSE"):
        assert said in html
    assert "red (+35)" in html
    assert "35 points in all" in html


def test_each_failure_comes_with_all_its_evidence(client: TestClient, session: Session) -> None:
    decide(session, 1, "ci", {"overall": "unrelated", "red": ["build"], "groups": [GROUP]})
    session.commit()
    html = story(client)
    assert "(main is broken): 2 failures in unit tests (1), unit tests (2)" in html
    assert "<code>test_one</code> fails on main, too." in html
    assert '<a href="https://ci.example/1" rel="noreferrer nofollow">look</a>' in html
    assert "What would settle it: A run of <code>test_one</code> on the base." in html
    assert "&lt;b&gt;3&lt;/b&gt;" in html
    assert "javascript:" not in html
    assert "tests/test_a.py::test_two" in html


def test_each_experiment_is_drawn_with_blocks_and_interval(client: TestClient, session: Session) -> None:
    session.add(run(1))
    session.commit()
    html = story(client)
    assert html.count('<svg class="chart"') == 2
    assert "between +7.10 and +12.40 %; the margin is 3.0 %" in html
    assert html.count('class="arm0"') >= 20
    assert "block 10" in html
    entry = client.get("/pr/acme/engine/1.json").json()["story"][0]
    case = entry["run"]["cases"][0]
    assert (case["change_pct"], case["low_pct"], case["high_pct"], len(case["runs"])) == (9.7, 7.1, 12.4, 40)


def test_only_the_newest_results_are_told_whole(client: TestClient, session: Session) -> None:
    session.add_all([run(number) for number in range(9)])
    session.commit()
    told = client.get("/pr/acme/engine/1.json").json()["story"]
    assert [bool(entry["run"]["cases"]) for entry in told].count(True) == 5
    assert story(client).count("This run alone") == 9


def test_a_result_that_is_none_breaks_nothing(client: TestClient, session: Session) -> None:
    odd = {"results": [{"case": 7}, "x", None, case_result(3)]}
    session.add(run(1, result=odd, spec={"cases": ["by name", {}]}, progress={"blocks_done": "many"}))
    session.add(run(2, state=RunState.RUNNING, progress={"case": "c", "blocks_done": 2, "blocks_max": 10}))
    session.commit()
    html = story(client)
    assert html.count('<section class="case">') == 1
    assert "c: 2 of at most 10 blocks done" in html


def test_a_maintainers_word_is_part_of_it(client: TestClient, session: Session) -> None:
    target = Target(1, "acme/engine", 1, A)
    store.add_override(session, target, SetOverride("unit", "unrelated", "owner-1", "seen on main"), NOW)
    session.commit()
    assert "owner-1 on unit: seen on main" in story(client)


def test_an_older_heads_decision_is_told_as_such(client: TestClient, session: Session) -> None:
    decide(session, 1, "ci", {"overall": "green"})
    look(session, 1, head=B)
    session.commit()
    assert "(not the present head)" in story(client)


def test_only_so_many_decisions_are_told(client: TestClient, session: Session) -> None:
    for n in range(70):
        decide(session, 1, "ask", {"count": n})
    session.commit()
    assert len(client.get("/pr/acme/engine/1.json").json()["story"]) == 60
    assert "Older decisions are kept" in story(client)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain", "plain"),
        ("a `b` c", "a <code>b</code> c"),
        ("`a` `b`", "<code>a</code> <code>b</code>"),
        ("a ` b", "a ` b"),
        ("`a` ` <", "<code>a</code> ` &lt;"),
        ("`<i>`", "<code>&lt;i&gt;</code>"),
        ("", ""),
    ],
)
def test_backticks_are_code_and_all_else_is_text(text: str, html: str) -> None:
    assert str(coded(text)) == html


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "data:text/html,x", "//evil.example", "", None, 7]
)
def test_only_web_addresses_are_links(address: object) -> None:
    assert web_url(address) == ""
    assert web_url("https://ci.example/1") == "https://ci.example/1"
