"""Machines and services: a line of the closed list is a hint; it needs a clean log and a witness."""

from bot.ci.evidence import Evidence, quote
from bot.ci.rules.base import url_of
from bot.ci.scene import Case, Run, Scene
from bot.ci.snapshot import Job

NEVER_STARTED = frozenset({-1, 125, 128, 255})
SURE = frozenset(
    {"agent lost", "checkout failed", "image pull failed", "container runtime failed", "rate limited"}
)
HOST_SHARE = 3
SHORT_SHARE = 0.5


def is_machines_fault(case: Case) -> bool:
    """Say whether a job's log names a machine's fault and no test, build or other finding at all."""
    reading = case.reading
    if not reading.infra:
        return False
    return not reading.ran and all(
        failure.category in ("job", "build") and (failure.signature is None or in_mark(failure.message, case))
        for failure in reading.failures
    )


def usually_runs(case: Case, scene: Scene) -> bool:
    """Say whether the job is known to run elsewhere, so that this change did not invent it."""
    runs = [*(base.jobs for base in scene.bases), *(other.jobs for other in scene.others)]
    if any(
        run.jobs[place].conclusion == "passed" for run in runs for place in run.by_name.get(case.job.name, [])
    ):
        return True
    return any(one.name == case.job.name and (one.passed or 0) > 0 for one in scene.snapshot.job_history)


def in_mark(message: str, case: Case) -> bool:
    """Say whether a job's last error is the machine's line itself."""
    return any(message[:80] in mark.line or mark.line in message for mark in case.reading.infra)


def infra_line(case: Case, scene: Scene) -> Evidence | None:
    """The log holds a line that only machines write. Alone it is weak."""
    if not case.reading.infra:
        return None
    mark = case.reading.infra[0]
    tests = " But tests failed too." if case.reading.ran else ""
    says = f"The log says `{mark.name}`: {quote(mark.line)}.{tests}"
    return Evidence("infra_line", "weak", says, url_of(case.job))


def infra_elsewhere(case: Case, scene: Scene) -> Evidence | None:
    """The same machine's fault hit the base branch or another pull request before this head."""
    names = {mark.name for mark in case.reading.infra}
    if not names:
        return None
    witnesses = [
        (base.jobs, f"the base branch at {(base.run.sha or '')[:12]}", base.run.sha) for base in scene.bases
    ]
    witnesses += [(one.jobs, f"#{one.pull.number}", one.pull.head_sha) for one in scene.others]
    for run, where, sha in witnesses:
        job = struck(run, names)
        if job:
            says = f"The same fault hit `{job.name}` on {where}."
            return Evidence("infra_elsewhere", "medium", says, url_of(job), sha)
    return None


def struck(run: Run, names: set[str]) -> Job | None:
    """Return a job of a run that one of these faults hit, with no test failing in it."""
    for place, reading in run.readings.items():
        if not reading.ran and names & {mark.name for mark in reading.infra}:
            return run.jobs[place]
    return None


def nothing_ran(case: Case, scene: Scene) -> Evidence | None:
    """No test ran, and the job ended by an exit status or a line that only machines give.

    Where the changed files are not all known, the job must have ended before its own commands began, and must
    be known to run elsewhere: else the change may have broken the job itself.
    """
    reading = case.reading
    by_status = case.job.exit_status in NEVER_STARTED
    by_line = any(mark.name in SURE for mark in reading.infra) and usually_runs(case, scene)
    unread = case.job.log is None and not scene.files_known
    if reading.ran or unread or not (by_status or (by_line and scene.files_known)):
        return None
    if not scene.files_known and (reading.started or not usually_runs(case, scene)):
        return None
    when = "before any test ran" if reading.started else "before its own commands began"
    says = f"`{case.job.name}` ended with exit status {case.job.exit_status} {when}."
    return Evidence("nothing_ran", "medium", says, url_of(case.job))


def one_host(case: Case, scene: Scene) -> Evidence | None:
    """One machine holds most of the head's red jobs, and the base passed them on other machines."""
    agent = case.job.agent
    red = [job for job in scene.head.jobs if job.is_failure and job.agent]
    mine = {job.name for job in red if job.agent == agent}
    if not agent or len(mine) < HOST_SHARE or 2 * len(mine) < len({job.name for job in red}):
        return None
    base = scene.merge_base
    green = {
        job.name
        for job in (base.jobs.jobs if base else ())
        if job.conclusion == "passed" and job.agent and job.agent != agent
    }
    if not mine <= green:
        return None
    says = f"`{agent}` holds {len(mine)} red jobs; all of them passed on other hosts on the merge base."
    return Evidence("one_host", "medium", says, None, base.run.sha if base else None)


def odd_duration(case: Case, scene: Scene) -> Evidence | None:
    """The job ended long before it usually does."""
    history = next((one for one in scene.snapshot.job_history if one.name == case.job.name), None)
    seconds = case.job.seconds
    if history is None or not history.median_seconds or not seconds:
        return None
    if seconds > SHORT_SHARE * history.median_seconds:
        return None
    says = f"It ended after {seconds / 60:.0f} min; {history.median_seconds / 60:.0f} min are usual."
    return Evidence("odd_duration", "weak", says)


def job_record(case: Case, scene: Scene) -> Evidence | None:
    """How often the job failed on the base branch lately."""
    history = next((one for one in scene.snapshot.job_history if one.name == case.job.name), None)
    if (
        history is None
        or history.passed is None
        or history.failed is None
        or not history.passed + history.failed
    ):
        return None
    total = history.passed + history.failed
    says = f"`{case.job.name}` failed {history.failed} of {total} times in {history.window_days or '?'} days."
    return Evidence("job_record", "weak", says)
