"""What CI ran on the recorded commits: Buildkite builds on CUDA, ROCm and Intel, their jobs and raw logs."""

import hashlib
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic import BaseModel, ConfigDict

from bot.demo.recorded.logs import Session, raw_log
from bot.demo.target import TargetRepository

ORGANIZATION = "omni-lite"
REQUIRED_CONTEXT = "buildkite/omni-lite"
ALL_SIX = (0, 1, 2, 3, 4, 5)
SHARDS = ((0, 4), (1,), (2, 5), (3,))  # which of the six failures each ROCm shard runs
DIFFUSION = "pytest tests/diffusion -m 'core_model and cpu'"
Platform = Literal["cuda", "rocm", "xpu", "cpu"]


class Job(BaseModel):
    """One job of a build; names and meanings as Buildkite's API has them."""

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    step_key: str
    platform: Platform
    state: Literal["passed", "failed"]
    exit_status: int
    agent: str
    started_at: datetime
    finished_at: datetime
    log: str
    soft_failed: bool = False


class Build(BaseModel):
    """One build of a pipeline on one commit. `pull` is None for a build of main."""

    model_config = ConfigDict(frozen=True)

    pipeline: str
    number: int
    commit: str
    branch: str
    pull: int | None
    created_at: datetime
    jobs: tuple[Job, ...]

    @property
    def state(self) -> Literal["passed", "failed"]:
        """Failed as soon as one job is."""
        return "failed" if any(job.state == "failed" for job in self.jobs) else "passed"

    @property
    def context(self) -> str:
        """The commit status that reports this build."""
        return f"buildkite/{self.pipeline}"

    @property
    def required(self) -> bool:
        """Say whether the branch's rules require this status."""
        return self.context == REQUIRED_CONTEXT

    @property
    def finished_at(self) -> datetime:
        """When the last job ended."""
        return max(job.finished_at for job in self.jobs)


class Place(BaseModel):
    """Where and for whom a build runs."""

    model_config = ConfigDict(frozen=True)

    commit: str
    branch: str
    pull: int | None
    at: datetime


def stable_id(*parts: object) -> str:
    """Return an id that is the same at every call, in the form that Buildkite uses."""
    digest = hashlib.sha256("/".join(str(part) for part in parts).encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def job(name: str, platform: Platform, place: Place, session: Session) -> Job:
    """Return the job that ran a session."""
    failed = bool(session.failing)
    key = "".join(character if character.isalnum() else "-" for character in name.lower()).strip("-")
    return Job(
        id=stable_id(place.commit, name, session.queue),
        name=name,
        step_key=key,
        platform=platform,
        state="failed" if failed else "passed",
        exit_status=1 if failed else 0,
        agent=f"{session.queue}-7",
        started_at=session.started_at,
        finished_at=session.started_at + timedelta(seconds=session.seconds),
        log=raw_log(session),
    )


def session(place: Place, queue: str, passed: int, seconds: float, failing: tuple[int, ...] = ()) -> Session:
    """Return a session of the diffusion tests that starts four minutes after its build was asked for."""
    return Session(place.commit, queue, DIFFUSION, passed, place.at + timedelta(minutes=4), seconds, failing)


def cuda_build(number: int, place: Place, red: bool) -> Build:
    """Return a build of the required pipeline: one job with the six failures where it is red."""
    failing = ALL_SIX if red else ()
    main = session(place, "gpu-1-queue", 6549 - len(failing), 1893.44, failing)
    others = (
        job("Simple · Unit Test", "cpu", place, session(place, "cpu-queue", 1204, 311.2)),
        job("Diffusion · Cache Test", "cuda", place, session(place, "gpu-2-queue", 188, 402.9)),
    )
    jobs = (job("Simple · Diffusion Test", "cuda", place, main), *others)
    return build("omni-lite", number, place, jobs)


def rocm_build(number: int, place: Place, red: bool) -> Build:
    """Return a build on AMD: four shards of the diffusion tests."""
    jobs = []
    for shard, failing in enumerate(SHARDS, start=1):
        ran = session(place, f"amd-mi-{shard}", 1600 + 11 * shard, 940.0 + 31 * shard, failing if red else ())
        jobs.append(job(f"AMD: Simple · Diffusion Test (shard {shard})", "rocm", place, ran))
    return build("omni-lite-amd", number, place, jobs)


def intel_build(number: int, place: Place) -> Build:
    """Return a build on Intel, which does not select the Wan decoder's tests: green."""
    ran = session(place, "intel-xpu", 2107, 1221.7)
    return build(
        "omni-lite-intel", number, place, (job("Intel: Simple · Diffusion Test", "xpu", place, ran),)
    )


def build(pipeline: str, number: int, place: Place, jobs: Sequence[Job]) -> Build:
    """Return a build of `jobs`."""
    return Build(
        pipeline=pipeline,
        number=number,
        commit=place.commit,
        branch=place.branch,
        pull=place.pull,
        created_at=place.at,
        jobs=tuple(jobs),
    )


def round_of(place: Place, numbers: tuple[int, int, int], red: bool) -> tuple[Build, ...]:
    """Return the CUDA, ROCm and Intel builds of one commit."""
    cuda, rocm, intel = numbers
    return cuda_build(cuda, place, red), rocm_build(rocm, place, red), intel_build(intel, place)


def builds(
    target: TargetRepository, fix_pull: int, culprit_pull: int, main_green: bool = False
) -> tuple[Build, ...]:
    """Return every recorded build, oldest first: main before and after it broke, both pull requests."""

    def at(day: int, hour: int, minute: int = 0) -> datetime:
        return datetime(2026, 9, day, hour, minute, tzinfo=UTC)

    def main(position: int, when: datetime) -> Place:
        return Place(commit=target.history[position], branch="main", pull=None, at=when)

    culprit = Place(commit=target.culprit_head, branch=target.culprit_branch, pull=culprit_pull, at=at(14, 9))
    fix = Place(commit=target.fix_head, branch=target.fix_branch, pull=fix_pull, at=at(24, 10, 12))
    before = target.history.index(target.culprit)
    return (
        *round_of(main(before - 1, at(13, 18)), (15702, 12420, 8705), red=False),
        *round_of(culprit, (15713, 12431, 8711), red=False),
        *round_of(main(before, at(15, 14, 40)), (15741, 12449, 8723), red=False),
        *round_of(main(before + 3, at(18, 6)), (15860, 12533, 8768), red=False),
        *round_of(main(-3, at(21, 18)), (15911, 12578, 8792), red=not main_green),
        *round_of(main(-1, at(23, 18)), (15928, 12589, 8798), red=not main_green),
        *round_of(fix, (15934, 12594, 8801), red=True),
    )
