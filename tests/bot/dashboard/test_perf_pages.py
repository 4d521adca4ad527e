"""Series with change points, alarms and baselines; two commits side by side; runs and kernels."""

import json
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine
from starlette.testclient import TestClient

from bot.dashboard import charts
from bot.dashboard.experiments import CaseView
from bot.dashboard.views import Badge
from bot.db.engine import Sessions
from bot.db.models import Repository
from bot.db.nightly import Baseline
from bot.nightly import store as nights
from perf_runner.history.measurements import Measurement
from tests.bot.dashboard.filling import REPO, night_sha

NOW = datetime(2026, 9, 25, 3, tzinfo=UTC)
FIRST = date(2026, 8, 1)
DOCS = Path(__file__).parents[3] / "deploy" / "docs" / "results" / "kernels"


def measured(night: int, value: float, **changes: object) -> Measurement:
    values: dict[str, object] = {
        "test": "test_image",
        "config": "512x512",
        "metric": "latency_mean",
        "night": FIRST + timedelta(days=night),
        "value": value,
        "way": "lower",
        "source": f"result:{night}",
        "sha": f"{night:040x}",
        "hardware": "H100",
        "unit": "s",
        "n": 10,
        "machine": "1x-h100",
    }
    return Measurement(**{**values, **changes})  # type: ignore[arg-type]


def step(night: int) -> float:
    """Return a value of 50 nights that are 20 % slower from the 30th on."""
    return (2.4 if night >= 30 else 2.0) * (1 + 0.002 * (-1) ** night)


def keep(sessions: Sessions, *found: Measurement) -> None:
    with sessions.begin() as session:
        nights.keep(session, 1, found, NOW)


@pytest.fixture
def stepped(sessions: Sessions, client: TestClient) -> TestClient:
    with sessions.begin() as session:
        session.add(Repository(id=1, full_name="acme/engine"))
    keep(sessions, *(measured(night, step(night)) for night in range(50)))
    rate = {"metric": "throughput_qps", "way": "higher", "unit": "req/s"}
    keep(sessions, *(measured(night, 1 / step(night), **rate) for night in range(50)))
    return client


def test_the_list_holds_each_series_newest_night_against_its_baseline(stepped: TestClient) -> None:
    rows = {item["metric"]: item for item in stepped.get("/perf.json").json()["items"]}
    latency = rows["latency_mean"]
    assert latency["last_night"] == "2026-09-19"
    assert latency["baseline"] == pytest.approx(2.0, rel=0.01)
    assert latency["change"]["tone"] == "bad"
    assert latency["change_pct"] == pytest.approx(-20, abs=1)
    assert latency["alarm_night"] == "2026-09-01"
    assert rows["throughput_qps"]["baseline"] is None
    assert (
        stepped.get("/perf.json?metric=throughput_qps").json()["items"][0]["id"]
        == rows["throughput_qps"]["id"]
    )
    assert stepped.get("/perf.json?text=TEST_image&hardware=H100").json()["items"] != []
    assert stepped.get("/perf.json?hardware=H200").json()["items"] == []


def test_a_series_shows_its_change_point_alarm_and_baseline_with_origin(stepped: TestClient) -> None:
    page = stepped.get("/perf/series/1.json").json()
    assert [one["night"] for one in page["points"]] == ["2026-08-31"]
    assert page["points"][0]["change_pct"] == pytest.approx(20, abs=1)
    assert [one["worse"] for one in page["alarms"]] == [True]
    assert [(one["n"], one["origin"]) for one in page["baselines"]] == [(7, "median of the window's nights")]
    html = stepped.get("/perf/series/1").text
    assert 'class="point"' in html
    assert 'class="alarm"' in html
    assert "2026-08-31: 2" in html
    assert "of 7 values" in html


def test_the_plots_data_is_what_uplot_takes_and_the_picture_needs_no_script(stepped: TestClient) -> None:
    html = stepped.get("/perf/series/1").text
    found = re.search(r'data-plot="([^"]+)"', html)
    assert found
    plot = json.loads(found[1].replace("&#34;", '"'))
    times, values, baselines = plot["data"]
    assert len(times) == len(values) == len(baselines) == 50
    assert datetime.fromtimestamp(times[0], UTC).date() == FIRST
    assert [n for n, base in enumerate(baselines) if base is None] == list(range(7))
    assert plot["points"] == [30]
    assert '<polyline points="' in html.partition("<figure")[2].partition("</figure>")[0]


def test_a_night_that_was_measured_twice_counts_by_its_median(
    stepped: TestClient, sessions: Sessions
) -> None:
    keep(sessions, measured(49, 9.0, source="run:again"), measured(49, 2.5, source="run:once-more"))
    html = stepped.get("/perf/series/1").text
    plot = json.loads(re.search(r'data-plot="([^"]+)"', html)[1].replace("&#34;", '"'))  # type: ignore[index]
    assert plot["data"][1][-1] == 2.5
    assert len(stepped.get("/perf/series/1.json").json()["items"]) == 52


def test_a_new_baseline_is_drawn_from_its_night_on(stepped: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        session.add(
            Baseline(series_id=1, since=date(2026, 9, 10), repo_id=1, value=2.4, origin="set by a maintainer")
        )
    page = stepped.get("/perf/series/1.json").json()
    assert page["baselines"][0]["origin"] == "set by a maintainer"
    assert page["series"]["change"]["tone"] != "bad"


def test_two_commits_are_compared_the_worst_first_whatever_direction_is_better(stepped: TestClient) -> None:
    base, head = f"{29:040x}", f"{31:040x}"
    page = stepped.get(f"/perf/compare.json?repo=acme/engine&base={base}&head={head}").json()
    assert {row["metric"] for row in page["items"]} == {"latency_mean", "throughput_qps"}
    for row in page["items"]:
        assert row["change_pct"] == pytest.approx(-16.7, abs=0.5)
        assert row["change"]["tone"] == "bad"
        assert not row["other_host"]
    back = stepped.get(f"/perf/compare.json?base={head}&head={base}").json()
    assert all(row["change_pct"] == pytest.approx(20, abs=0.5) for row in back["items"])


def test_another_host_is_said(stepped: TestClient, sessions: Sessions) -> None:
    keep(sessions, measured(50, 2.0, machine="1x-h200"))
    page = stepped.get(f"/perf/compare.json?base={29:040x}&head={50:040x}").json()
    assert [row["other_host"] for row in page["items"]] == [True]


@pytest.mark.parametrize(
    "query",
    ["", "base=abcd", "base=xyz1&head=abcd", "base=ab&head=cd", "base=%27&head=abcd", "repo=no/where"],
)
def test_without_two_commits_the_newest_are_offered(stepped: TestClient, query: str) -> None:
    page = stepped.get(f"/perf/compare.json?{query}").json()
    assert page["items"] == []
    assert page["asked"] is False
    assert len(page["commits"]) == (0 if "repo" in query else 14)


def test_the_comparisons_pages_hold_each_series_once(filled: TestClient) -> None:
    query = f"repo={REPO}&base={night_sha(3)[:12]}&head={night_sha(60)[:12]}"
    whole = filled.get(f"/perf/compare.json?{query}").json()["items"]
    token, paged = "", []
    for _ in range(9):
        page = filled.get(f"/perf/compare.json?{query}&limit=1&after={token}").json()
        paged += page["items"]
        token = page["next"]
        if not token:
            break
    assert paged == whole
    assert len(whole) == 4
    changes = [row["change_pct"] for row in whole]
    assert changes == sorted(changes)


def test_a_run_stands_alone_with_its_machine(filled: TestClient) -> None:
    page = filled.get("/perf/run/run-20.json").json()
    assert page["run"]["cases"][0]["badge"]["text"] == "regression (+9.7 %)"
    assert {fact["name"] for fact in page["machine"]} >= {"GPU", "CPU", "driver", "software"}
    html = filled.get("/perf/run/run-20").text
    assert "1 x NVIDIA H200" in html
    assert filled.get("/perf/run/run-1").text.count("No result is there") == 1


def test_the_kernels_are_those_of_the_measured_table(filled: TestClient) -> None:
    table = json.loads((DOCS / "operators.json").read_text("utf-8"))
    page = filled.get("/perf/kernels.json").json()
    assert sum(len(one["rows"]) for one in page["items"]) == len(table["rows"])
    crossover = {(one["operator"], one["batch"]): one["crossover"] for one in page["items"]}
    assert crossover["qk_norm_rope", 1] == 0
    assert crossover["swiglu", 1] == 512
    html = filled.get("/perf/kernels").text
    assert table["environment"]["hardware"] in html
    assert "<strong>512 tokens</strong>" in html


def test_the_table_that_ships_is_the_documented_one() -> None:
    shipped = Path(__file__).parents[3] / "kernels" / "prgate_kernels" / "measured" / "operators.json"
    assert shipped.read_bytes() == (DOCS / "operators.json").read_bytes()


def case(**changes: object) -> CaseView:
    values: dict[str, object] = {"name": "c", "badge": Badge(text="x"), "decision": None, "why": ""}
    return CaseView.model_validate({**values, **changes})


def test_pictures_of_nothing_are_empty_and_hostile_names_are_text() -> None:
    assert charts.runs(case()) == charts.interval(case()) == charts.curves("x", {}, "") == ""
    runs = [{"block": 0, "arm": "<script>", "seconds": 1.0, "remark": '"><script>'}]
    for picture in (
        charts.runs(case(name='"<script>', runs=runs)),
        charts.nights('"<script>', [1.0], {}, None),
    ):
        assert "<script>" not in picture


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (1.95, 2.31), (-83.8, 41.0), (1e-9, 2e-9), (999, 1e6)])
def test_an_axis_has_a_handful_of_round_values(low: float, high: float) -> None:
    values = charts.round_values(low, high)
    assert 2 <= len(values) <= 7
    assert all(low <= value <= high * (1 + 1e-9) for value in values)


def test_equal_values_have_an_axis_too(engine: Engine) -> None:
    assert charts.nights("flat", [2.0, 2.0], {}, None).count("<line") >= 3
    assert charts.nights("zero", [0.0], {}, 0.0).count("<line") >= 3
