"""How the failure stands on the base branch: the strongest evidence there is, in both directions."""

from dataclasses import dataclass
from itertools import pairwise

from bot.ci.evidence import Evidence, count, day, quote, short
from bot.ci.nature import nature_of
from bot.ci.rules.match import Seen, seen_in
from bot.ci.scene import Base, Case, Scene
from bot.ci.snapshot import Job

MAINS_NEEDED = 2
EPISODES_NEEDED = 2


@dataclass(frozen=True, slots=True)
class OnBase:
    """How a failure stands on the merge base and on the runs of the base branch around it, oldest first."""

    merge_base: Seen | None
    base: Base | None
    mains: tuple[tuple[Base, Seen], ...] = ()

    @property
    def state(self) -> str:
        """Return the merge base's state; without a run of it, `not_run`."""
        return self.merge_base.state if self.merge_base else "not_run"

    @property
    def newest(self) -> tuple[Base, Seen] | None:
        """Return the newest other run that says anything about this failure."""
        told = [one for one in self.mains if one[1].state in ("same", "shape", "passed", "other")]
        return told[-1] if told else None

    @property
    def is_still_red(self) -> bool:
        """Say whether the newest run that tells shows the same failure, and the merge base did not pass."""
        newest = self.newest
        return self.state != "passed" and newest is not None and newest[1].state == "same"

    @property
    def reds(self) -> tuple[tuple[Base, Seen], ...]:
        """Return the other runs that show the same failure."""
        return tuple(one for one in self.mains if one[1].state == "same")


def look_at_base(case: Case, scene: Scene) -> OnBase:
    """Return how a failure stands on the base branch."""
    base = scene.merge_base
    return OnBase(
        merge_base=seen_in(case, base.jobs) if base else None,
        base=base,
        mains=tuple((main, seen_in(case, main.jobs)) for main in scene.mains),
    )


def same_signature_on_base(case: Case, scene: Scene, on_base: OnBase) -> Evidence | None:
    """The merge base shows the same failure, so it was there before the change."""
    if on_base.state != "same" or on_base.base is None or on_base.merge_base is None:
        return None
    job = on_base.merge_base.job
    what = f"`{case.failure.test}` fails" if case.failure.test else f"`{case.job.name}` fails"
    where = "" if job is None or job.name == case.job.name else f" in `{job.name}`"
    sha = on_base.base.run.sha
    says = (
        f"{what} the same way on the merge base {short(sha)}{where}{signature_of(case)}{numbers(case, job)}."
    )
    return Evidence("same_signature_on_base", "strong", says, url_of(job), sha)


def same_signature_on_main(case: Case, scene: Scene, on_base: OnBase) -> Evidence | None:
    """Several runs of the base branch before the head show the same failure, the newest too.

    Void for a change that may have been on the base branch itself.
    """
    if len(on_base.reds) < MAINS_NEEDED or scene.is_reland:
        return None
    newest = on_base.newest
    if newest is None or newest[1].state != "same":
        return None
    if on_base.state == "passed" and not all(is_after_merge_base(base, on_base) for base, _ in on_base.reds):
        return None
    sha = newest[0].run.sha
    branch = newest[0].run.branch or "the base branch"
    says = (
        f"The same failure is on {count(len(on_base.reds), 'run')} of {branch} "
        f"before this head, last {short(sha)}{day(newest[0].run.committed_at)}{last_green(on_base)}."
    )
    return Evidence("same_signature_on_main", "strong", says, url_of(newest[1].job), sha)


def is_after_merge_base(base: Base, on_base: OnBase) -> bool:
    """Say whether a run is of a commit after the merge base."""
    merge_base = on_base.base
    start = merge_base.run.committed_at if merge_base else None
    return bool(start and base.run.committed_at and base.run.committed_at > start)


def last_green(on_base: OnBase) -> str:
    """Return where the base branch last passed."""
    greens = [base for base, seen in on_base.mains if seen.state == "passed"]
    return f"; last green {short(greens[-1].run.sha)}" if greens else ""


def flickers_on_main(case: Case, scene: Scene, on_base: OnBase) -> Evidence | None:
    """The base branch turned red with this failure and green again, more than once, without this change."""
    told = [seen.state for _, seen in on_base.mains if seen.state in ("same", "passed")]
    episodes = sum(1 for before, after in pairwise(told) if before == "same" and after == "passed")
    if episodes < EPISODES_NEEDED or scene.is_reland:
        return None
    newest = on_base.reds[-1]
    says = f"The base branch shows this failure and passes again, {episodes} times before this head."
    return Evidence("flickers_on_main", "medium", says, url_of(newest[1].job), newest[0].run.sha)


def passed_on_base(case: Case, scene: Scene, on_base: OnBase) -> Evidence | None:
    """The merge base passed, so the change, the time between or chance made the failure."""
    if on_base.state != "passed" or on_base.base is None or on_base.merge_base is None:
        return None
    sha, job = on_base.base.run.sha, on_base.merge_base.job
    what = f"`{case.failure.test}` passed" if case.failure.test else f"`{case.job.name}` passed"
    where = f" in `{job.name}`" if job and case.failure.test else ""
    says = f"{what} on the merge base {short(sha)}{where}{build_of(job)}."
    return Evidence("passed_on_base", "medium", says, url_of(job), sha)


def passed_on_main(case: Case, scene: Scene, on_base: OnBase) -> Evidence | None:
    """The newest run of the base branch before the head passed; weaker than the merge base itself."""
    newest = on_base.newest
    if newest is None or newest[1].state != "passed":
        return None
    sha = newest[0].run.sha
    says = f"`{case.job.name}` passed on {short(sha)}{day(newest[0].run.committed_at)} of the base branch."
    return Evidence("passed_on_main", "weak", says, url_of(newest[1].job), sha)


def seen_once_on_main(case: Case, scene: Scene, on_base: OnBase) -> Evidence | None:
    """Some run of the base branch shows the same failure: not enough alone, but enough to doubt guilt."""
    if not on_base.reds:
        return None
    base, seen = on_base.reds[-1]
    again = " It may be this change itself, before it was reverted." if scene.is_reland else ""
    says = (
        f"The same failure is on {short(base.run.sha)}{day(base.run.committed_at)} of the base branch.{again}"
    )
    return Evidence("seen_on_main", "medium", says, url_of(seen.job), base.run.sha)


def fails_otherwise_on_base(case: Case, scene: Scene, on_base: OnBase) -> Evidence | None:
    """The merge base is red too, but with another failure; that clears nobody."""
    if on_base.state not in ("other", "shape") or on_base.base is None or on_base.merge_base is None:
        return None
    failure = on_base.merge_base.failure
    theirs = f": {quote(failure.message)}" if failure and failure.message else ""
    how = "with other values" if on_base.state == "shape" else "otherwise"
    says = f"`{case.failure.test or case.job.name}` fails {how} on the merge base{theirs}."
    return Evidence(
        "fails_otherwise_on_base", "weak", says, url_of(on_base.merge_base.job), on_base.base.run.sha
    )


def no_baseline(case: Case, scene: Scene, on_base: OnBase) -> Evidence | None:
    """The merge base says nothing: a missing baseline is not a green one."""
    if on_base.state not in ("not_run", "unreadable"):
        return None
    if scene.snapshot.pr.merge_base_sha is None:
        says = "The merge base is not known, so nothing can be compared with it."
    elif on_base.state == "unreadable":
        says = (
            f"`{case.job.name}` is red on the merge base, but its log tells nothing that could be compared."
        )
    else:
        says = f"`{case.job.name}` did not run on the merge base {short(scene.snapshot.pr.merge_base_sha)}."
    return Evidence("no_baseline", "weak", says, None, scene.snapshot.pr.merge_base_sha)


def signature_of(case: Case) -> str:
    """Return the signature, for a sentence."""
    signature = case.failure.signature
    if signature is None:
        return ""
    text = ": ".join(part for part in (signature.exception, quote(signature.message, 120)) if part)
    return f" ({text})" if text else ""


def numbers(case: Case, job: Job | None) -> str:
    """Return the figures that time-outs need: how long the step ran here and there."""
    if nature_of(case.failure) != "timeout" or job is None:
        return ""
    here, there = case.job.seconds, job.seconds
    return f" after {there / 60:.0f} min there and {here / 60:.0f} min here" if here and there else ""


def build_of(job: Job | None) -> str:
    """Return a job's build, for a sentence."""
    return f", build {job.build}" if job and job.build else ""


def url_of(job: Job | None) -> str | None:
    """Return a job's address."""
    return job.url if job else None
