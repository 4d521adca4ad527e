"""`nightly`: starts the night's runs, keeps what they measured, and says each episode in one issue.

Subject `tick` sees whether a night is due; without a subject the whole of a repository's nights is judged.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal
from urllib.parse import quote

from sqlalchemy import select
from sqlalchemy.orm import Session

from bot.actions import Action, EnqueueRun, KeepEpisode, Mode, Target, UpsertIssue
from bot.clients import Clients
from bot.comments import Frame
from bot.config import RepoConfig
from bot.db.models import Run, RunState
from bot.db.nightly import Nightly
from bot.dispatch import Handler, JobSpec
from bot.gathering import repo_config
from bot.nightly.due import BY_NIGHT, drift_run, due_night, night_of, night_runs
from bot.nightly.facts import EpisodeFacts, episode_facts, first_result
from bot.nightly.found import Nights, read_nights
from bot.nightly.issue import IssueView, after_comment, body, title
from bot.nightly.kept import is_watched, marker_of, matched
from bot.nightly.queue import VERB, WHOLE
from bot.nightly.store import keep
from bot.nightly.view import document, issue_view
from bot.perf_defaults import with_default_perf
from perf_runner.config import NightlyConfig
from perf_runner.history.episodes import FAIL_BELOW_PCT
from perf_runner.history.measurements import Measurement, of_run
from perf_runner.models import Outcome

# A run that ended longer ago than this was kept long since.
KEPT_AFTER = timedelta(days=7)
MOST_EPISODES = 20


@dataclass(frozen=True)
class NightlyFacts:
    """What is due tonight, or (with `episodes`) what the nights say."""

    target: Target
    config: RepoConfig
    frame: Frame
    due: tuple[EnqueueRun, ...] = ()
    nights: Nights = field(default_factory=Nights)
    episodes: tuple[EpisodeFacts, ...] = ()


def gather(spec: JobSpec, clients: Clients) -> NightlyFacts | None:
    """Read configuration and tip of the default branch; then what is due, or what the nights say."""
    branch = clients.github.get(f"/branches/{quote(clients.repository.default_branch, safe='')}")
    if not branch:
        return None
    tip = str(branch["commit"]["sha"])
    config, problems = repo_config(clients.github, tip)
    if problems:
        return None
    config = with_default_perf(config, clients.github, tip)
    # No pull request: nothing here is about a head that may move, and shadow mode is minded in `decide`.
    target = Target(
        spec.repo_id, clients.repository.full_name, WHOLE, tip, clients.installation_id, Mode.COMMENT
    )
    frame = Frame(clients.github.who.handle, tip)
    if spec.subject == "tick":
        return NightlyFacts(target, config, frame, due=due_runs(spec, config, tip, clients))
    nights, episodes = judge(spec, config, clients)
    return NightlyFacts(target, config, frame, nights=nights, episodes=episodes)


def due_runs(spec: JobSpec, config: RepoConfig, tip: str, clients: Clients) -> tuple[EnqueueRun, ...]:
    """Return tonight's runs that are not there yet."""
    night = due_night(config.perf.nightly, clients.now)
    if night is None or config.perf.when == "never":
        return ()
    wanted = night_runs(spec.repo_id, config.perf, night, tip, ())
    with clients.sessions() as session:
        there = set(session.scalars(select(Run.id).where(Run.id.in_([one.run_id for one in wanted]))))
    return tuple(one for one in wanted if one.run_id not in there)


def judge(spec: JobSpec, config: RepoConfig, clients: Clients) -> tuple[Nights, tuple[EpisodeFacts, ...]]:
    """Keep what the night's runs measured, then return nights and episodes."""
    with clients.sessions() as session:
        measured = new_measurements(session, spec.repo_id, config.perf.nightly, clients.now)
        keep(session, spec.repo_id, measured, clients.now)
        clients.keep(session)
    with clients.sessions() as session:
        nights = read_nights(session, spec.repo_id)
        found = matched(session, spec.repo_id, nights.families, clients.now)
        clients.keep(session)
    newest = max((family.last_night for family in nights.families), default=None)
    watched = [(row, family) for row, family in found if newest and is_watched(row, newest)][:MOST_EPISODES]
    return nights, tuple(episode_facts(row, family, nights, config.perf, clients) for row, family in watched)


def new_measurements(
    session: Session, repo_id: int, config: NightlyConfig, now: datetime
) -> list[Measurement]:
    """Return what ended night runs measured that is not kept yet."""
    ended = select(Run).where(
        Run.repo_id == repo_id,
        Run.number == WHOLE,
        Run.requested_by == BY_NIGHT,
        Run.state == RunState.DONE,
        Run.requested_at > now - KEPT_AFTER,
    )
    runs = list(session.scalars(ended))
    known = set(session.scalars(select(Nightly.run_id).where(Nightly.run_id.in_([run.id for run in runs]))))
    found: list[Measurement] = []
    for run in runs:
        result = first_result(run.result) if run.id not in known else None
        if result is not None:
            found += of_run(result, night_of(run.requested_at, config), run.id)
    return found


def decide(facts: NightlyFacts, now: datetime) -> list[Action]:
    """Return the runs to start, and of each episode its A/B, its row and its issue: pure."""
    if facts.due:
        return [*facts.due]
    actions: list[Action] = []
    left = facts.config.perf.nightly.experiments
    for one in facts.episodes:
        started = experiment(one, facts) if left > 0 else []
        left -= len(started)
        view = issue_view(one, facts.nights, bool(started))
        actions += [*started, *kept(one, view), *issue(one, view, facts)]
    return actions


def experiment(one: EpisodeFacts, facts: NightlyFacts) -> list[Action]:
    """Return the A/B that an episode still needs: once for its two commits, not for one that is over."""
    edge = one.edge
    comparable = edge is not None and edge.good is not None and one.between is not None
    if not comparable or one.case is None or one.experiment is not None or one.state == "recovered":
        return []
    assert edge is not None
    assert edge.good is not None
    return [drift_run(facts.target.repo_id, facts.config.perf, one.case, edge.good.sha, edge.flagged.sha)]


def kept(one: EpisodeFacts, view: IssueView) -> list[Action]:
    """Return what is written back of an episode."""
    decision = view.decision
    values = {
        "state": view.state,
        "run_id": one.experiment.run_id if one.experiment else None,
        "explained_pct": decision.change_pct if decision else None,
        "explained_low_pct": decision.low_pct if decision else None,
        "explained_high_pct": decision.high_pct if decision else None,
        "data": document(view) | {"reopened_for": reopened_for(one, view)},
    }
    return [KeepEpisode(one.key, values)]


def reopened_for(one: EpisodeFacts, view: IssueView) -> int | None:
    """Return the fix for which the issue was opened again, so that it is done once."""
    again = wanted_state(one, view) == "open" and one.fix is not None
    return one.fix.number if again and one.fix else one.reopened_for


def issue(one: EpisodeFacts, view: IssueView, facts: NightlyFacts) -> list[Action]:
    """Return the issue as it should stand; nothing in shadow mode, or where none is wanted."""
    config = facts.config.perf.nightly
    if facts.config.mode is Mode.SHADOW or not config.issues:
        return []
    blamed = view.decision is not None and view.decision.decision is Outcome.REGRESSION
    fails = any(case.worst_pct < FAIL_BELOW_PCT and case.level is None for case in one.family.cases)
    long = fails and one.family.days_failing >= config.issue_after_days
    create = view.state != "recovered" and (blamed or long)
    if one.issue is None and not create:
        return []
    frame = replace(facts.frame, story_url=one.url)
    return [
        UpsertIssue(
            marker=marker_of(one.key),
            title=title(view),
            body=body(view, frame),
            labels=config.labels,
            number=one.issue,
            create=create,
            state=wanted_state(one, view),
            comment=after_comment(view, frame) if view.report else None,
        )
    ]


def wanted_state(one: EpisodeFacts, view: IssueView) -> Literal["open", "closed"] | None:
    """Return the issue's state where it changes: closed once recovered, open again where that was too early.

    What people do to it afterwards stays.
    """
    if view.state == "recovered":
        return "closed" if one.state != "recovered" else None
    failed_fix = one.fix is not None and view.report is not None and view.report.state in ("partly", "not")
    if failed_fix and one.fix is not None and one.reopened_for != one.fix.number:
        return "open"
    return "open" if one.state == "recovered" else None


HANDLER = Handler(VERB, gather, decide, lambda facts: facts.target)
