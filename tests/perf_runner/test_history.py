"""Nightly rows become episodes; series give alarms in time; baselines and stalls are told apart from code."""

import json
import random
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf_runner.gate import GateSettings, replay
from perf_runner.history.baselines import Baseline, examine, propose
from perf_runner.history.changes import alarms, points, stalls
from perf_runner.history.episodes import Episode, episodes
from perf_runner.history.metrics import direction, improvement_pct
from perf_runner.history.recovery import after_fix, split_gap
from perf_runner.history.results import rows_of_results
from perf_runner.history.rows import parse_rows
from perf_runner.history.series import Series, parse_table, request_summaries
from perf_runner.history.signs import (
    GpuTelemetry,
    Night,
    bound_by,
    is_host_bound,
    is_stall,
    lost_batching,
    moved_stage,
)
from perf_runner.history.tips import Edge, Tip, edge_of, place_suspects
from perf_runner.reading import InputError

PRGATE = [sys.executable, "-c", "import bot.cli; bot.cli.main()"]
HEAD = "date,hardware,test,config,metric,latest,baseline,vs_baseline_pct,days_failing\n"
ONE_STREAM = '"bench=512x512_steps20, data=random, c=1, n=10"'


def found(text: str) -> list[Episode]:
    """Return the episodes of a text whose rows can all be used."""
    rows, left_out = parse_rows(text, "rows")
    assert left_out == []
    return episodes(rows)


def nights(values: list[float], metric: str = "latency_p50_ms", start: date = date(2026, 4, 1)) -> Series:
    """Return a series of consecutive nights."""
    return Series(metric, tuple(start + timedelta(days=n) for n in range(len(values))), tuple(values))


def test_latency_and_throughput_of_one_stream_are_one_measurement() -> None:
    text = HEAD + f"2026-09-18,H100,t,{ONE_STREAM},e2e_latency_ms,3080.9,2406.5,-28.02,3 days\n"
    text += f"2026-09-18,H100,t,{ONE_STREAM},throughput_qps,0.3246,0.4153,-21.84,3 days\n"
    (one,) = found(text)
    assert one.one_measurement
    assert one.rows == 2
    assert one.worst_pct == pytest.approx(-28.02, abs=0.01)
    assert one.days_failing == 3
    assert one.next_step == "A/B of last good and flagged commit on one host"


def test_two_metrics_of_many_streams_are_two() -> None:
    many = ONE_STREAM.replace("c=1", "c=8")
    text = HEAD + f"2026-09-18,H100,t,{many},e2e_latency_ms,16309,9656,-68.9,1\n"
    text += f"2026-09-18,H100,t,{many},throughput_qps,0.4799,0.8159,-41.19,1\n"
    (one,) = found(text)
    assert not one.one_measurement


def test_exchanged_heads_are_put_right_by_the_percentage() -> None:
    text = (
        "| Test | Config | Metric | Baseline | Current | vs Baseline | Age |\n|---|---|---|---|---|---|---|\n"
    )
    text += "| t | c=1 | e2e_latency_ms | 3080.8516 | 2406.5 | −28.02% | 3 days+ |\n"
    rows, _ = parse_rows(text, "issue")
    assert rows[0].heads_swapped
    assert (rows[0].latest, rows[0].baseline) == (3080.8516, 2406.5)
    assert rows[0].agrees
    (one,) = episodes(rows)
    assert any("exchanged" in note for note in one.notes)


@pytest.mark.parametrize("latest", ["latest", "Current", "Current Value", "`Current`"])
@pytest.mark.parametrize("days", ["Days failing", "Trend", "Trigger", "Age", "Duration", "Consecutive runs"])
def test_every_header_dialect_reads_the_same(latest: str, days: str) -> None:
    text = f"Some words.\n\n| Test name | Metric | {latest} | Baseline | {days} |\n| - | - | - | - | - |\n"
    text += "| t | latency_mean | 2.37 | 2.137 | 5 days |\n\nMore words | with a bar.\n"
    (row,), left_out = parse_rows(text, "issue")
    assert left_out == []
    assert (row.latest, row.baseline, row.published_days) == (2.37, 2.137, 5)
    assert row.improvement_pct == pytest.approx(-10.9, abs=0.01)


def test_percentages_agree_up_to_the_rounding_of_what_was_printed() -> None:
    text = HEAD + "2026-08-03,H100,t,c=1,throughput_qps,0.0101,0.0124,-18.75,\n"
    text += "2026-08-03,H100,t,c=1,e2e_latency_ms,99258.353,80778.4,-22.88,\n"
    text += "2026-08-03,H100,t,c=1,e2e_latency_ms,99258.353,80778.4,-25.00,\n"
    rows, _ = parse_rows(text, "rows")
    assert [row.agrees for row in rows] == [True, True, False]


def test_a_missing_night_breaks_the_streak() -> None:
    def row(day: int, latest: float) -> str:
        return f"2026-09-{day:02d},H100,t,c=1,latency_mean,{latest},2.0,,\n"

    (gap,) = found(HEAD + row(1, 2.5) + row(2, 2.5) + row(4, 2.5) + row(5, 2.5))
    assert gap.days_failing == 2
    assert found(HEAD + row(1, 2.0) + row(2, 2.11)) == []
    parts = found(HEAD + row(1, 2.5) + row(10, 2.6))
    assert [(one.first_night, one.rows) for one in parts] == [(date(2026, 9, 10), 1), (date(2026, 9, 1), 1)]


def test_lost_batching_is_seen_across_concurrencies() -> None:
    base = "bench=512_steps20{}, data=random, c={}, n=10"
    text = HEAD
    for level, latency, qps in ((1, 2400.0, 0.416), (8, 16309.0, 0.48)):
        tail = "_high_concurrency" if level > 1 else ""
        config = base.format(tail, level)
        text += f'2026-08-21,H100,t{tail},"{config}",e2e_latency_ms,{latency},2300,,\n'
        text += f'2026-08-21,H100,t{tail},"{config}",throughput_qps,{qps},0.9,,\n'
    worst = found(text)[0]
    assert any("one by one" in note for note in worst.notes)
    assert not lost_batching({1: (2.4, 0.41), 8: (9.6, 0.82)})


def test_rows_that_cannot_be_used_are_named() -> None:
    text = HEAD + "2026-09-18,H100,t,c=1,latency_mean,nan,2.0,,\n"
    text += "18.09.2026,H100,t,c=1,latency_mean,2.5,2.0,,\n2026-09-18,H100,t,c=1,colour,2.5,2.0,,\n"
    rows, left_out = parse_rows(text, "rows")
    assert rows == []
    assert [line.split(":")[0] for line in left_out] == ["line 2", "line 3", "line 4"]
    with pytest.raises(InputError, match="no table"):
        parse_rows("a,b\n1,2\n", "rows")


@given(st.text(max_size=300))
def test_no_text_breaks_the_reader_of_rows(text: str) -> None:
    try:
        rows, _ = parse_rows(text, "rows")
    except InputError:
        return
    episodes(rows)


@pytest.mark.parametrize(
    ("metric", "way"),
    [
        ("e2e_latency_ms", "lower"),
        ("throughput_qps", "higher"),
        ("peak_memory_mb_mean", "lower"),
        ("audio_rtf", "lower"),
        ("tokens_tps", "higher"),
        ("colour", None),
    ],
)
def test_the_direction_is_read_from_the_name(metric: str, way: str | None) -> None:
    assert direction(metric) == way


def test_improvement_is_positive_in_either_direction() -> None:
    assert improvement_pct(2.0, 1.0, "lower") == 50.0
    assert improvement_pct(2.0, 3.0, "higher") == 50.0


def test_a_shift_is_alarmed_within_two_nights_and_only_once() -> None:
    chance = random.Random(4)
    usual = [2700 + chance.gauss(0, 60) for _ in range(8)]
    slow = [3500 + chance.gauss(0, 60) for _ in range(6)]
    series = nights([*usual, *slow])
    raised = [alarm for alarm in alarms(series) if alarm.worse]
    assert len(raised) == 1
    assert raised[0].since == series.nights[8]
    assert (raised[0].night - series.nights[8]).days <= 2
    (point,) = points(series)
    assert point.night == series.nights[8]
    assert point.change_pct == pytest.approx(29.6, abs=3)


def test_alarms_use_no_later_night() -> None:
    chance = random.Random(9)
    values = [100 + chance.gauss(0, 2) + (8 if n > 40 else 0) for n in range(60)]
    whole = alarms(nights(values))
    for cut in range(10, 60):
        known = alarms(nights(values[:cut]))
        assert known == [
            alarm for alarm in whole if alarm.night < nights(values).nights[0] + timedelta(days=cut)
        ]


def test_one_bad_night_is_no_alarm_and_no_change_point() -> None:
    chance = random.Random(2)
    values = [100 + chance.gauss(0, 1) for _ in range(40)]
    values[30] = 160.0
    assert [alarm for alarm in alarms(nights(values)) if alarm.worse] == []
    assert points(nights(values)) == []


def test_quiet_series_are_hardly_ever_alarmed_and_small_shifts_found() -> None:
    """40 series: fewer than one false alarm in 100 nights; +5 % on 1 % noise within five nights."""
    chance = random.Random(17)
    false, hits = 0, 0
    for _ in range(40):
        values = [1000 * (1 + chance.gauss(0, 0.01)) for _ in range(60)]
        false += sum(alarm.worse for alarm in alarms(nights(values)))
        shifted = nights([v * (1.05 if n >= 45 else 1) for n, v in enumerate(values)])
        days = [(a.night - shifted.nights[45]).days for a in alarms(shifted) if a.worse]
        hits += any(0 <= day < 5 for day in days)
    assert false / (40 * 53) < 0.01
    assert hits >= 38


def test_a_throughput_that_falls_is_an_alarm_for_the_worse() -> None:
    series = nights([0.4, 0.41, 0.39, 0.4, 0.405, 0.395, 0.4, 0.3, 0.3, 0.3], metric="throughput_qps")
    assert alarms(series)[0].worse


def test_a_constant_series_with_a_step_is_found() -> None:
    series = nights([100.0] * 10 + [106.0] * 6)
    assert [alarm.worse for alarm in alarms(series)] == [True]
    assert [point.change_pct for point in points(series)] == [6.0]


def test_a_night_carried_by_few_requests_is_a_stall_and_a_slow_night_is_none() -> None:
    usual = [Night(2780.0, 2690.0)] * 10
    assert is_stall(Night(2975.0, 2657.0), usual)
    assert not is_stall(Night(3700.0, 3690.0), usual)
    assert not is_stall(Night(3700.0, 3300.0), usual)
    table = "date,latency_mean_ms,latency_p50_ms\n" + "".join(
        f"2026-05-{day:02d},{2780 if day != 15 else 2975},{2690 if day != 15 else 2657}\n"
        for day in range(1, 20)
    )
    (stall,) = stalls(request_summaries(parse_table(table, "s"), "latency_p50_ms"))
    assert stall.night == date(2026, 5, 15)
    assert "stall" in stall.says


def test_a_baseline_that_its_data_never_met_is_flagged() -> None:
    series = nights(
        [2511, 2455, 2381, 2741, 2469, 2442, 2641, 2624, 2463, 2742, 2653], start=date(2026, 6, 1)
    )
    window = (date(2026, 6, 1), date(2026, 6, 8))
    kinds = [f.kind for f in examine(Baseline(2406.5, window=window), series, "lower", date(2026, 6, 9))]
    assert kinds == ["never_met", "tighter_than_its_data"]
    assert examine(Baseline(2700.0, window=window), series, "lower", date(2026, 6, 9)) == []


def test_a_refresh_says_what_it_would_hide() -> None:
    series = nights([100.0, 101.0, 99.0, 120.0, 121.0, 119.0])
    refresh = propose(Baseline(100.0), series, (series.nights[3], series.nights[5]), "lower")
    assert refresh.proposed.value == 120.0
    assert refresh.proposed.n == 3
    assert "20.0 %" in refresh.hides[0]
    with pytest.raises(ValueError, match="three"):
        propose(Baseline(100.0), series, (series.nights[0], series.nights[1]), "lower")


def test_after_a_fix_the_nights_say_recovered_partly_or_not() -> None:
    good, bad = [100.0, 101.0], [120.0, 121.0]
    assert after_fix(good, bad, [101.0, 102.0]).state == "recovered"
    partly = after_fix(good, bad, [110.0, 110.5])
    assert partly.state == "partly"
    assert partly.share == pytest.approx(0.5, abs=0.05)
    assert after_fix(good, bad, [120.0, 119.5]).state == "not"
    assert after_fix(good, bad, [100.0]).state == "too early"


def test_a_gap_is_split_into_code_and_the_rest() -> None:
    blocks = [([1.0, 1.001], [1.109, 1.108])] * 3
    decision = replay(blocks, GateSettings(prior_sd=0.01)).decision
    assert decision is not None
    split = split_gap(2406.5, 3080.9, "lower", decision)
    assert split.gap_pct == pytest.approx(28.0, abs=0.1)
    assert split.explained_pct == pytest.approx(10.9, abs=0.2)
    assert split.rest_pct == pytest.approx(15.5, abs=0.3)


def test_signs_tell_host_from_gpu() -> None:
    assert is_host_bound({512 * 512: 0.12, 1536 * 1536: 0.002})
    assert not is_host_bound({512 * 512: 0.12, 1536 * 1536: 0.11})
    assert bound_by(GpuTelemetry(0.99, 60.0)) == "host"
    assert bound_by(GpuTelemetry(0.99, 97.0)) == "gpu"
    assert bound_by(GpuTelemetry(0.7, 97.0, ("sw_power_cap",))) == "gpu throttled"
    move = moved_stage({"encode": 0.04, "diffuse": 1.940}, {"encode": 0.04, "diffuse": 2.183})
    assert move is not None
    assert (move.stage, round(move.change_s, 3)) == ("diffuse", 0.243)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("a,b\n1,2\n", "date"),
        ("date,x\nyesterday,1\n", "line 2"),
        ("date,x\n2026-01-01,-1\n", "above 0"),
        ("date,x\n2026-01-01,inf\n", "above 0"),
        ("date,x\n2026-01-01,abc\n", "no number"),
        ("date,x\n2026-01-01,1,2\n", "3 cells"),
    ],
)
def test_a_series_that_is_none_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_table(text, "series")


def test_a_result_file_is_read_against_the_baseline_of_its_own_hardware() -> None:
    def record(baseline: object, hardware: str) -> str:
        result = {"completed_requests": 10, "latency_mean": 2.37, "throughput_qps": 0.42}
        params = {"name": "512x512_steps20", "num-prompts": 10, "max-concurrency": 1}
        entry = {
            "test_name": "t",
            "timestamp": "20260918-020000",
            "benchmark_params": params,
            "result": result,
        }
        return json.dumps([entry | {"baseline": baseline, "Hardware": hardware}])

    both = {"H100": {"latency_mean": 2.137, "throughput_qps": 0.468}, "B200": {"latency_mean": 1.0}}
    rows = rows_of_results(record(both, "H100"), "result")
    assert [(row.metric, round(row.improvement_pct, 1)) for row in rows] == [
        ("latency_mean", -10.9),
        ("throughput_qps", -10.3),
    ]
    assert rows[0].night == date(2026, 9, 18)
    (one,) = episodes(rows)
    assert one.one_measurement
    assert rows_of_results(record(both, "A3"), "result") == []
    assert rows_of_results(record(both, ""), "result") == []
    assert len(rows_of_results(record({"latency_mean": 2.137}, "A3"), "result")) == 1


def test_the_edge_of_an_episode_is_what_an_ab_compares() -> None:
    def tip(day: int, failing: bool | None) -> Tip:
        return Tip(date(2026, 9, day), f"c{day}", failing)

    tips = [tip(14, False), tip(15, True), tip(16, None), tip(17, True)]
    edge = edge_of(tips)
    assert edge is not None
    assert edge.good is not None
    assert (edge.good.sha, edge.flagged.sha) == ("c14", "c15")
    assert edge_of([tip(14, True), tip(15, False)]) is None
    assert edge_of([tip(14, True)]) == Edge(None, tip(14, True))
    late, early = place_suspects(
        [tip(14, False), tip(15, True), tip(16, True)],
        ["late", "early"],
        lambda sha, at: sha == "late" and at != "c14",
    )
    assert (late.fits, early.fits) == (True, False)
    assert late.in_nights == (date(2026, 9, 15), date(2026, 9, 16))


def run(command: list[str], text: str) -> tuple[int, str, str]:
    """Run a command of prgate with `text` on its standard input."""
    done = subprocess.run([*PRGATE, *command], input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_nightly_command_prints_its_document_and_finds() -> None:
    text = HEAD + f"2026-09-18,H100,t,{ONE_STREAM},e2e_latency_ms,3080.9,2406.5,-28.02,3 days\n"
    code, out, _ = run(["nightly", "-", "--json"], text)
    document = json.loads(out)
    assert code == 1
    assert document["rows_that_agree"] == document["rows_with_published_pct"] == 1
    assert document["episodes"][0]["config"].startswith("bench=512x512_steps20")
    assert run(["nightly", "-", "--json"], text.replace("3080.9", "2400").replace("-28.02", "0.27"))[0] == 0


def test_the_changes_command_names_the_missing_column(tmp_path: Path) -> None:
    table = "date,latency_mean\n" + "".join(
        f"2026-01-{d:02d},{2.0 if d < 15 else 2.6}\n" for d in range(1, 29)
    )
    code, out, _ = run(["changes", "-", "--metric", "latency_mean", "--json"], table)
    document = json.loads(out)
    assert code == 0
    assert [point["date"] for point in document["points"]] == ["2026-01-15"]
    assert document["alarms"][0]["raised_by"] == "cusum"
    code, out, error = run(["changes", "-", "--metric", "p99", "--json"], table)
    assert (code, out) == (2, "")
    assert "latency_mean" in error


@pytest.mark.parametrize("first_line", ["a" * 200_000, '"' + "a" * 200_000, "a\rb\x00c", "\x85\u2028", '"'])
@pytest.mark.parametrize("command", [["nightly"], ["changes", "--metric", "m"]])
def test_a_first_line_that_is_no_csv_is_refused_in_one_line(command: list[str], first_line: str) -> None:
    code, out, error = run([*command, "-", "--json"], f"{first_line}\n2026-01-01,1\n")
    assert (code, out, len(error.splitlines())) == (2, "", 1), error
    assert error.startswith("prgate: Invalid value: -")
