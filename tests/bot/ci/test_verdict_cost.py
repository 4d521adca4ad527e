"""A large head with a month of history is judged within two seconds, and its cost grows linearly."""

import time
from typing import Any

from bot.ci.snapshot import Snapshot
from bot.ci.verdict import judge
from tests.bot.ci.world import at, file, green, issue, job, main, other, pytest_log, read, world

NOISE = (
    "2026-09-20T10:00:00.1234567Z (EngineCore pid=1) INFO 09-14 12:14:38 [worker.py:276] Memory: 27.84 GiB\n"
    * 40
)


def red_job(number: int, failures: int) -> dict[str, Any]:
    found = [
        (
            f"tests/part_{number % 40}/test_it.py::test_one[{number}-{n}]",
            ("ValueError", f"shape {number} is odd"),
        )
        for n in range(failures)
    ]
    return job(f"Step {number}", log=NOISE + pytest_log(*found, through=(f"engine/part_{number % 40}.py",)))


def head(jobs: int, failures: int, days: int) -> Snapshot:
    """Return a head of `jobs` jobs with `failures` failures, a run of main each day, issues, other pulls."""
    red = [red_job(number, 2) for number in range(failures // 2)]
    rest = [green(f"Step {number}") for number in range(len(red), jobs)]
    month = [
        main(*red[: len(red) // 3], *rest, hours=24 * day / 3, sha=f"{day % 10}")
        for day in range(1, days + 1)
    ]
    return read(
        world(
            *red,
            *rest,
            files=[
                file(f"engine/module_{n}.py", patch="@@ -1 +1 @@\n+rows = old_rows\n") for n in range(300)
            ],
            base_runs=month,
            other_prs=[other(100 + n, *red[n::9], ran_at=at(n + 1)) for n in range(8)],
            known_issues=[issue(n, f"[CI Failure] test_{n}", "A long body.\n" * 100) for n in range(50)],
        )
    )


def seconds_for(snapshot: Snapshot) -> float:
    """Return the best of two runs, in seconds of this process."""
    took = []
    for _ in range(2):
        started = time.process_time()
        judge(snapshot)
        took.append(time.process_time() - started)
    return min(took)


def test_500_jobs_200_failures_and_a_month_of_main_within_two_seconds() -> None:
    snapshot = head(jobs=500, failures=200, days=30)
    assert sum(job.is_failure for job in snapshot.jobs) == 100
    assert len(judge(snapshot).failures) == 200
    assert seconds_for(snapshot) <= 2.0


def test_the_cost_grows_no_faster_than_the_jobs() -> None:
    small, large = seconds_for(head(125, 50, 10)), seconds_for(head(500, 200, 10))
    assert large <= 4 * small * 1.6
