"""A snapshot, read: every red job's failures, indexed, and what may stand as evidence at all.

Void from the start (`bot.ci.void`): runs of the head itself, of the same author, stacked on it, later than
its commit, too old, or without a date.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from types import MappingProxyType

from bot.ci.failures import Failure, Reading
from bot.ci.imports import Reach
from bot.ci.logs import read_job
from bot.ci.names import ENVIRONMENT_TITLE, changes_environment, family
from bot.ci.rules.text import is_reland
from bot.ci.snapshot import BaseRun, Job, OtherPull, Snapshot, SnapshotFile
from bot.ci.void import GUARDS, Guards, is_merge_base

LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Run:
    """The jobs of one commit, with an index of what failed in them."""

    jobs: tuple[Job, ...]
    readings: Mapping[int, Reading]

    @cached_property
    def by_name(self) -> dict[str, list[int]]:
        """Return the places of the jobs with a name."""
        return index_of([job.name for job in self.jobs])

    @cached_property
    def by_family(self) -> dict[str, list[int]]:
        """Return the places of the jobs of a family."""
        return index_of([family(job.name) for job in self.jobs])

    @cached_property
    def by_test(self) -> dict[str, list[tuple[int, Failure]]]:
        """Return where each test failed."""
        found: dict[str, list[tuple[int, Failure]]] = defaultdict(list)
        for place, reading in self.readings.items():
            for failure in reading.failures:
                if failure.key:
                    found[failure.key].append((place, failure))
        return found


def index_of(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the places of each name."""
    found: dict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(names):
        found[name].append(place)
    return found


def read_run(jobs: Sequence[Job], known: Mapping[str, Reading]) -> Run:
    """Read the red jobs of a run, but for those whose readings are known by their keys."""
    red = {
        place: (known.get(job.key) if known else None) or read_job(job)
        for place, job in enumerate(jobs)
        if job.conclusion in ("failed", "timed_out", "broken")
    }
    return Run(tuple(jobs), red)


@dataclass(frozen=True)
class Base:
    """One commit of the base branch that may stand as evidence."""

    run: BaseRun
    jobs: Run
    is_merge_base: bool


@dataclass(frozen=True)
class Other:
    """Another pull request that may stand as evidence."""

    pull: OtherPull
    jobs: Run


@dataclass(frozen=True)
class Case:
    """One failure to be judged, with the job it is from."""

    failure: Failure
    job: Job
    reading: Reading
    place: int = 0


@dataclass(frozen=True)
class Scene:
    """All that rules may look at."""

    snapshot: Snapshot
    head: Run
    bases: tuple[Base, ...] = ()
    others: tuple[Other, ...] = ()
    retries: Run = field(default_factory=lambda: Run((), {}))
    reach: Reach | None = None

    @property
    def merge_base(self) -> Base | None:
        """Return the merge base's run, where there is one."""
        return next((base for base in self.bases if base.is_merge_base), None)

    @cached_property
    def mains(self) -> tuple[Base, ...]:
        """Return the other runs of the base branch, oldest first."""
        plain = [base for base in self.bases if not base.is_merge_base and base.run.committed_at]
        return tuple(sorted(plain, key=lambda base: (base.run.committed_at or LONG_AGO, base.run.sha or "")))

    @cached_property
    def files(self) -> tuple[SnapshotFile, ...]:
        """Return the changed files that are known."""
        return tuple(file for file in self.snapshot.pr.changed_files if file.path)

    @cached_property
    def files_by_name(self) -> dict[str, list[SnapshotFile]]:
        """Return the changed files by the last part of their paths, old and new."""
        found: dict[str, list[SnapshotFile]] = defaultdict(list)
        for file in self.files:
            for name in {path.rpartition("/")[2] for path in (file.path, file.previous_path) if path}:
                found[name].append(file)
        return found

    @property
    def files_known(self) -> bool:
        """Say whether all changed files are known."""
        return self.snapshot.pr.changed_files_complete is True and bool(self.files)

    @cached_property
    def environment_files(self) -> tuple[str, ...]:
        """Return the changed files that decide what is installed, built or run."""
        paths = [path for file in self.files for path in (file.path, file.previous_path) if path]
        return tuple(path for path in dict.fromkeys(paths) if changes_environment(path))

    @property
    def changes_environment(self) -> bool:
        """Say whether the pull request changes its environment, by its files, else by its title."""
        if self.environment_files:
            return True
        return not self.files_known and bool(ENVIRONMENT_TITLE.search(self.snapshot.pr.title[:400]))

    @cached_property
    def is_reland(self) -> bool:
        """Say whether an earlier form of this change may already have been on the base branch."""
        return is_reland(self.snapshot.pr.title, self.snapshot.pr.body)


def build_scene(
    snapshot: Snapshot,
    reach: Reach | None = None,
    known: Mapping[str, Reading] = MappingProxyType({}),
    guards: Guards = GUARDS,
) -> Scene:
    """Read a snapshot's red jobs and leave out what can never be evidence, by the `guards`.

    `known` holds what logs said that were read before, by job key.
    """
    pr = snapshot.pr
    bases = [run for run in snapshot.base_runs if not any(void(run, snapshot) for void in guards.bases)]
    others = [one for one in snapshot.other_prs if not any(void(one, snapshot) for void in guards.others)]
    return Scene(
        snapshot=snapshot,
        head=read_run(snapshot.jobs, known),
        bases=tuple(Base(run, read_run(run.jobs, known), is_merge_base(run, snapshot)) for run in bases),
        others=tuple(Other(one, read_run(one.jobs, known)) for one in others),
        retries=read_run([job for job in snapshot.same_commit_runs if pr.head_sha or job.id], known),
        reach=reach,
    )
