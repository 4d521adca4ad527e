"""Jobs as they were seen in builds, sorted out: which stand for a commit now, and what they say together."""

import statistics
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from bot.ci.providers.reads import Sighting
from bot.ci.snapshot import Job, JobHistory

LONG_AGO = datetime.min.replace(tzinfo=UTC)


def unique(found: Iterable[Sighting]) -> list[Sighting]:
    """Return the sightings, each job attempt once: the same build answers several questions."""
    return list({(one.job.provider, one.job.build, one.job.id): one for one in found}.values())


def split_attempts(found: Sequence[Sighting]) -> tuple[list[Sighting], list[Sighting]]:
    """Return what stands for a commit now, and its earlier attempts.

    A job stands until a later build of its own source ran it again: a later build that runs less takes
    nothing back.
    """
    newest: dict[Hashable, datetime] = {}
    for one in found:
        newest[slot(one)] = max(newest.get(slot(one), LONG_AGO), made(one))
    stands = [not one.replaced and made(one) == newest[slot(one)] for one in found]
    latest = [one for one, standing in zip(found, stands, strict=True) if standing]
    return latest, [one for one, standing in zip(found, stands, strict=True) if not standing]


def slot(one: Sighting) -> Hashable:
    """Return what makes two sightings runs of the same job."""
    return one.job.provider, one.source, one.job.name, one.job.step_key, one.slot


def made(one: Sighting) -> datetime:
    """Return when the build of a sighting was created; long ago where that is not known."""
    return one.created_at or LONG_AGO


def by_commit(found: Iterable[Sighting], first: str | None) -> dict[str, list[Sighting]]:
    """Return the sightings of the base branch by commit: `first`, then the newest builds.

    A failure counts although its retry passed; any other attempt that was replaced does not.
    """
    groups: dict[str, list[Sighting]] = {}
    for one in found:
        if one.sha and (not one.replaced or one.job.is_failure):
            groups.setdefault(one.sha, []).append(one)

    def age(sha: str) -> tuple[bool, float]:
        latest = max(made(one) for one in groups[sha])
        return sha != first, -(latest - LONG_AGO).total_seconds()

    return {sha: groups[sha] for sha in sorted(groups, key=age)}


def unexplained(
    standing: Mapping[str, str], required: Sequence[str] | None, found: Sequence[Sighting]
) -> Iterator[Job]:
    """Yield a job without a log for every red check that no red job explains, so that none is forgotten."""
    red = [one for one in found if one.job.is_failure or one.job.is_cascade]
    pipelines = {f"buildkite/{one.source}" for one in red if one.job.provider == "buildkite"}
    names = {name for one in red for name in (one.job.name, one.job.name.partition(" / ")[2])}
    for name, how in standing.items():
        pipeline = "/".join(name.split("/")[:2])
        if how == "failed" and name not in names and pipeline not in pipelines:
            needed = None if required is None else name in required
            yield Job(id=name, name=name, required=needed, conclusion="failed")


def record_of(name: str, ended: Sequence[tuple[str, bool, float | None]], days: int) -> JobHistory:
    """Return how a job did over some days; `ended` holds conclusion, whether it was red, and seconds."""
    seconds = [took for how, _, took in ended if how == "passed" and took is not None]
    return JobHistory(
        name=name,
        window_days=days,
        passed=sum(how == "passed" for how, _, _ in ended),
        failed=sum(red for _, red, _ in ended),
        median_seconds=statistics.median(seconds) if seconds else None,
    )
