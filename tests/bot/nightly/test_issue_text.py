"""What an episode's issue says in each of its states, and that hostile text in it does nothing."""

import re
from dataclasses import replace
from datetime import date, timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from bot.comments import Frame
from bot.db.models import RunState
from bot.db.nightly import Nightly, NightlySeries
from bot.nightly.facts import EpisodeFacts, Experiment, Fix
from bot.nightly.found import Nights, nights_of
from bot.nightly.issue import IssueView, after_comment, body, title
from bot.nightly.source import Between, Commit
from bot.nightly.story import edge
from bot.nightly.view import issue_view
from perf_runner.models import Arm, BenchmarkCase, CaseResult, Decision, Outcome

FIRST = date(2026, 9, 1)
GOOD, BAD, FIXED, CULPRIT = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)
HOSTILE = "](https://evil) | @owner-01 <img src=x> `x` <!-- prgate:ci --> #7"
CODE_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
FRAME = Frame("prgate", BAD, "https://prgate.example/perf/series/1")


def series(number: int, config: str, metric: str, test: str = "test_image", **more: object) -> NightlySeries:
    row = NightlySeries(
        id=number, repo_id=1, test=test, config=config, hardware="H100", metric=metric, model="acme/image",
        unit="s", way="lower", nights=9, last_night=FIRST + timedelta(days=20), last_sha="",
    )  # fmt: skip
    for name, value in more.items():
        setattr(row, name, value)
    return row


def values(number: int, told: list[tuple[str, float]], baseline: float | None = 2.0) -> list[Nightly]:
    return [
        Nightly(
            series_id=number, night=FIRST + timedelta(days=n), sha=sha, source=f"result:{n}", repo_id=1,
            value=value, baseline=baseline, machine="", status="",
        )
        for n, (sha, value) in enumerate(told)
    ]  # fmt: skip


SLOW = [(GOOD, 2.01), (GOOD, 1.99), (GOOD, 2.0), (GOOD, 2.01), (GOOD, 2.0), (BAD, 2.5), (BAD, 2.52)]


def nights(told: list[tuple[str, float]] = SLOW, config: str = "512x512_steps20") -> Nights:
    """Return a case that got slower, a large picture that did not, and the first one's stages."""
    rows = {
        1: series(1, config, "latency_median"),
        2: series(2, "1536x1536_steps35", "latency_median"),
        3: series(3, config, "stage.diffuse"),
        4: series(4, config, "stage.vae.decode"),
    }
    stored = {
        1: values(1, told),
        2: values(2, [(sha, 2.0) for sha, _ in told]),
        3: values(3, [(sha, value * 0.9) for sha, value in told], None),
        4: values(4, [(sha, 0.1) for sha, _ in told], None),
    }
    return nights_of(rows, stored, [])


def facts(found: Nights, **more: object) -> EpisodeFacts:
    family = found.families[0]
    metric = found.judged(family.cases[0])
    commits = (Commit(CULPRIT, "Round more often", "author-01", ("lib/layers/rope.py",)),)
    made = EpisodeFacts(
        key="0123456789abcdef",
        state="open",
        issue=41,
        family=family,
        metric=metric,
        edge=edge(family.cases[0], metric),
        case=BenchmarkCase(name="512x512_steps20"),
        between=Between(7, commits),
        contained={
            (CULPRIT, GOOD): False,
            (CULPRIT, BAD): True,
            (CULPRIT, FIXED): True,
            (FIXED, FIXED): True,
        },
    )
    return replace(made, **more)


def measured(outcome: Outcome, change: float) -> Experiment:
    decision = Decision(
        decision=outcome, why="", change_pct=change, low_pct=change - 1, high_pct=change + 1, margin_pct=2.0,
        alpha=0.03, blocks_used=3, blocks_vetoed=0, runs_used=12, improved=False,
    )  # fmt: skip
    arms = (Arm(name="base", sha=GOOD), Arm(name="head", sha=BAD))
    result = CaseResult(case=BenchmarkCase(name="512x512_steps20"), arms=arms, decision=decision)
    return Experiment("r", RunState.DONE, result, None, "https://prgate.example/perf/run/r")


def view(one: EpisodeFacts, found: Nights) -> IssueView:
    return issue_view(one, found, starts=False)


LATER = [*SLOW, (FIXED, 2.2), (FIXED, 2.2)]
WHOLE = [*SLOW, (FIXED, 2.0), (FIXED, 2.01)]


@pytest.mark.parametrize(
    ("told", "more"),
    [
        pytest.param(
            SLOW, {"between": None, "history_says": "The commits could not be read: no mirror."}, id="new"
        ),
        pytest.param(SLOW, {"experiment": Experiment("r", RunState.RUNNING)}, id="being_measured"),
        pytest.param(SLOW, {"experiment": measured(Outcome.REGRESSION, 20.0)}, id="code"),
        pytest.param(SLOW, {"experiment": measured(Outcome.NO_REGRESSION, 0.1)}, id="host"),
        pytest.param(SLOW, {"experiment": measured(Outcome.INCONCLUSIVE, 1.5)}, id="undecided"),
        pytest.param(
            LATER, {"experiment": measured(Outcome.REGRESSION, 20.0), "fix": Fix(90, FIXED)}, id="partly"
        ),
        pytest.param(WHOLE, {"fix": Fix(90, FIXED)}, id="recovered"),
        pytest.param([*SLOW, (BAD, 2.0), (BAD, 2.0)], {}, id="went_away"),
    ],
)
def test_the_issue_reads_as_agreed(
    told: list[tuple[str, float]], more: dict[str, object], markdown: SnapshotAssertion
) -> None:
    found = nights(told)
    shown = view(facts(found, **more), found)
    assert f"{title(shown)}\n\n{body(shown, FRAME)}" == markdown


def test_the_comment_after_a_fix_reads_as_agreed(markdown: SnapshotAssertion) -> None:
    for name, told in (("partly", LATER), ("recovered", WHOLE), ("too_early", [*SLOW, (FIXED, 2.0)])):
        found = nights(told)
        shown = view(facts(found, fix=Fix(90, FIXED)), found)
        assert after_comment(shown, FRAME) == markdown(name=f"after_{name}")


def test_hostile_names_and_titles_do_nothing() -> None:
    found = nights(config=f"512x512 {HOSTILE}")
    commits = (Commit(CULPRIT, HOSTILE, HOSTILE, (HOSTILE, "a|b")),)
    one = facts(found, between=Between(1, commits), history_says=HOSTILE)
    one = replace(one, experiment=Experiment("r", RunState.FAILED, None, HOSTILE))
    text = body(view(one, found), FRAME)
    outside_code = CODE_SPAN.sub("", text)
    assert "evil" in text
    assert "@owner" not in outside_code
    assert "<img" not in outside_code.replace("\\<", "")
    assert "](https://evil" not in outside_code
    assert outside_code.count("<!--") == 1
    assert " #7" not in outside_code
    assert all(line.count("|") in (6, 8) for line in text.split("\n") if line.startswith("|"))


def test_a_thousand_cases_stay_within_what_github_takes() -> None:
    rows = {n: series(n, f"case-{n} " + "x" * 200, "latency_median") for n in range(1, 1001)}
    stored = {n: values(n, SLOW) for n in rows}
    found = nights_of(rows, stored, [])
    shown = view(facts(found), found)
    assert len(body(shown, FRAME)) < 65_536
    assert len(title(shown)) <= 200
