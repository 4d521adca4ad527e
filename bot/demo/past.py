"""What had happened before the record begins: the nights up to the fix, and CI's word on two earlier changes.

It goes through the service's own store, so that the pages of a fresh world show what a lived-in one would.
"""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from bot import store
from bot.actions import SetOverride, Target
from bot.db.engine import open_engine, open_sessions
from bot.db.models import Repository
from bot.demo.target import TargetRepository
from bot.demo.target.build import git
from bot.demo.world import EmbeddedWorld
from bot.facts import PullFacts
from bot.nightly import kept
from bot.nightly import store as nights_store
from bot.nightly.found import read_nights
from perf_runner.history.measurements import Measurement
from perf_runner.models import Direction

LAST_NIGHT = date(2026, 9, 24)
HARDWARE, MODEL, CONFIG = "NVIDIA H100", "Qwen-Image", "512x512_steps20"
SINGLE, STEPWISE = "test_qwen_image_single_device", "test_qwen_image_single_device_step_execution"
# Test, metric, unit, which direction is better, the baseline, and the level behind the slowdown.
SERIES: tuple[tuple[str, str, str, Direction, float, float], ...] = (
    (SINGLE, "latency_mean", "s", "lower", 2.4065, 3.0809),
    (SINGLE, "throughput_qps", "req/s", "higher", 0.4153, 0.3246),
    (STEPWISE, "latency_mean", "s", "lower", 2.3953, 2.9415),
)
JITTER = 0.006
BREAKING, SPARED = 7702, 7698
JOB = "diffusion-unit-tests"


def remember_past(world: EmbeddedWorld) -> None:
    """Put the past into the world's store; a second time changes nothing."""
    engine = open_engine(f"sqlite:///{world.folder / 'data' / 'prgate.db'}")
    try:
        with open_sessions(engine).begin() as session:
            name = world.recording.repository
            repository = session.scalar(select(Repository).where(Repository.full_name == name))
            if repository is not None:
                nights(session, repository.id, world)
                earlier_changes(session, repository, world.target)
    finally:
        engine.dispose()


def nights(session: Session, repo_id: int, world: EmbeddedWorld) -> None:
    """Keep the nights, and the episode that they are with the issue that tells of it."""
    nights_store.keep(session, repo_id, list(measurements(world.target)), at(LAST_NIGHT))
    for episode, _ in kept.matched(session, repo_id, read_nights(session, repo_id).families, at(LAST_NIGHT)):
        episode.issue_number = world.recording.issue.number


def at(night: date, hour: int = 3) -> datetime:
    """Return a moment of a day."""
    return datetime(night.year, night.month, night.day, hour, tzinfo=UTC)


def tips(target: TargetRepository) -> Iterator[tuple[date, str]]:
    """Yield each night with the commit that was main's tip when it began, from the first that had one."""
    listed = git(target.path, "log", "--first-parent", "--format=%ct %H", target.main).splitlines()
    commits = [(datetime.fromtimestamp(int(line.split()[0]), UTC), line.split()[1]) for line in listed]
    night = commits[-1][0].date() + timedelta(days=1)
    while night <= LAST_NIGHT:
        yield night, next(sha for when, sha in commits if when <= at(night))
        night += timedelta(days=1)


def measurements(target: TargetRepository) -> Iterator[Measurement]:
    """Yield the nights' values: at the baseline up to the culprit, at the slow level from its night on."""
    dice = random.Random(5931)  # noqa: S311 - noise of a recorded world
    after = target.history.index(target.culprit)
    for night, sha in tips(target):
        slow = target.history.index(sha) >= after
        for test, metric, unit, way, baseline, level in SERIES:
            yield Measurement(
                test=test,
                config=CONFIG,
                metric=metric,
                night=night,
                value=round((level if slow else baseline) * dice.gauss(1.0, JITTER), 5),
                way=way,
                source=f"result:{night.isoformat()}",
                sha=sha,
                hardware=HARDWARE,
                model=MODEL,
                unit=unit,
                n=10,
                baseline=baseline,
                machine="1x-nvidia-h100",
            )


def earlier_changes(session: Session, repository: Repository, target: TargetRepository) -> None:
    """Remember two merged changes: one verdict that a maintainer turned round, and one that was right."""
    broke, spared = date(2026, 9, 18), date(2026, 9, 17)
    change(session, repository, target.parent, BREAKING, "Move the decoders' norms into one registry", broke)
    judge(session, target_of(repository, BREAKING, target.parent), "unrelated", "flaky", broke)
    told = SetOverride(JOB, "regression", "owner-04", "the six tests name the norms that this change moves")
    store.add_override(session, target_of(repository, BREAKING, target.parent), told, at(broke, 14))
    change(session, repository, target.parent, SPARED, "Name the layer in the offloader's docstring", spared)
    judge(session, target_of(repository, SPARED, target.parent), "unrelated", "infra", spared)
    right = SetOverride(JOB, "unrelated", "owner-03", "the agent was lost")
    store.add_override(session, target_of(repository, SPARED, target.parent), right, at(spared, 14))


def target_of(repository: Repository, number: int, sha: str) -> Target:
    """Return what a decision is about."""
    return Target(repository.id, repository.full_name, number, sha)


def change(session: Session, repository: Repository, sha: str, number: int, title: str, day: date) -> None:
    """Remember a merged pull request."""
    facts = PullFacts(
        target=target_of(repository, number, sha),
        title=title,
        body="",
        author="author-03",
        author_association="CONTRIBUTOR",
        state="closed",
        merged=True,
        draft=False,
        labels=(),
        base_ref="main",
        base_sha=sha,
        created_at=at(day, 8),
        updated_at=at(day, 15),
        commits=1,
        mergeable=None,
        files=(),
    )
    store.remember_pull(session, facts)


def judge(session: Session, target: Target, ruling: str, kind: str, day: date) -> None:
    """Remember what CI's red was judged to be."""
    says = {
        "flaky": "The job passed and failed on this very commit.",
        "infra": "The agent was lost before the first test ran.",
    }[kind]
    group = {
        "ruling": ruling,
        "kind": kind,
        "count": 1,
        "jobs": [JOB],
        "tests": [],
        "evidence": [{"says": says, "url": None, "sha": None}],
    }
    value = {"overall": ruling, "red": [JOB], "groups": [group], "failures": [], "notes": []}
    store.record(session, target, "ci", value, [], at(day, 12))
