"""A verdict whose past lies in the store: within two seconds, and linear in the head's jobs."""

from pathlib import Path

from tests.bot.ci.bench_verdict import measure


def test_a_large_head_with_a_month_in_the_store_costs_two_seconds_and_a_small_one_its_share(
    tmp_path: Path,
) -> None:
    _, small_s, small, _ = measure(tmp_path, jobs=125, red=25, builds=1)
    first_s, large_s, large, _ = measure(tmp_path, jobs=500, red=100, builds=1)
    assert (len(small.failures), len(large.failures)) == (50, 200)
    assert "`prgate backfill" not in " ".join(large.notes)
    assert (
        max(first_s, large_s) <= 2.0 * 1.5
    )  # processor seconds, beside neighbours that fight for the caches
    assert large_s <= 4 * small_s * 1.6
