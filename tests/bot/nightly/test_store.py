"""Nights that were imported are kept once; baselines are examined; nights are read by their indices."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select

from bot.db.engine import Sessions, open_engine, open_sessions
from bot.db.migrate import upgrade
from bot.db.models import Job, Repository, Run
from bot.db.nightly import Alarm, Baseline, Nightly, NightlySeries
from bot.nightly.baselines import examine_all, take_proposals
from bot.nightly.noise import priors_for
from bot.nightly.store import STEP, keep, parts, values_of
from bot.runs import spec_of
from bot.settings import load_settings
from perf_runner.history.measurements import Measurement, read_measurements

NOW = datetime(2026, 9, 30, tzinfo=UTC)
FIRST = date(2026, 6, 1)
TABLE = """| Test | Config | Metric | Latest | Baseline | vs Baseline | Age | Date | GPU |
|---|---|---|---|---|---|---|---|---|
| test_image | bench=512x512, c=1, n=10 | e2e_latency_ms | 2500 | 2000 | -25% | 3 days | 2026-09-18 | H100 |
"""


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    engine = open_engine(f"sqlite:///{tmp_path / 'prgate.db'}")
    upgrade(engine)
    made = open_sessions(engine)
    with made.begin() as session:
        session.add(Repository(id=7, full_name="acme/engine", default_branch="main", private=False))
    yield made
    engine.dispose()


def record(value: float, **more: object) -> str:
    """Return a result file of one record."""
    result = {"completed_requests": 10, "failed_requests": 0, "latency_mean": value, "latency_p50": value,
              "throughput_qps": 1 / (value or 1.0)}  # fmt: skip
    whole = {
        "test_name": "test_image",
        "benchmark_params": {"name": "512x512", "num-prompts": 10, "max-concurrency": 1},
        "server_params": {"model": "acme/image"},
        "timestamp": "20260918-023000",
        "Hardware": "H100",
        "commit_sha": "a" * 40,
        "baseline": {"H100": {"latency_mean": 2.0}},
        "result": result,
    }
    return json.dumps([{**whole, **more}])


def measurement(day: int, value: float, config: str = "case", **more: object) -> Measurement:
    night = FIRST + timedelta(days=day)
    return Measurement("t", config, "latency_median", night, value, "lower", f"result:{day}", **more)


def test_a_result_file_keeps_speed_memory_and_what_explains_them() -> None:
    telemetry = [{"sm_ratio_busy_min": 0.98, "util_pct_busy_mean": 60.0, "throttle_reasons": ["none"]}]
    found, left_out = read_measurements(record(2.5, gpu_telemetry=telemetry), "r.json")
    by_metric = {one.metric: one for one in found}
    assert left_out == []
    assert set(by_metric) == {
        "latency_mean",
        "latency_median",
        "throughput_qps",
        "gpu.clock_ratio",
        "gpu.busy_pct",
    }
    mean = by_metric["latency_mean"]
    assert (mean.baseline, mean.n, mean.unit, mean.source) == (2.0, 10, "s", "result:20260918-023000")
    assert (mean.night, mean.model) == (date(2026, 9, 18), "acme/image")


def test_a_table_and_its_result_file_are_one_series_and_the_file_counts(sessions: Sessions) -> None:
    from_file, _ = read_measurements(record(2.6), "r.json")
    from_table, _ = read_measurements(TABLE, "issue", issue="41")
    with sessions.begin() as session:
        assert keep(session, 7, from_table, NOW) == 1
        assert keep(session, 7, from_file, NOW) == 3
        assert keep(session, 7, [*from_file, *from_table], NOW) == 0
        row = session.scalars(select(NightlySeries).where(NightlySeries.metric == "latency_mean")).one()
        (value,) = values_of(session, [row.id], FIRST)[row.id]
        sources = set(session.scalars(select(Nightly.source).where(Nightly.series_id == row.id)))
    assert sources == {"issue:41", "result:20260918-023000"}
    assert (value.value, value.source) == (2.6, "result:20260918-023000")


def test_each_change_of_a_baseline_is_kept_with_its_origin(sessions: Sessions) -> None:
    told = [measurement(n, 2.0, baseline=3.5 if n < 4 else 2.4) for n in range(8)]
    with sessions.begin() as session:
        keep(session, 7, told[::-1], NOW)
        keep(session, 7, told, NOW)
        rows = session.scalars(select(Baseline).order_by(Baseline.since)).all()
        assert [(row.since, row.value) for row in rows] == [
            (FIRST, 3.5),
            (FIRST + timedelta(days=4), 2.4),
        ]
    assert "result:4" in rows[1].origin


def test_alarms_are_stored_when_raised_and_stay_when_the_nights_go_back(sessions: Sessions) -> None:
    quiet = [2.0 + 0.01 * (n % 3) for n in range(20)]
    with sessions.begin() as session:
        keep(session, 7, [measurement(n, value) for n, value in enumerate([*quiet, 2.6, 2.6])], NOW)
        first = [(row.night, row.raised_at) for row in session.scalars(select(Alarm))]
        later = [measurement(22 + n, value) for n, value in enumerate(quiet)]
        keep(session, 7, later, NOW + timedelta(days=20))
        worse = session.scalars(select(Alarm).where(Alarm.worse.is_(True))).all()
    assert [night for night, _ in first] == [FIRST + timedelta(days=21)]
    assert [(row.night, row.raised_at) for row in worse] == first


def test_a_baseline_never_met_is_flagged_and_a_refresh_says_what_it_hides(sessions: Sessions) -> None:
    told = [measurement(n, 2.53 + 0.01 * (n % 3), baseline=2.4065) for n in range(10)]
    told += [measurement(n, 1.5 + 0.01 * (n % 2), "faster", baseline=2.0) for n in range(10)]
    with sessions.begin() as session:
        keep(session, 7, told, NOW)
        slow, fast = examine_all(session, 7)
        assert slow.series.config == "case"
        assert [one.kind for one in slow.findings] == ["never_met"]
        assert slow.refresh is not None
        assert "would become the new normal" in slow.refresh.hides[0]
        assert fast.findings == ()
        assert take_proposals(session, [slow, fast], FIRST + timedelta(days=10)) == 1
        taken = session.scalars(select(Baseline).order_by(Baseline.since.desc()).limit(1)).one()
    assert (taken.series_id, taken.n, taken.since) == (fast.series.id, 7, FIRST + timedelta(days=11))


def test_nights_are_read_by_their_indices(sessions: Sessions) -> None:
    with sessions.begin() as session:
        connection = session.connection()
        ask = "EXPLAIN QUERY PLAN SELECT * FROM nightly WHERE"
        plan = connection.exec_driver_sql(
            f"{ask} series_id = 5 AND night >= '2026-01-01' ORDER BY night"
        ).all()
        newest = connection.exec_driver_sql(f"{ask} repo_id = 7 AND night > '2026-09-01'").all()
    assert "SEARCH" in plan[0][3]
    assert "B-TREE" not in " ".join(row[3] for row in plan)
    assert "ix_nightly_repo_id_night" in newest[0][3]


def test_the_commands_import_once_and_refuse_in_one_line(sessions: Sessions, tmp_path: Path) -> None:
    files = {"r.json": record(2.5), "zeros.json": record(0.0), "t.md": TABLE}
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    def prgate(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "import bot.cli; bot.cli.main()", *arguments]
        environment = {"PRGATE_DATA_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
        root = str(Path(__file__).parents[3])
        return subprocess.run(
            command,
            cwd=tmp_path,
            env={**environment, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            check=False,
        )

    good = prgate("import-nights", "r.json", "t.md", "--issue", "41", "--repo", "Acme/Engine", "--json")
    assert (good.returncode, json.loads(good.stdout)["new"]) == (0, 4)
    with sessions() as session:
        assert session.scalar(select(func.count()).where(Job.verb == "nightly")) == 1
    zeros = prgate("import-nights", "zeros.json", "--repo", "acme/engine")
    unknown = prgate("import-nights", "r.json", "--repo", "acme/other")
    for refused in (zeros, unknown):
        assert (refused.returncode, refused.stdout) == (2, "")
        assert len(refused.stderr.strip().splitlines()) == 1
    assert "does not know" in unknown.stderr
    listed = prgate("baselines", "--repo", "acme/engine", "--json")
    assert listed.returncode in (0, 1)
    assert json.loads(listed.stdout)["baselines"][0]["baseline"]["value"] == 2.0


def test_statements_take_each_row_once() -> None:
    taken = list(parts(range(2 * STEP + 1)))
    assert [len(part) for part in taken] == [STEP, STEP, 1]
    assert [one for part in taken for one in part] == list(range(2 * STEP + 1))


def test_nights_give_the_noise_of_their_own_hosts_to_later_experiments(sessions: Sessions) -> None:
    case = {"name": "case", "command": ["python", "bench.py"]}
    told = [
        Measurement(
            "", "case", "aa_block_sd", FIRST + timedelta(days=n), sd, "lower", f"run:{n}", n=blocks,
            machine=host,
        )
        for n, (sd, blocks, host) in enumerate(
            [(0.010, 4, "host-a"), (0.014, 4, "host-a"), (0.012, 4, "host-a"), (0.1, 20, "host-b")]
        )
    ]  # fmt: skip
    arms = [{"name": "base", "sha": "a" * 40}, {"name": "head", "sha": "b" * 40}]
    with sessions.begin() as session:
        keep(session, 7, told[:2], NOW)
        assert priors_for(session, 7, [case], "host-a") == {}
        keep(session, 7, told, NOW)
        run = Run(
            id="r", repo_id=7, number=1, head_sha="b" * 40, base_sha="a" * 40, kind="experiment", queue="q",
            spec={"arms": arms, "cases": [case]}, requested_by="owner-01", requested_at=NOW, attempt=1,
            machine={"host_class": "host-a"},
        )  # fmt: skip
        session.add(run)
        spec = spec_of(session, run, load_settings())
    assert spec.priors["case"].sd == pytest.approx((440e-6 / 3) ** 0.5)
    assert spec.priors["case"].df == 12
