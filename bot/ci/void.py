"""What can never be evidence, whatever it shows: each guard by itself, so that none of them is idle."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from bot.ci.snapshot import BaseRun, OtherPull, Snapshot

WINDOW = timedelta(days=7)
VoidBase = Callable[[BaseRun, Snapshot], bool]
VoidOther = Callable[[OtherPull, Snapshot], bool]


def is_merge_base(run: BaseRun, snapshot: Snapshot) -> bool:
    """Say whether a run is that of the merge base: both must say so."""
    sha = snapshot.pr.merge_base_sha
    return bool(
        run.is_merge_base and sha and run.sha and (run.sha.startswith(sha) or sha.startswith(run.sha))
    )


def base_is_the_head(run: BaseRun, snapshot: Snapshot) -> bool:
    """A run of the head itself shows the change at work."""
    return bool(run.sha and run.sha == snapshot.pr.head_sha)


def base_is_later(run: BaseRun, snapshot: Snapshot) -> bool:
    """A commit after the head may hold what the pull request broke."""
    head = snapshot.pr.head_committed_at
    return bool(head and run.committed_at and run.committed_at > head)


def base_is_undated(run: BaseRun, snapshot: Snapshot) -> bool:
    """Without dates nobody knows what came first; only the merge base comes before the head by itself."""
    dated = snapshot.pr.head_committed_at is not None and run.committed_at is not None
    return not dated and not is_merge_base(run, snapshot)


def base_is_too_old(run: BaseRun, snapshot: Snapshot) -> bool:
    """Main of more than two weeks ago says nothing about main now; the merge base counts at any age."""
    head = snapshot.pr.head_committed_at
    old = bool(head and run.committed_at and run.committed_at < head - 2 * WINDOW)
    return old and not is_merge_base(run, snapshot)


def other_may_be_stacked(other: OtherPull, snapshot: Snapshot) -> bool:
    """A pull request that holds the same commits, or is not known not to."""
    return other.stacked_on_this is not False


def other_may_be_the_authors(other: OtherPull, snapshot: Snapshot) -> bool:
    """A pull request of the same author may be the same change."""
    author = snapshot.pr.author
    return not other.author or not author or other.author == author


def other_is_this_one(other: OtherPull, snapshot: Snapshot) -> bool:
    """An earlier head of the pull request itself."""
    return other.number is not None and other.number == snapshot.pr.number


def other_is_this_commit(other: OtherPull, snapshot: Snapshot) -> bool:
    """The very same commit, proposed twice."""
    return bool(other.head_sha and other.head_sha == snapshot.pr.head_sha)


def other_is_undated(other: OtherPull, snapshot: Snapshot) -> bool:
    """Without dates nobody knows what came first."""
    return snapshot.pr.head_committed_at is None or other.ran_at is None


def other_ran_later(other: OtherPull, snapshot: Snapshot) -> bool:
    """What ran after the head may have met it on main."""
    head = snapshot.pr.head_committed_at
    return bool(head and other.ran_at and other.ran_at > head)


def other_ran_long_ago(other: OtherPull, snapshot: Snapshot) -> bool:
    """What ran more than a week before the head met another world."""
    head = snapshot.pr.head_committed_at
    return bool(head and other.ran_at and other.ran_at < head - WINDOW)


@dataclass(frozen=True, slots=True)
class Guards:
    """The guards that are kept."""

    bases: tuple[VoidBase, ...] = (base_is_the_head, base_is_later, base_is_undated, base_is_too_old)
    others: tuple[VoidOther, ...] = (
        other_may_be_stacked,
        other_may_be_the_authors,
        other_is_this_one,
        other_is_this_commit,
        other_is_undated,
        other_ran_later,
        other_ran_long_ago,
    )


GUARDS = Guards()
