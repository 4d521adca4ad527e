"""GitHub's limits on writes: 80 a minute, 500 an hour, a second apart."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.dispatch import RetryLater
from bot.github import translate, until
from bot.pacing import Limits, Turns, next_turn, taken

START = datetime(2026, 9, 21, 10, 0, tzinfo=UTC)


def play(pauses_s: list[float], limits: Limits) -> list[datetime]:
    """Let a writer ask for a turn after each pause, and write in each; return when."""
    now, turns, times = START, Turns(), []
    for pause_s in pauses_s:
        now += timedelta(seconds=pause_s)
        now = next_turn(turns, now, limits)
        turns = Turns(taken(turns, now, limits))
        times.append(now)
    return times


@settings(deadline=None)
@given(st.lists(st.floats(min_value=0, max_value=90), min_size=1, max_size=700), st.sampled_from([0.0, 1.0]))
def test_no_limit_is_ever_exceeded(pauses_s: list[float], gap_s: float) -> None:
    times = play(pauses_s, Limits(gap_s))
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert all(gap >= gap_s for gap in gaps)
    assert most_within(times, timedelta(minutes=1)) <= 80
    assert most_within(times, timedelta(hours=1)) <= 500


def most_within(times: list[datetime], window: timedelta) -> int:
    return max(sum(start <= time < start + window for time in times) for start in times)


def test_a_burst_waits_for_the_next_minute_and_then_for_the_next_hour() -> None:
    times = play([0.0] * 501, Limits(gap_s=0.0))
    assert times[79] == START
    assert times[80] == START + timedelta(minutes=1)
    assert times[499] < START + timedelta(minutes=8)
    assert times[500] == START + timedelta(hours=1)


def test_a_quiet_hour_with_a_burst_at_its_end_leaves_no_room_for_a_second_burst() -> None:
    times = play([3_500.0, *[1.0] * 998], Limits())
    assert most_within(times, timedelta(hours=1)) == 500


def test_while_github_asks_to_wait_nobody_has_a_turn() -> None:
    later = START + timedelta(minutes=5)
    assert next_turn(Turns((), later), START, Limits()) == later
    assert next_turn(Turns((later,), START), later, Limits()) == later + timedelta(seconds=1)


def test_a_limit_is_told_from_a_refusal() -> None:
    assert isinstance(translate(429, {}, ""), RetryLater)
    assert isinstance(translate(403, {"retry-after": "30"}, ""), RetryLater)
    assert isinstance(translate(403, {"x-ratelimit-remaining": "0"}, ""), RetryLater)
    assert isinstance(translate(403, {}, "You have exceeded a secondary rate limit."), RetryLater)
    assert not isinstance(translate(403, {}, "Resource not accessible by integration"), RetryLater)
    assert not isinstance(translate(404, {}, "Not Found"), RetryLater)


def test_the_wait_is_what_github_asks_for_within_reason() -> None:
    def wait_s(headers: dict[str, str]) -> float:
        return (until(headers) - datetime.now(UTC)).total_seconds()

    assert 29 < wait_s({"retry-after": "30"}) < 32
    assert wait_s({"retry-after": "999999"}) < 3_602
    assert 59 < wait_s({}) < 61
    reset = str(int(datetime.now(UTC).timestamp()) + 600)
    assert 590 < wait_s({"x-ratelimit-reset": reset, "x-ratelimit-remaining": "0"}) < 602
    assert 59 < wait_s({"retry-after": "soon"}) < 61
