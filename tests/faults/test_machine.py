"""A few runs of the state machine; `make faults` plays five hundred."""

from tests.faults.machine import play_runs


def test_no_order_of_events_outages_and_kills_loses_or_doubles_anything() -> None:
    assert play_runs(4)["runs"] >= 4
