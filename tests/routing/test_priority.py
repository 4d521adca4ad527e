"""How urgent: deterministic signals, each with its points, and a maintainer's word above them."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from routing.config import PriorityConfig
from routing.models import ChangedFile, Level, LinkedIssue, Module, Priority, PullRequest
from routing.priority import prioritize, priority_label, size_label
from tests.routing.world import pull

NOW = datetime(2026, 9, 21, 12, tzinfo=UTC)
CONFIG = PriorityConfig()


def rated(pr: PullRequest, **facts: Any) -> Priority:
    return prioritize(pr, CONFIG, NOW, **facts)


def change(lines: int = 300, **fields: Any) -> PullRequest:
    return pull(("lib/a.py", lines), **fields)


def signals(found: Priority) -> dict[str, int]:
    return {reason.signal: reason.points for reason in found.reasons}


def issue(*labels: str, number: int = 7780) -> LinkedIssue:
    return LinkedIssue(number=number, labels=labels)


def test_a_plain_change_is_medium_without_reasons() -> None:
    found = rated(change())
    assert (found.level, found.score, found.reasons) == (Level.MEDIUM, 0, ())


def test_a_bugfix_for_a_high_priority_issue_is_high_and_not_critical() -> None:
    pr = change(
        title="[Bugfix] Gate the fused path on short sequences",
        linked_issues=(issue("high priority", "ci-failure"),),
        ci="red",
        created_at=NOW - timedelta(days=40),
    )
    module = Module(page="m.md", weight=1.0, required_reviewers=("rita",))
    found = rated(pr, modules=(module,), perf_regression=True, main_is_red=True)
    assert found.level is Level.HIGH
    assert signals(found)["linked issue #7780 is high priority"] == 30
    assert signals(found)["linked issue #7780 is ci-failure"] == 10
    assert signals(found)["the title says bugfix"] == 10
    assert "only a label makes it critical" in signals(found)
    assert found.score == sum(reason.points for reason in found.reasons) == CONFIG.critical_from - 1


@pytest.mark.parametrize(
    ("labels", "level"),
    [
        (("P0",), Level.CRITICAL),
        (("Critical",), Level.CRITICAL),
        (("priority/critical",), Level.CRITICAL),
        (("high priority",), Level.HIGH),
        (("High-Priority",), Level.HIGH),
        (("priority: high",), Level.HIGH),
        (("p1",), Level.HIGH),
        (("low priority",), Level.LOW),
        (("Priority: Low", "documentation"), Level.LOW),
        (("highly-experimental", "p10", "criticality"), Level.MEDIUM),
    ],
)
def test_labels_of_people_decide(labels: tuple[str, ...], level: Level) -> None:
    assert rated(change(labels=labels)).level is level


def test_labels_that_say_the_same_count_once() -> None:
    assert rated(change(labels=("p1", "high priority"))).score == 30
    assert rated(change(linked_issues=(issue("p1"), issue("High Priority", number=2)))).score == 30


def test_soft_signals_together_stay_below_high() -> None:
    pr = change(
        20,
        title="[Bugfix] fix: a regression",
        ci="green",
        created_at=NOW - timedelta(days=90),
        author_association="FIRST_TIME_CONTRIBUTOR",
    )
    found = rated(pr, modules=(Module(page="m.md", weight=1.0, required_reviewers=("rita",)),))
    assert found.level is Level.MEDIUM
    assert found.score == CONFIG.soft_limit == sum(reason.points for reason in found.reasons)
    assert set(signals(found)) == {
        "the title speaks of a regression or a revert",
        "changes m.md, which names required reviewers",
        "CI is green",
        "the author's first contribution here",
        "small: 20 changed lines",
        "open for 90 days",
        "soft signals count for at most 20",
    }


@pytest.mark.parametrize(
    ("title", "points"),
    [
        ("[Bugfix] x", 10),
        ("[Perf][Bug Fix] x", 10),
        ("fix: x", 10),
        ("Fix(ops): x", 10),
        ("hotfix: x", 10),
        ("Bug-fix x", 10),
        ("Revert “x”", 15),
        ("Mend the nightly regression", 15),
        ("Prefix cache", 0),
        ("Fixture for tests", 0),
        ("Regressive decoding", 0),
        ("[[[[" * 500, 0),
    ],
)
def test_title_prefixes(title: str, points: int) -> None:
    assert rated(change(title=title)).score == points


def test_a_red_main_raises_what_may_mend_it_only() -> None:
    assert (
        signals(rated(change(title="fix: CI"), main_is_red=True))["main is red and this looks like a fix"]
        == 20
    )
    assert rated(change(title="Add a model"), main_is_red=True).reasons == ()
    assert "main is red and this looks like a fix" in signals(
        rated(change(linked_issues=(issue("ci-failure"),)), main_is_red=True)
    )


def test_a_measured_regression_is_high() -> None:
    assert rated(change(), perf_regression=True).level is Level.HIGH


def test_drafts_and_what_waits_for_its_author_are_low_and_do_not_age() -> None:
    old = NOW - timedelta(days=90)
    assert signals(rated(change(draft=True, created_at=old))) == {"it is a draft": -20}
    found = rated(change(waiting_on="author", created_at=old))
    assert (found.level, signals(found)) == (Level.LOW, {"it waits for its author": -10})


def test_age_counts_in_steps_and_any_time_zone_is_understood() -> None:
    assert rated(change(created_at=NOW - timedelta(days=6))).score == 0
    assert rated(change(created_at=NOW - timedelta(days=7))).score == 5
    assert rated(change(created_at=NOW - timedelta(days=30))).score == 10
    naive = (NOW - timedelta(days=7)).replace(tzinfo=None)
    assert rated(change(created_at=naive)).score == 5
    local = (NOW - timedelta(days=7)).astimezone(timezone(timedelta(hours=9)))
    assert rated(change(created_at=local)).score == 5
    assert prioritize(change(created_at=naive), CONFIG, NOW.replace(tzinfo=None)).score == 5
    assert rated(change(created_at=NOW + timedelta(days=3))).score == 0


def test_size_leaves_generated_files_out() -> None:
    files = (
        ChangedFile(path="a.py", additions=30, deletions=10),
        ChangedFile(path="uv.lock", additions=9_000),
    )
    pr = PullRequest(number=1, author="a", changed_files=files)
    assert signals(rated(pr)) == {"small: 40 changed lines": 5}
    assert signals(rated(change(1_000))) == {"large: 1000 changed lines": -5}


@pytest.mark.parametrize(
    ("lines", "label"), [(0, "XS"), (9, "XS"), (10, "S"), (30, "M"), (100, "L"), (500, "XL"), (1_000, "XXL")]
)
def test_size_labels(lines: int, label: str) -> None:
    assert size_label(change(lines), CONFIG) == f"size/{label}"


def test_a_maintainers_word_stands_above_the_score() -> None:
    found = rated(change(draft=True), override="High")
    assert found.level is Level.HIGH
    assert found.score == -20
    assert found.reasons[0].signal == "set to high by a maintainer"
    assert priority_label(found.level) == "priority: high"
    with pytest.raises(ValueError, match="say critical, high, medium, low"):
        rated(change(), override="urgent")


def test_the_order_of_labels_and_issues_does_not_matter() -> None:
    one = rated(change(labels=("p1", "ci-failure"), linked_issues=(issue("p0"), issue("p1", number=3))))
    two = rated(change(labels=("ci-failure", "p1"), linked_issues=(issue("p1", number=3), issue("p0"))))
    assert (one.level, one.score) == (two.level, two.score)


def test_points_can_be_configured() -> None:
    config = PriorityConfig(labels={"urgent": 40}, title_fix=0)
    assert prioritize(change(labels=("Urgent",), title="fix: x"), config, NOW).score == 40
    assert prioritize(change(labels=("p0",)), config, NOW).level is Level.MEDIUM
