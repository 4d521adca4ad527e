"""GitHub's limits on writes: 80 a minute, 500 an hour, a second apart."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.dispatch import RetryLater
from bot.github import translate, until
from bot.pacing import HOUR_LIMIT, MINUTE_LIMIT, fresh, reserve

START = datetime(2026, 9, 21, 10, 0, tzinfo=UTC)


@settings(deadline=None)
@given(st.lists(st.floats(min_value=0, max_value=90), min_size=1, max_size=700), st.sampled_from([0.0, 1.0]))
def test_no_limit_is_ever_exceeded(pauses_s: list[float], gap_s: float) -> None:
    turns, now, times = fresh(START), START, []
    for pause_s in pauses_s:
        now = max(now + timedelta(seconds=pause_s), times[-1] if times else now)
        turns, at = reserve(turns, now, gap_s)
        times.append(at)
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert all(gap >= gap_s for gap in gaps)
    assert most_within(times, timedelta(minutes=1)) <= 2 * MINUTE_LIMIT
    assert most_within(times, timedelta(hours=1)) <= 2 * HOUR_LIMIT


def most_within(times: list[datetime], window: timedelta) -> int:
    return max(sum(start <= time < start + window for time in times) for start in times[:50])


def test_a_burst_waits_for_the_next_minute_and_then_for_the_next_hour() -> None:
    turns, at = fresh(START), START
    times = []
    for _ in range(HOUR_LIMIT + 1):
        turns, at = reserve(turns, at, 0.0)
        times.append(at)
    assert times[MINUTE_LIMIT - 1] == START
    assert times[MINUTE_LIMIT] == START + timedelta(minutes=1)
    assert times[HOUR_LIMIT] == START + timedelta(hours=1)


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
