"""Fills a store as a large repository would over a year: pull requests, decisions, failures, nights, runs."""

import hashlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlalchemy import Engine, insert

from bot.db.models import (
    Base,
    CiJob,
    Decision,
    Job,
    JobState,
    Outcome,
    Override,
    Pull,
    Repository,
    Run,
    RunState,
    Signature,
)
from bot.db.nightly import Alarm, Baseline, Episode, Nightly, NightlySeries
from bot.db.standing import Asked, LaneWorker

NOW = datetime.now(UTC).replace(microsecond=0)
REPO_ID = 1
REPO = "acme/engine"
STEP = 2_000
PEOPLE = [f"owner-{n:03d}" for n in range(60)]
Rows = Iterable[dict[str, Any]]
LEVELS = ["critical", "high", "medium", "low", "low", "low"]
CI = ["green", "green", "unrelated", "unknown", "regression", "pending"]
PERF = ["", "", "no_regression", "regression", "inconclusive"]


@dataclass(frozen=True)
class Size:
    """How much there is; `full` is the bar's size."""

    pulls: int
    failures: int
    cases: int
    nights: int = 365

    def tenth(self) -> "Size":
        return Size(self.pulls // 10, self.failures // 10, self.cases // 10, self.nights)


FULL = Size(pulls=5_000, failures=200_000, cases=400)


def sha(*what: object) -> str:
    return hashlib.sha1(repr(what).encode(), usedforsecurity=False).hexdigest()


def fill(engine: Engine, size: Size) -> None:
    """Fill an empty store."""
    dice = random.Random(7)
    with engine.begin() as connection:
        for table, rows in everything(size, dice):
            batch: list[dict[str, Any]] = []
            for row in rows:
                batch.append(row)
                if len(batch) == STEP:
                    connection.execute(insert(table), batch)
                    batch = []
            if batch:
                connection.execute(insert(table), batch)
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM ANALYZE")


def everything(size: Size, dice: random.Random) -> Iterator[tuple[type[Base], Rows]]:
    yield Repository, [{"id": REPO_ID, "full_name": REPO, "default_branch": "main", "private": False}]
    yield Pull, (pull(n, dice) for n in range(1, size.pulls + 1))
    yield Asked, asked(size, dice)
    yield Decision, decisions(size, dice)
    yield Override, overrides(size)
    yield Run, (run(n, size) for n in range(max(1, size.pulls // 5)))
    yield LaneWorker, [worker(n) for n in range(20)]
    yield Job, (job(n) for n in range(size.pulls))
    yield Outcome, outcomes(size, dice)
    yield CiJob, ci_jobs(size, dice)
    yield Signature, signatures(size)
    yield NightlySeries, (series(n, size) for n in range(1, size.cases + 1))
    yield Nightly, nights(size, dice)
    yield Baseline, (baseline(n) for n in range(1, size.cases + 1))
    yield Alarm, (alarm(n) for n in range(1, size.cases + 1, 5))
    yield Episode, (episode(n) for n in range(max(1, size.cases // 10)))


def pull(n: int, dice: random.Random) -> dict[str, Any]:
    perf = dice.choice(PERF)
    return {
        "repo_id": REPO_ID,
        "number": n,
        "title": f"Make step {n} of the scheduler faster on short sequences",
        "author": f"author-{n % 400:03d}",
        "state": "open",
        "draft": n % 9 == 0,
        "head_sha": sha("head", n),
        "base_sha": sha("base", n),
        "base_ref": "main",
        "labels": [],
        "created_at": NOW - timedelta(hours=n),
        "updated_at": NOW - timedelta(minutes=n),
        "opened_by_association": "NONE",
        "mode": "comment",
        "turn": dice.choice(["", "author", "reviewers"]),
        "level": dice.choice(LEVELS),
        "score": dice.randrange(100),
        "ci": dice.choice(CI),
        "perf": perf,
        "perf_pct": dice.uniform(-5, 15) if perf else None,
    }


def asked(size: Size, dice: random.Random) -> Iterator[dict[str, Any]]:
    for n in range(1, size.pulls + 1):
        for login in dice.sample(PEOPLE, 2):
            yield {"repo_id": REPO_ID, "number": n, "login": login, "name": login}


def decisions(size: Size, dice: random.Random) -> Iterator[dict[str, Any]]:
    """Six decisions a pull request, and two hundred on every hundredth."""
    for n in range(1, size.pulls + 1):
        for turn in range(200 if n % 100 == 0 else 6):
            kind = ("route", "priority", "ci", "perf")[turn % 4]
            yield {
                "repo_id": REPO_ID,
                "number": n,
                "kind": kind,
                "head_sha": sha("head", n),
                "decided_at": NOW - timedelta(hours=n, minutes=-turn),
                "facts_hash": "",
                "value": value(kind, n, dice),
                "evidence": [],
            }


def value(kind: str, n: int, dice: random.Random) -> dict[str, Any]:
    if kind == "route":
        owners = [{"login": one, "reasons": ["owns the scheduler's page"]} for one in dice.sample(PEOPLE, 4)]
        return {"ask": [owners[0]["login"]], "owners": owners}
    if kind == "priority":
        return {"level": "high", "score": 60, "reasons": [{"signal": "main is red", "points": 30}] * 4}
    if kind == "ci":
        groups = [group(n + place) for place in range(4)]
        return {"overall": dice.choice(CI), "red": ["build"], "groups": groups, "failures": []}
    return {"decision": "regression", "change_pct": 9.2, "why": "slower at every look", "cases": []}


def group(n: int) -> dict[str, Any]:
    return {
        "ruling": "unrelated",
        "kind": "broken_trunk",
        "count": 3,
        "jobs": [f"job {n % 40}"],
        "tests": [f"tests/unit/test_part_{n % 40}.py::test_{m}" for m in range(3)],
        "platforms": ["cuda"],
        "exceptions": ["AssertionError: 3 == 4"],
        "evidence": [{"says": "The same test fails on main.", "url": "https://ci.example/1", "sha": None}]
        * 3,
    }


def overrides(size: Size) -> Iterator[dict[str, Any]]:
    for n in range(1, size.pulls + 1, 10):
        yield {
            "repo_id": REPO_ID,
            "number": n,
            "job": f"job {n % 40}",
            "by": "owner-001",
            "reason": "seen before",
            "verdict": "unrelated" if n % 20 == 1 else "regression",
            "at": NOW - timedelta(hours=n),
        }


def run(n: int, size: Size) -> dict[str, Any]:
    started = NOW - timedelta(hours=n)
    open_run = n < 8
    return {
        "id": f"run-{n}",
        "repo_id": REPO_ID,
        "number": 5 * n + 1,
        "head_sha": sha("head", 5 * n + 1),
        "base_sha": sha("base", n),
        "kind": "experiment",
        "queue": "runner.h200",
        "spec": {"cases": [{"name": f"case {n % 7}"}]},
        "requested_by": "owner-001",
        "state": RunState.QUEUED if open_run else RunState.DONE,
        "requested_at": started,
        "started_at": started,
        "finished_at": None if open_run else started + timedelta(minutes=9),
        "machine": machine(),
        "result": None if open_run else {"results": [case_result(n)]},
    }


def case_result(n: int) -> dict[str, Any]:
    """A whole result of ten blocks as the runner reports it."""
    dice = random.Random(n)

    def runs(mean: float) -> list[dict[str, Any]]:
        return [{"seconds": dice.gauss(mean, 0.02)} for _ in range(2)]

    blocks = [
        {
            "arms": {"base": runs(2.0), "head": runs(2.2)},
            "order": ["base", "head", "head", "base"],
            "number": k,
        }
        for k in range(10)
    ]
    decision = {
        "decision": "regression",
        "why": "The lower bound is above 0.",
        "change_pct": 9.7,
        "low_pct": 7.1,
        "high_pct": 12.4,
        "margin_pct": 3.0,
        "alpha": 0.03,
        "blocks_used": 10,
        "blocks_vetoed": 0,
        "runs_used": 40,
        "improved": False,
    }
    arms = [{"name": "base", "sha": sha("base", n)}, {"name": "head", "sha": sha("head", n)}]
    return {"case": {"name": f"case {n % 7}"}, "arms": arms, "blocks": blocks, "decision": decision}


def machine() -> dict[str, Any]:
    return {
        "host_class": "1x-nvidia-h200",
        "cpu_model": "Xeon",
        "cpu_cores": 16,
        "memory_gb": 128.0,
        "gpu_name": "NVIDIA H200",
        "gpu_count": 1,
        "gpu_driver": "580",
        "operating_system": "Linux 6",
        "versions": {"python": "3.12", "torch": "2.11"},
        "noise_probe_pct": 1.4,
        "load_1m": 0.3,
        "notes": [],
    }


def worker(n: int) -> dict[str, Any]:
    return {
        "name": f"gpu-{n}",
        "queues": ["runner.h200"],
        "machine": machine(),
        "run_id": None,
        "seen_at": NOW,
    }


def job(n: int) -> dict[str, Any]:
    return {
        "verb": "route",
        "repo_id": REPO_ID,
        "number": n + 1,
        "subject": "",
        "state": JobState.DONE,
        "attempts": 1,
        "created_at": NOW - timedelta(hours=n),
    }


def signature_of(n: int) -> str:
    return hashlib.sha256(str(n).encode()).hexdigest()


def outcomes(size: Size, dice: random.Random) -> Iterator[dict[str, Any]]:
    """One failure in twenty is of one signature: the hottest is as hot as a broken main makes it."""
    kinds = max(1, size.failures // 25)
    for n in range(size.failures):
        kind = 0 if n % 20 == 0 else dice.randrange(kinds)
        number = None if n % 10 == 0 else dice.randrange(1, size.pulls + 1)
        yield {
            "repo_id": REPO_ID,
            "job_key": f"key-{n}",
            "signature": signature_of(kind),
            "test": f"tests/test_{kind % 500}.py::test_{kind}",
            "job": f"job {kind % 40}",
            "sha": sha("c", n // 8),
            "branch": "main" if number is None else f"branch-{number}",
            "number": number,
            "on_main": number is None,
            "at": NOW - timedelta(minutes=2 * n),
        }


def ci_jobs(size: Size, dice: random.Random) -> Iterator[dict[str, Any]]:
    """As many jobs as failures, one in three of them red."""
    for n in range(size.failures):
        red = n % 3 == 0
        yield {
            "repo_id": REPO_ID,
            "key": f"key-{n}",
            "provider": "buildkite",
            "build": str(n // 40),
            "name": f"job {n % 40}",
            "sha": sha("c", n // 8),
            "branch": "main",
            "for_pull": n % 10 != 0,
            "conclusion": "failed" if red else "passed",
            "red": red,
            "at": NOW - timedelta(minutes=2 * n),
            "data": {},
        }


def signatures(size: Size) -> Iterator[dict[str, Any]]:
    for n in range(max(1, size.failures // 25)):
        at = NOW - timedelta(minutes=n)
        yield {
            "repo_id": REPO_ID,
            "key": signature_of(n),
            "test": f"tests/test_{n % 500}.py::test_{n}",
            "job": f"job {n % 40}",
            "exception": "AssertionError",
            "message": f"expected {n}, found something else",
            "first_at": at - timedelta(days=9),
            "last_at": at,
            "times": 25,
            "times_on_main": n % 3,
            "pulls": 7,
            "commits": 9,
            "last_main_sha": sha("m", n),
            "last_main_at": at if n % 3 else None,
            "passes": 400,
        }


def series(n: int, size: Size) -> dict[str, Any]:
    return {
        "id": n,
        "repo_id": REPO_ID,
        "test": f"test_case_{n:03d}",
        "config": f"{n % 4 + 1}x512, steps=20",
        "hardware": "NVIDIA H200",
        "metric": "latency_p50",
        "model": "image",
        "unit": "s",
        "way": "lower",
        "nights": size.nights,
        "last_night": NOW.date(),
        "last_value": 2.0 + n / 100,
        "last_sha": night_sha(0),
    }


def night_sha(back: int) -> str:
    return sha("night", back)


def night_of(back: int) -> date:
    return NOW.date() - timedelta(days=back)


def nights(size: Size, dice: random.Random) -> Iterator[dict[str, Any]]:
    for n in range(1, size.cases + 1):
        level = 2.0 + n / 100
        for back in range(size.nights):
            slow = 1.1 if 40 < back < 90 else 1.0
            yield {
                "series_id": n,
                "night": night_of(back),
                "sha": night_sha(back),
                "source": f"run:{n}-{back}",
                "repo_id": REPO_ID,
                "value": level * slow * dice.gauss(1.0, 0.01),
                "n": 10,
                "sd": 0.01,
                "baseline": level,
                "machine": "1x-nvidia-h200",
                "status": "",
            }


def baseline(n: int) -> dict[str, Any]:
    return {
        "series_id": n,
        "since": night_of(300),
        "repo_id": REPO_ID,
        "value": 2.0 + n / 100,
        "n": 14,
        "sd": 0.01,
        "first_night": night_of(314),
        "last_night": night_of(301),
        "origin": "median of the window's nights",
    }


def alarm(n: int) -> dict[str, Any]:
    return {
        "series_id": n,
        "night": night_of(88),
        "worse": True,
        "raised_by": "cusum",
        "repo_id": REPO_ID,
        "z": 6.1,
        "since": night_of(89),
        "level": 2.0,
        "value": 2.2,
        "raised_at": NOW - timedelta(days=88),
    }


def episode(n: int) -> dict[str, Any]:
    return {
        "repo_id": REPO_ID,
        "key": f"episode-{n}",
        "family": "image",
        "hardware": "NVIDIA H200",
        "test": f"test_case_{n:03d}",
        "config": "",
        "first_night": night_of(89),
        "last_night": night_of(41 - n % 30),
        "days_failing": 48,
        "state": "open" if n % 4 == 0 else "recovered",
        "worst_pct": -11.0,
        "data": {},
        "updated_at": NOW,
    }
