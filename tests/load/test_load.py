"""The load script itself, for a moment: that what it measures is the service, not a refusal."""

from pathlib import Path

from bot.dispatch import jobs_for
from bot.events import parse
from tests.load.measure import Plan, measure
from tests.load.mix import copies, record


def test_copies_of_the_mix_are_about_pull_requests_of_their_own(tmp_path: Path) -> None:
    import json

    mix = record(tmp_path)
    assert len(mix) >= 190
    assert len({one.event for one in mix}) >= 4
    told = [parse(one.event, json.loads(one.body)) for one in copies(mix, 3)]
    assert len({event.number for event in told if event.number}) == 24
    assert sum(bool(jobs_for(event, ())) for event in told) > len(told) / 2


def test_a_short_load_is_answered_stored_and_drained(tmp_path: Path) -> None:
    deliveries = copies(record(tmp_path), 2)
    row = measure(f"sqlite:///{tmp_path / 'load.db'}", tmp_path, deliveries, Plan(4, 1, 0.5, 200))
    assert row["refused"] == row["refused_of_them"] == row["left"] == 0
    assert row["deliveries"] >= 200
    assert row["service_per_second"] > 0
    assert row["backlog_jobs"] > 0
