"""Whom to ask: few, able, free; the same people each time; nobody twice."""

from typing import Any

import pytest

from routing.config import RoutingConfig
from routing.models import Person, PullRequest, Route
from routing.route import route
from tests.routing.world import ownership, page, pull


def routed(
    pr: PullRequest,
    people: dict[str, dict[str, Any]] | None = None,
    known: tuple[str, ...] = (),
    **config: Any,
) -> Route:
    persons = {login: Person(**facts) for login, facts in (people or {}).items()}
    return route(pr, ownership(), persons, RoutingConfig(**config), known)


MODELS = pull("lib/models/a.py")


def test_those_whom_page_and_codeowners_name_come_first_then_those_with_fewer_requests() -> None:
    assert routed(MODELS, {"ann": {"open_requests": 4}, "bob": {"open_requests": 1}}).ask == ("bob",)
    assert routed(MODELS, {"ann": {"open_requests": 1}, "bob": {"open_requests": 4}}).ask == ("ann",)
    busy: dict[str, dict[str, Any]] = {
        "ann": {"busy": True},
        "bob": {"busy": True},
        "cleo": {"open_requests": 2},
        "dan": {"open_requests": 3},
    }
    assert routed(MODELS, busy).ask == ("cleo",)


def test_equal_people_are_drawn_by_the_pull_requests_number() -> None:
    drawn = {number: routed(pull("lib/models/a.py", number=number)).ask for number in range(40)}
    assert {ask[0] for ask in drawn.values()} == {"ann", "bob"}
    assert drawn == {number: routed(pull("lib/models/a.py", number=number)).ask for number in range(40)}


@pytest.mark.parametrize(
    "facts",
    [{"can_review": False}, {"busy": True}, {"bot": True}, {"open_requests": 9}],
    ids=lambda facts: next(iter(facts)),
)
def test_people_who_cannot_or_should_not_are_left_out(facts: dict[str, Any]) -> None:
    found = routed(pull("lib/errors/a.py"), {"ERIK": facts}, max_open_requests=9)
    assert found.ask == ()
    assert found.not_asked_because is not None
    assert "busy" not in found.not_asked_because, "an absence is nobody's business"


def test_the_author_is_never_asked_whatever_the_spelling() -> None:
    found = routed(pull("lib/errors/a.py", author="Erik"))
    assert (found.ask, found.not_asked_because) == ((), "no owner can review it but the author")


def test_robots_are_never_asked_even_with_a_plain_account() -> None:
    assert routed(pull("lib/errors/a.py"), bots=("@erik",)).ask == ()


def test_who_passed_or_wants_no_requests_is_passed_over() -> None:
    found = routed(pull("lib/offload/a.py", passed_over=("olga",)))
    assert (found.ask, found.next_in_line) == (("pete",), ())
    assert routed(pull("lib/offload/a.py"), never_ask=("pete",)).ask == ("olga",)


def test_an_address_cannot_be_asked_and_a_team_can() -> None:
    text = page('"@ann"', '"elsewhere/**"')
    owned = ownership("/pkg/ lead@example.org @org/team\n", other=text)
    assert route(pull("pkg/a.py"), owned, {}, RoutingConfig()).ask == ("org/team",)


def test_one_owner_for_each_of_two_modules_and_no_third() -> None:
    found = routed(pull("lib/models/a.py", "lib/offload/a.py", "lib/errors/a.py"))
    assert len(found.modules) == 3
    assert len(found.ask) == 2
    assert {"erik"}.isdisjoint(found.ask) or len(set(found.ask)) == 2
    assert set(found.ask).isdisjoint(found.next_in_line)


def test_one_person_who_owns_both_modules_is_enough() -> None:
    found = routed(pull(("lib/models/a.py", 90), ("lib/sched/a.py", 50)), {"bob": {"open_requests": 5}})
    assert found.ask[0] == "ann"
    assert "sue" not in found.ask


def test_a_required_reviewer_is_asked_beside_the_owners() -> None:
    found = routed(pull("lib/runtime/a.py"))
    assert len(found.ask) == 2
    assert found.ask[0] in {"rosa", "sam"}
    assert found.ask[1] in {"rita", "ron"}
    three = routed(pull("lib/runtime/a.py", "lib/models/a.py"))
    assert len(three.ask) == 3
    reviewed = routed(pull("lib/runtime/a.py", already_reviewed=["Rita"]))
    assert reviewed.ask in {("rosa",), ("sam",)}


def test_people_already_asked_count_and_are_not_asked_again() -> None:
    found = routed(pull("lib/models/a.py", already_requested=["@Ann"]))
    assert (found.ask, found.counted) == ((), ("Ann",))
    assert found.not_asked_because == "already asked or reviewing: Ann"
    full = routed(pull("lib/models/a.py", "lib/offload/a.py", already_requested=["x", "y"]))
    assert full.ask == ()
    half = routed(
        pull("lib/models/a.py", "lib/offload/a.py", already_reviewed=["ann", "helper[bot]", "author"])
    )
    assert len(half.ask) == 1
    assert half.ask[0] in {"olga", "pete"}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"draft": True}, "draft"),
        ({"commits": 101}, "101 commits"),
        ({"mergeable": False}, "conflicts"),
        ({"base": "old"}, "base branch is old, not main"),
        ({"approved_by": ["ann"]}, "approved by ann"),
    ],
)
def test_some_pull_requests_ask_nobody_and_say_why(fields: dict[str, Any], says: str) -> None:
    found = routed(pull("lib/models/a.py", **fields), base_branches=("main",))
    assert found.ask == ()
    assert found.not_asked_because is not None
    assert says in found.not_asked_because
    assert len(found.owners) == 4, "the owners are named all the same"


def test_a_base_branch_that_is_expected_and_an_unknown_mergeability_ask() -> None:
    assert routed(pull("lib/models/a.py", base="main", mergeable=None), base_branches=("main",)).ask


def test_too_many_candidates_ask_nobody() -> None:
    many = ", ".join(f'"@p{number}"' for number in range(16))
    owned = ownership(None, many=page(many, '"pkg/**"'))
    found = route(pull("pkg/a.py"), owned, {}, RoutingConfig())
    assert (found.ask, len(found.owners)) == ((), 16)
    assert found.not_asked_because == "it touches code of 16 people, more than 15 at once"
    fifteen = route(pull("pkg/a.py", author="p3"), owned, {}, RoutingConfig())
    assert len(fifteen.ask) == 1


def test_a_second_look_asks_for_new_modules_only() -> None:
    first = routed(pull("lib/models/a.py"))
    again = routed(pull("lib/models/a.py", "lib/models/b.py"), known=first.groups)
    assert again.ask == ()
    assert again.not_asked_because == "no module is new since owners were asked"
    grown = routed(
        pull("lib/models/a.py", "lib/offload/a.py", already_requested=first.ask), known=first.groups
    )
    assert len(grown.ask) == 1
    assert grown.ask[0] in {"olga", "pete"}


def test_the_next_in_line_are_ready_for_when_somebody_passes() -> None:
    found = routed(MODELS)
    assert set(found.ask) | set(found.next_in_line) == {"ann", "bob", "cleo", "dan"}
    passed = routed(pull("lib/models/a.py", passed_over=found.ask))
    assert passed.ask == found.next_in_line[:1]


def test_asking_can_be_switched_off() -> None:
    found = routed(pull("lib/runtime/a.py"), ask=0)
    assert (found.ask, found.not_asked_because) == ((), "asking is switched off")
