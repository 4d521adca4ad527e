"""A small world to tell stories in: snapshots with logs as pytest and the providers write them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bot.ci.snapshot import Snapshot, snapshot_from
from bot.ci.verdict import Verdict, judge

LOGS = Path(__file__).parent / "logs"
HEAD_AT = datetime(2026, 9, 20, 10, 0, tzinfo=UTC)
HEAD, BASE = "a" * 40, "b" * 40
NAME = "Unit · Engine"
TEST = "tests/engine/test_cache.py::test_evicts"
ERROR = ("KeyError", "'lru_tail'")


def at(hours: float) -> str:
    """Return a time, in hours before the head's commit (negative: after it)."""
    return (HEAD_AT - timedelta(hours=hours)).isoformat()


def pytest_log(
    *failures: tuple[str, tuple[str, str]],
    through: tuple[str, ...] = (),
    passed: int = 40,
    stamps: bool = False,
) -> str:
    """Return a log of pytest in which these tests fail with these errors, through these files."""
    sections, summary = [], []
    for test, (exception, message) in failures:
        path, _, tail = test.partition("::")
        frames = [
            f"{path}:31: ",
            "_ _ _ _ _ _ _ _ _ _ _ _",
            *(f"{name}:{12 + n}: " for n, name in enumerate(through)),
        ]
        sections += [
            f"_______ {tail.replace('::', '.')} _______", "", *frames, f"E       {exception}: {message}", "",
            f"{(through or (path,))[-1]}:77: {exception}",
        ]  # fmt: skip
        summary.append(f"FAILED {test} - {exception}: {message}")
    lines = [
        "~~~ Running commands", "$ pytest", "===== test session starts =====", "collected 9 items",
        "=================================== FAILURES ===================================", *sections,
        "=========================== short test summary info ============================", *summary,
        f"========== {len(failures)} failed, {passed} passed in 12.34s ==========",
        "🚨 Error: The command exited with status 1",
    ]  # fmt: skip
    return "\n".join(f"2026-09-20T10:00:00.1234567Z {line}" if stamps else line for line in lines)


def plain_log(*lines: str) -> str:
    """Return a log of a job that is no test run."""
    return "\n".join(["~~~ Running commands", "$ make", *lines, "🚨 Error: The command exited with status 1"])


def job(name: str = NAME, conclusion: str = "failed", log: str | None = None, **more: Any) -> dict[str, Any]:
    """Return one job."""
    return {
        "id": f"id-{name}-{more.get('attempt', 1)}", "provider": "buildkite", "build": "7", "name": name,
        "required": True, "soft_failed": False, "platform": "cuda", "conclusion": conclusion,
        "exit_status": 0 if conclusion == "passed" else 1, "attempt": 1, "agent": "host-1",
        "started_at": at(-1), "finished_at": at(-1.5), "url": f"https://ci.example.org/{name}",
        "log": log, "junit": None,
    } | more  # fmt: skip


def red(name: str = NAME, test: str = TEST, error: tuple[str, str] = ERROR, **more: Any) -> dict[str, Any]:
    """Return a red job in which one test fails."""
    through = more.pop("through", ("engine/cache.py",))
    return job(name, log=pytest_log((test, error), through=through), **more)


def green(name: str = NAME, **more: Any) -> dict[str, Any]:
    """Return a green job."""
    return job(name, "passed", **more)


def file(
    path: str, status: str = "modified", patch: str | None = None, previous: str | None = None
) -> dict[str, Any]:
    """Return one changed file."""
    return {
        "path": path,
        "status": status,
        "patch": patch,
        "previous_path": previous,
        "additions": 3,
        "deletions": 1,
    }


def base(
    *jobs: dict[str, Any], hours: float = 12, sha: str = BASE, merge_base: bool = True
) -> dict[str, Any]:
    """Return a run of the base branch, some hours before the head."""
    return {
        "sha": sha,
        "branch": "main",
        "committed_at": at(hours),
        "is_merge_base": merge_base,
        "jobs": list(jobs),
    }


def main(*jobs: dict[str, Any], hours: float, sha: str) -> dict[str, Any]:
    """Return another run of the base branch."""
    return base(*jobs, hours=hours, sha=sha * 40, merge_base=False)


def other(number: int, *jobs: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return another pull request that ran before the head."""
    return {
        "number": number, "author": f"user-{number}", "head_sha": f"{number:040d}", "ran_at": at(20),
        "stacked_on_this": False, "changed_files": [{"path": f"docs/page_{number}.md"}], "jobs": list(jobs),
    } | more  # fmt: skip


def issue(number: int, title: str, body: str = "", **more: Any) -> dict[str, Any]:
    """Return an open issue from before the head."""
    return {
        "number": number, "title": title, "body": body, "state": "open", "labels": [], "created_at": at(300),
        "url": f"https://forge.example.org/issues/{number}",
    } | more  # fmt: skip


def world(*jobs: dict[str, Any], files: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    """Return a snapshot as JSON; `pr` holds what differs in the pull request."""
    pr = {
        "number": 5, "title": "Speed up the cache", "body": "", "author": "user-a", "labels": [],
        "head_sha": HEAD,
        "head_committed_at": at(0), "merge_base_sha": BASE, "merge_base_committed_at": at(12),
        "changed_files": [file("engine/scheduler.py")] if files is None else files,
        "changed_files_complete": True,
    } | more.pop("pr", {})  # fmt: skip
    return {"schema": 1, "repo": "org/engine", "pr": pr, "jobs": list(jobs)} | more


def read(document: dict[str, Any]) -> Snapshot:
    """Return the snapshot of a document."""
    return snapshot_from(document)


def verdict(document: dict[str, Any]) -> Verdict:
    """Return the verdict on a document."""
    return judge(read(document))


def ruling(document: dict[str, Any]) -> tuple[str, str | None]:
    """Return overall verdict and the first failure's kind."""
    found = verdict(document)
    return found.overall, found.failures[0].kind if found.failures else None


def rules(document: dict[str, Any]) -> list[str]:
    """Return the names of the rules that speak in the first failure."""
    return [evidence.rule for evidence in verdict(document).failures[0].evidence]


def log_of(name: str) -> str:
    """Return a real log, recorded from a real run."""
    return (LOGS / f"{name}.log").read_text(encoding="utf-8", errors="replace")
