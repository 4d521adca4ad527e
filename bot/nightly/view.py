"""From an episode's facts to what its issue shows. Pure."""

from bot.nightly.facts import EpisodeFacts
from bot.nightly.found import Nights
from bot.nightly.issue import IssueView, experiment_says, no_experiment
from bot.nightly.signs import signs
from bot.nightly.source import full_names
from bot.nightly.story import case_rows, fitting, night_rows, recovery, reference_of, suspects_of
from bot.nightly.values import way_of
from perf_runner.history.recovery import RecoveryReport, split_gap
from perf_runner.models import Decision


def issue_view(one: EpisodeFacts, nights: Nights, starts: bool) -> IssueView:
    """Return the view of one episode; `starts` says that its A/B is queued just now."""
    first = one.family.cases[0]
    suspects = suspects_of(one.between.touching if one.between else None)
    rows = night_rows(first, one.metric, suspects, one.holds)
    report = report_of(one)
    good = one.edge.good if one.edge else None
    flagged = one.edge.flagged if one.edge else None
    result = one.experiment.result if one.experiment else None
    decision = result.decision if result else None
    return IssueView(
        key=one.key,
        family=one.family.name,
        hardware=one.family.hardware,
        state=state_of(report),
        cases=case_rows(one.family, nights),
        nights=rows,
        suspects=suspects,
        fitting=fitting([row for row in rows if row.night <= one.family.last_night], suspects),
        good=good,
        flagged=flagged,
        commits=one.between.touching if one.between and good and flagged else None,
        total=one.between.total if one.between else 0,
        no_commits=one.history_says,
        decision=decision,
        experiment=experiment_text(one, starts, decision) if needs_one(one, report) else "",
        run_url=one.experiment.url if one.experiment else None,
        gap=gap_text(one, decision),
        signs=signs(one.family, nights),
        report=report,
        fix=one.fix.number if one.fix else None,
    )


def needs_one(one: EpisodeFacts, report: RecoveryReport | None) -> bool:
    """Say whether the A/B is worth a line: it exists, or the episode is not over."""
    return one.experiment is not None or state_of(report) != "recovered"


def report_of(one: EpisodeFacts) -> RecoveryReport | None:
    """Return what the nights after a fix, or after the last failing one, say."""
    fix = one.fix
    holds = None if fix is None else (lambda tip: one.holds(fix.sha, tip))
    return recovery(one.family.cases[0], one.metric, holds)


def state_of(report: RecoveryReport | None) -> str:
    """Return the episode's state."""
    if report is None:
        return "open"
    return report.state if report.state in ("recovered", "partly") else "open"


def experiment_text(one: EpisodeFacts, starts: bool, decision: Decision | None) -> str:
    """Return what the A/B says, how far it is, or why there is none."""
    edge = one.edge
    if edge is not None and edge.good is not None and (one.experiment is not None or starts):
        state = one.experiment.state.value if one.experiment else "queued"
        error = one.experiment.error if one.experiment else None
        result = one.experiment.result if one.experiment else None
        return experiment_says(
            edge.good.sha, edge.flagged.sha, decision, state, error or (result.error if result else None)
        )
    named = edge is not None and len(full_names([edge.flagged.sha, edge.good.sha if edge.good else ""])) == 2
    name = one.case.name if one.case else None
    return no_experiment(edge.good if edge else None, named, name, one.between is not None)


def gap_text(one: EpisodeFacts, decision: Decision | None) -> str:
    """Return the gap of the flagged night in two parts: what the A/B explains, and the rest."""
    value = one.metric.at(one.edge.flagged.night) if one.edge else None
    if decision is None or value is None:
        return ""
    reference = reference_of(one.family.cases[0], one.metric, value)
    try:
        return split_gap(reference, value.value, way_of(one.metric.series), decision).says
    except ValueError:
        return ""


def document(view: IssueView) -> dict[str, object]:
    """Return an episode's details as JSON, for pages."""
    return {
        "cases": [
            {
                "test": row.test,
                "config": row.config,
                "metric": row.metric,
                "latest": row.latest,
                "reference": row.reference,
                "change_pct": round(row.change_pct, 2),
                "days_failing": row.days,
                "since": row.since.isoformat(),
                "joined": row.joined,
            }
            for row in view.cases
        ],
        "decision": view.decision.decision.value if view.decision else None,
        "experiment": view.experiment,
        "gap": view.gap,
        "recovery": view.recovery,
        "fix": view.fix,
        "good": view.good.sha if view.good else None,
        "flagged": view.flagged.sha if view.flagged else None,
        "suspects": [{"sha": one.sha, "title": one.title} for one in (view.commits or ())[:15]],
        "signs": list(view.signs),
    }
