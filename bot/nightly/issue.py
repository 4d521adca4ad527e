"""What an episode's issue says: view, headline, advice, comment after a fix. Pure."""

from dataclasses import dataclass

from bot.comments import Frame, render, signed
from bot.escape import code, one_line
from bot.nightly.kept import marker_of
from bot.nightly.source import Commit
from bot.nightly.story import CaseRow, NightRow
from perf_runner.history.recovery import RecoveryReport
from perf_runner.history.tips import Tip
from perf_runner.models import Decision, Outcome

SHOWN_CASES = 20
SHOWN_COMMITS = 15
HELD = {
    "open": "slower",
    "partly": "partly recovered",
    "recovered": "recovered",
}


@dataclass(frozen=True)
class IssueView:
    """Everything that the issue shows; `experiment` and `gap` are sentences, `commits` None: not known."""

    key: str
    family: str
    hardware: str
    state: str
    cases: tuple[CaseRow, ...]
    nights: tuple[NightRow, ...]
    suspects: tuple[str, ...] = ()
    fitting: frozenset[str] = frozenset()
    good: Tip | None = None
    flagged: Tip | None = None
    commits: tuple[Commit, ...] | None = None
    total: int = 0
    no_commits: str = ""
    decision: Decision | None = None
    experiment: str = ""
    run_url: str | None = None
    gap: str = ""
    signs: tuple[str, ...] = ()
    report: RecoveryReport | None = None
    fix: int | None = None

    @property
    def worst(self) -> CaseRow:
        """Return the case that lost most."""
        return min(self.cases, key=lambda row: row.change_pct)

    @property
    def recovery(self) -> str:
        """Return what the nights say after the fix."""
        if self.report is None:
            return ""
        return f"{STATES[self.report.state]}: {self.report.says}"


STATES = {
    "recovered": "recovered",
    "partly": "recovered in part",
    "not": "not recovered",
    "too early": "too early to say",
}


def title(view: IssueView) -> str:
    """Return the issue's title: plain text on one line."""
    worst = view.worst
    more = f" and {len(view.cases) - 1} more" if len(view.cases) > 1 else ""
    where = f" on {view.hardware}" if view.hardware else ""
    name = one_line(worst.config or worst.test, 80)
    model = f"{view.family}: " if view.family != name else ""
    return one_line(f"[Nightly] {model}{name}{more} {signed(worst.change_pct)}{where}", 200)


def body(view: IssueView, frame: Frame) -> str:
    """Return the issue's text, its marker first."""
    return render(
        "nightly",
        marker_of(view.key),
        frame,
        view=view,
        headline=headline(view),
        advice=advice(view),
        shown_cases=SHOWN_CASES,
        shown_commits=SHOWN_COMMITS,
    )


def headline(view: IssueView) -> str:
    """Return the first line: what, since when, and whose it is as far as is known."""
    since = min(row.since for row in view.cases)
    days = max(row.days for row in view.cases)
    if view.state == "recovered":
        return f"Nightly: recovered, failed since {since}"
    blame = {
        Outcome.REGRESSION: "the code got slower",
        Outcome.NO_REGRESSION: "the code did not get slower: host or environment",
        Outcome.INCONCLUSIVE: "code or host is not decided",
        None: "code or host is not known yet",
    }[view.decision.decision if view.decision else None]
    failing = f"failing for {days} day{'s' if days != 1 else ''}"
    return f"Nightly: {HELD[view.state]} since {since}, {failing}; {blame}"


def advice(view: IssueView) -> str:
    """Return what to do next, in Markdown."""
    if view.state == "recovered":
        return "Nothing to do; a night that fails again opens this issue again."
    decided = view.decision.decision if view.decision else None
    if decided is Outcome.REGRESSION and view.good and view.flagged:
        names = f"{code(view.good.sha[:12])}..{code(view.flagged.sha[:12])}"
        return f"Find the commit: a bisect of {names} names it. The commits that could be it are below."
    if decided is Outcome.NO_REGRESSION:
        return "Look at the host: both commits are equally fast on one machine, a revert would not help."
    if decided is Outcome.INCONCLUSIVE:
        return "The A/B ended without an answer: noise hides it. A longer one, or a quieter host, may decide."
    return "Wait for the A/B of last good and flagged commit on one host; a series alone decides nothing."


def after_comment(view: IssueView, frame: Frame) -> str:
    """Return the comment that says what came after the fix."""
    return render("nightly_after", f"{marker_of(view.key)}-after", frame, view=view)


def experiment_says(good: str, flagged: str, decision: Decision | None, state: str, error: str | None) -> str:
    """Return what the A/B of two commits says, or how far it is."""
    names = f"`{good[:12]}` against `{flagged[:12]}`"
    if decision is None:
        waiting = {"queued": "waits for a runner", "running": "is being measured"}.get(state)
        return f"{names} {waiting}." if waiting else f"{names} could not be measured: {error or 'no result'}."
    words = {
        Outcome.REGRESSION: "it is the code",
        Outcome.NO_REGRESSION: "it is not the code, but the host or the environment",
        Outcome.INCONCLUSIVE: "it cannot be told",
    }[decision.decision]
    return f"{names}: {words} – {interval(decision)} in {decision.runs_used} runs (above 0 is slower)."


def interval(decision: Decision) -> str:
    """Return a change with its interval."""
    if decision.change_pct is None or decision.low_pct is None or decision.high_pct is None:
        return "no accepted block"
    low, high = signed(decision.low_pct), signed(decision.high_pct)
    return f"{signed(decision.change_pct)} ({low} to {high})"


def no_experiment(good: Tip | None, known_shas: bool, case_name: str | None, readable: bool) -> str:
    """Return why no A/B was started."""
    if good is None:
        return "no good night is known, so there is nothing to compare with."
    if not known_shas:
        return "the nights do not name their commits in full, so they cannot be compared on one host."
    if case_name is None:
        return "no case of this name is in `[[perf.cases]]`, so the two commits cannot be compared here."
    if not readable:
        return "the two commits cannot be fetched, so they cannot be compared."
    return "this night's A/Bs are used up; the next look starts one."
