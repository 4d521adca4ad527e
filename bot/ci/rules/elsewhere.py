"""The same failure on other pull requests, none of which may be its source."""

from bot.ci.evidence import Evidence, count
from bot.ci.names import family, same_path
from bot.ci.rules.base import url_of
from bot.ci.rules.match import compare
from bot.ci.scene import Case, Other, Scene
from bot.ci.snapshot import Job

PULLS_NEEDED = 2


def seen_on(case: Case, scene: Scene) -> tuple[tuple[Other, Job], ...]:
    """Return the other pull requests that show the same failure and cannot be its source."""
    signature = case.failure.signature
    if signature is None or signature.is_generic:
        return ()
    found = []
    for other in scene.others:
        job = same_failure(case, other)
        if job and not shares_change(other, scene) and not is_its_source(case, other):
            found.append((other, job))
    return tuple(found)


def same_failure(case: Case, other: Other) -> Job | None:
    """Return the job in which another pull request shows the same failure: by test, else by the same step."""
    key = case.failure.key
    if key is not None:
        for place, failure in other.jobs.by_test.get(key, []):
            if compare(case.failure, failure) == "same":
                return other.jobs.jobs[place]
        return None
    for place in other.jobs.by_family.get(family(case.job.name), []):
        reading = other.jobs.readings.get(place)
        if reading and any(
            one.key is None and compare(case.failure, one) == "same" for one in reading.failures
        ):
            return other.jobs.jobs[place]
    return None


def shares_change(other: Other, scene: Scene) -> bool:
    """Say whether another pull request changes a file that this one changes: it may be the same change."""
    if other.pull.changed_files is None:
        return False
    paths = {file.path for file in scene.files}
    return any(file.path in paths for file in other.pull.changed_files)


def is_its_source(case: Case, other: Other) -> bool:
    """Say whether another pull request changes a file of the traceback: then it may have made the failure."""
    if other.pull.changed_files is None:
        return False
    seen = [path for path in (*case.failure.paths, case.failure.file) if path]
    return any(same_path(path, file.path) for file in other.pull.changed_files for path in seen)


def same_signature_on_other_pulls(case: Case, scene: Scene) -> Evidence | None:
    """At least two pull requests by other people show the same failure, before this head."""
    found = seen_on(case, scene)
    authors = {other.pull.author for other, _ in found}
    if len(authors) < PULLS_NEEDED:
        return None
    numbers = ", ".join(f"#{other.pull.number}" for other, _ in found[:5])
    says = (
        f"The same failure is on {count(len(found), 'pull request')} by other people before this "
        f"head: {numbers}."
    )
    return Evidence(
        "same_signature_on_other_pulls", "strong", says, url_of(found[0][1]), found[0][0].pull.head_sha
    )


def seen_on_another_pull(case: Case, scene: Scene) -> Evidence | None:
    """One other pull request shows the same failure; it may be its source, so it proves nothing alone."""
    found = seen_on(case, scene)
    if not found:
        return None
    other, job = found[0]
    says = f"The same failure is on #{other.pull.number} by another author, before this head."
    return Evidence("seen_on_another_pull", "medium", says, url_of(job), other.pull.head_sha)
