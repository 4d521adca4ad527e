"""Does another run show the same failure? Five answers, and the last two are no baseline."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from bot.ci.failures import DETERMINISTIC, Failure, Reading
from bot.ci.names import cousin, family, same_path
from bot.ci.nature import nature_of
from bot.ci.scene import Case, Run
from bot.ci.signature import Likeness, Signature, likeness, numbers_of
from bot.ci.snapshot import Job

State = Literal["same", "shape", "other", "passed", "not_run", "unreadable"]
NUMBERED_TOLERANCE = 0.02
LINES_APART = 50


@dataclass(frozen=True, slots=True)
class Seen:
    """How a failure stands in another run: the state, and the job that shows it."""

    state: State
    job: Job | None = None
    failure: Failure | None = None


def compare(one: Failure, other: Failure) -> Likeness:
    """Compare two failures of one test or one job by their signatures.

    A signature that only wraps a cause matches nothing; findings also have to lie in one file; memory errors
    have to ask for the same size.
    """
    left, right = one.signature, other.signature
    if left is None or right is None or left.is_wrapper or right.is_wrapper:
        return "different"
    if (
        one.category in ("compile", "lint")
        and one.file
        and other.file
        and not same_file(one.file, other.file)
    ):
        return "different"
    found = likeness(left, right)
    if found == "same" and nature_of(one) == "memory" and not same_sizes(left, right):
        return "shape"
    if found == "same" and one.category == other.category == "job" and not one.exception:
        # A script's last words alone are thin: the line before them has to agree too.
        found = likeness(Signature(None, one.detail), Signature(None, other.detail))
    if found == "same" and left.is_generic and not same_place(one, other):
        return "shape"
    return found


def same_place(one: Failure, other: Failure) -> bool:
    """Say whether two failures with words that any failure might have were raised at one place."""
    if one.paths and other.paths and not same_file(one.paths[-1], other.paths[-1]):
        return False
    return one.line is None or other.line is None or abs(one.line - other.line) <= LINES_APART


def same_file(one: str, other: str) -> bool:
    """Say whether two printed paths are one file."""
    return same_path(one, other) or same_path(other, one)


def same_sizes(one: Signature, other: Signature) -> bool:
    """Say whether two memory errors speak of the same sizes, within 2 %."""
    left, right = numbers_of(one.message), numbers_of(other.message)
    pairs = zip(left, right, strict=False)
    return len(left) == len(right) and all(
        abs(a[0] - b[0]) <= NUMBERED_TOLERANCE * max(abs(a[0]), abs(b[0])) for a, b in pairs
    )


def seen_in(case: Case, run: Run) -> Seen:
    """Return how a failure stands in a run: in its own job first, then in the job's shards and cousins."""
    own = [place for place in run.by_name.get(case.job.name, []) if run.jobs[place].conclusion != "not_run"]
    shards = [
        place
        for place in run.by_family.get(family(case.job.name), [])
        if place not in own and run.jobs[place].conclusion != "not_run"
    ]
    found = best_match(case, run, [*own, *shards])
    if found.state == "same":
        return found
    home = home_state(case, run, own, shards)
    if home.state in ("not_run", "unreadable") and found.state != "shape":
        return elsewhere(case, run) or home
    return found if found.state == "shape" and home.state != "passed" else home


def best_match(case: Case, run: Run, places: list[int]) -> Seen:
    """Return the nearest match among the failures of some jobs."""
    best = Seen("not_run")
    for place in places:
        for failure in candidates(case, run, place):
            found = compare(case.failure, failure)
            if found == "same":
                return Seen("same", run.jobs[place], failure)
            if found == "shape":
                best = Seen("shape", run.jobs[place], failure)
    return best


def candidates(case: Case, run: Run, place: int) -> Iterator[Failure]:
    """Return the failures of one job that may be this one: the same test's, else those without a test."""
    reading = run.readings.get(place)
    if reading is None:
        return
    key = case.failure.key
    if key is not None:
        yield from (failure for where, failure in run.by_test.get(key, []) if where == place)
        if case.failure.category != "collection":
            return
    signature = case.failure.signature
    if signature is None or signature.is_generic:
        return
    for failure in reading.failures:
        loose = failure.key is None or failure.category == case.failure.category == "collection"
        if (loose and failure.key != key) or failure.key is None:
            yield failure


def home_state(case: Case, run: Run, own: list[int], shards: list[int]) -> Seen:
    """Return how the failure's own job ended in a run, where it does not show the failure."""
    for place in own:
        state = job_state(case, run.jobs[place], run.readings.get(place))
        return Seen(state, run.jobs[place])
    key = case.failure.key
    for place in shards:
        reading = run.readings.get(place)
        if key and reading and key in reading.passed:
            return Seen("passed", run.jobs[place])
        if key and reading and any(failure.key == key for failure in reading.failures):
            return Seen("other", run.jobs[place])
    return Seen("not_run")


def job_state(case: Case, job: Job, reading: Reading | None) -> State:
    """Return how one job ended for this failure's test."""
    if job.conclusion == "passed":
        return "passed"
    if reading is None:
        return "unreadable"
    key = case.failure.key
    if key is None:
        return "other" if any(failure.signature for failure in reading.failures) else "unreadable"
    if any(failure.key == key for failure in reading.failures):
        return "other"
    if key in reading.passed:
        return "passed"
    if case.failure.category in DETERMINISTIC:
        return "other" if reading.complete else "unreadable"
    return "passed" if reading.complete and not stopped_early(reading) else "unreadable"


def stopped_early(reading: Reading) -> bool:
    """Say whether a run ended before all its tests had their turn."""
    return any(
        failure.category in ("collection", "crash", "timeout", "unread") for failure in reading.failures
    )


def elsewhere(case: Case, run: Run) -> Seen | None:
    """Return the same failure in another job of a run whose own job says nothing.

    A test's failure is recognised anywhere by its id, with words that any failure might have only in a cousin
    (the same step on another platform); one without a test only in a cousin, and never by a generic line.
    """
    failure = case.failure
    signature = failure.signature
    name = cousin(case.job.name)
    if failure.key is not None:
        for place, other in run.by_test.get(failure.key, []):
            telling = signature is not None and not signature.is_generic
            if (telling or cousin(run.jobs[place].name) == name) and compare(failure, other) == "same":
                return Seen("same", run.jobs[place], other)
        return None
    if signature is None or signature.is_generic or failure.category == "timeout":
        return None
    for place, reading in run.readings.items():
        if cousin(run.jobs[place].name) != name:
            continue
        for other in reading.failures:
            if other.key is None and compare(failure, other) == "same":
                return Seen("same", run.jobs[place], other)
    return None
