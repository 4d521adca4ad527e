"""People who say on GitHub that they are busy are passed over; what cannot be read is no absence."""

from typing import Any

from bot.availability import query_for

World = Any


def queries(world: World) -> int:
    """Return how often GraphQL was asked."""
    return sum(one.path.endswith("/graphql") for one in world.github.state.requests)


def test_the_busy_are_passed_over_by_one_query_for_all(world: World) -> None:
    for login in ("owner-01", "owner-03"):
        world.github.state.users[login].busy = True
    world.open()
    assert world.hub.require_pull(1).requested == ["owner-02"]
    world.open("gate", 2)
    assert world.hub.require_pull(2).requested == ["owner-02"]
    assert queries(world) == 1


def test_a_refusal_is_no_absence(world: World) -> None:
    for login in ("owner-01", "owner-02", "owner-03"):
        world.github.state.users[login].busy = True
    world.github.faults.fail("POST", "/graphql", 403, times=9)
    world.open()
    assert len(world.hub.require_pull(1).requested) == 1
    assert world.errors == []


def test_an_account_that_is_not_there_hides_nobody_else(world: World) -> None:
    page = world.hub.git.run("show", "main:docs/design/module/layers.md").replace("@owner-03", "@nobody-99")
    world.hub.commit("main", {"docs/design/module/layers.md": page}, "Another owner", "maintainer-01")
    world.github.state.users["owner-01"].busy = True
    world.open()
    assert world.hub.require_pull(1).requested == ["owner-02"]


def test_names_travel_as_variables_and_never_in_the_text_of_a_query() -> None:
    field = "u{n}: user(login: $l{n}) {{ status {{ indicatesLimitedAvailability }} }}"
    fields = " ".join(field.format(n=n) for n in range(2))
    assert query_for(2) == f"query($l0: String!, $l1: String!) {{ {fields} }}"
