"""Verdicts against what maintainers said of them."""

from datetime import UTC, datetime, timedelta

from bot.ci.accuracy import Call, Said, Told, Word, accuracy, calls_in

NOON = datetime(2026, 9, 20, 12, tzinfo=UTC)


def call(number: int, verdict: Said, hours: float = 0, job: str = "Unit") -> Call:
    return Call(7, number, job, "a" * 40, verdict, None, "It says so.", NOON + timedelta(hours=hours))


def word(number: int, verdict: Told, hours: float = 1, job: str = "Unit") -> Word:
    return Word(7, number, job, verdict, "maintainer", "I looked.", NOON + timedelta(hours=hours))


def test_precision_and_recall_count_what_was_said_before_a_maintainer_spoke() -> None:
    calls = [
        call(1, "unrelated"),
        call(2, "unrelated"),
        call(3, "regression"),
        call(4, "unknown"),
        call(5, "unrelated"),
    ]
    words = [
        word(1, "unrelated"),
        word(2, "regression"),
        word(3, "regression"),
        word(4, "unrelated"),
        word(6, "unrelated"),
    ]
    found = accuracy(calls, words)
    assert (found.n, found.unjudged) == (4, 1)
    regression, unrelated = found.scores
    assert (unrelated.said, unrelated.right, unrelated.precision, unrelated.recall) == (2, 1, 0.5, 0.5)
    assert (regression.said, regression.told, regression.precision, regression.recall) == (1, 2, 1.0, 0.5)
    (wrong,) = found.disagreements
    assert (wrong.call.number, wrong.call.verdict, wrong.word.verdict) == (2, "unrelated", "regression")


def test_the_last_word_counts_and_only_verdicts_before_it() -> None:
    calls = [call(1, "regression"), call(1, "unrelated", hours=2), call(1, "regression", hours=9)]
    found = accuracy(calls, [word(1, "unrelated", hours=1), word(1, "regression", hours=3)])
    assert (found.n, found.counts["unrelated"]["regression"]) == (1, 1)


def test_jobs_and_repositories_are_kept_apart() -> None:
    assert accuracy([call(1, "unrelated", job="Lint")], [word(1, "regression")]).unjudged == 1


def test_nothing_said_is_no_figure() -> None:
    found = accuracy([], [])
    assert (found.n, [one.precision for one in found.scores]) == (0, [None, None])


def test_the_verdicts_of_a_decision_are_one_a_job_and_a_declared_one_is_none() -> None:
    value = {
        "groups": [
            {"ruling": "unrelated", "kind": "flaky", "jobs": ["A", "B"], "evidence": [{"says": "Passed."}]},
            {"ruling": "regression", "kind": None, "jobs": ["C"], "declared_by": "maintainer"},
            {"ruling": "odd", "jobs": ["D"]},
        ]
    }
    found = calls_in(value, 7, 1, "a" * 40, NOON)
    assert [(one.job, one.verdict, one.reason) for one in found] == [
        ("A", "unrelated", "Passed."),
        ("B", "unrelated", "Passed."),
    ]
    assert calls_in({}, 7, 1, "a" * 40, NOON) == []
