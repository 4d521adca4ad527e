"""Decisions, overrides and runs of one pull request -> its story, newest first. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from bot.dashboard.experiments import RunView, run_view
from bot.dashboard.views import Badge, Tone, View, ci_badge, perf_badge, priority_badge
from bot.db.models import Decision, Override, Run, RunState

TITLES = {
    "route": "Owners",
    "priority": "Priority",
    "ci": "Continuous integration",
    "perf": "Performance",
    "review": "Automated review",
    "self_review": "Self-review",
    "closed": "Closed",
    "override": "Priority set by hand",
    "ask": "One more reviewer",
    "skip": "Passed over",
    "pause": "Pause",
}
BADGES = {"priority": priority_badge, "ci": ci_badge, "perf": perf_badge}
RULING_TONES: dict[str, Tone] = {"regression": "bad", "unknown": "unsure", "unrelated": "good"}
KINDS = {
    "broken_trunk": "main is broken",
    "flaky": "flaky",
    "infra": "infrastructure",
    "known_issue": "known issue",
    "caused_by_pr": "caused by this pull request",
}
COMMANDS = ("cmd:", "page:")
MOST_REASONS = 40
MOST_TESTS = 40
DRAWN_RUNS = 5


class EvidenceView(View):
    """One reason of a verdict, and where to look it up."""

    says: str
    url: str | None = None
    sha: str | None = None


class FailureView(View):
    """Failures that are one: whose they are, what failed where, and all that speaks for it."""

    verdict: Badge
    kind: str
    count: int
    jobs: tuple[str, ...]
    tests: tuple[str, ...]
    platforms: tuple[str, ...]
    exceptions: tuple[str, ...]
    evidence: tuple[EvidenceView, ...]
    would_settle_it: str | None = None
    declared_by: str | None = None
    urls: tuple[tuple[str, str], ...] = ()


class Entry(View):
    """One thing that happened to a pull request, with what it rests on."""

    at: datetime
    kind: str
    title: str
    badge: Badge | None = None
    head_sha: str | None = None
    reasons: tuple[str, ...] = ()
    failures: tuple[FailureView, ...] = ()
    run: RunView | None = None


def tell(
    decisions: Iterable[Decision], runs: Sequence[Run], overrides: Iterable[Override] = ()
) -> tuple[Entry, ...]:
    """Return what happened, newest first; the newest runs are told whole, older ones lead to their page."""
    whole = drawn_runs(runs)
    entries = [
        *(of_decision(decision) for decision in decisions),
        *(of_run(run, run.id in whole) for run in runs),
        *(of_override(word) for word in overrides),
    ]
    return tuple(sorted(entries, key=lambda entry: entry.at, reverse=True))


def drawn_runs(runs: Sequence[Run]) -> frozenset[str]:
    """Return the ids of the newest runs that came to an end: those that are drawn."""
    done = [run.id for run in runs if run.state is RunState.DONE]
    return frozenset(done[:DRAWN_RUNS])


def of_decision(decision: Decision) -> Entry:
    """Return the entry of one decision."""
    kind, value = decision.kind, decision.value
    return Entry(
        at=decision.decided_at,
        kind=kind,
        title=title_of(kind),
        badge=BADGES[kind](value) if kind in BADGES else None,
        head_sha=decision.head_sha,
        reasons=reasons(kind, value)[:MOST_REASONS],
        failures=failures(value) if kind == "ci" else (),
    )


def title_of(kind: str) -> str:
    """Return a kind of decision as a heading."""
    if kind.startswith(COMMANDS):
        return "Command on a page" if kind.startswith("page:") else "Command"
    return TITLES.get(kind, kind.replace("_", " ").capitalize())


def of_run(run: Run, whole: bool) -> Entry:
    """Return the entry of one run of the runner lane."""
    view = run_view(run, whole=whole)
    by = view.requested_by
    told = ["asked for by the configuration" if by in ("", "paths") else f"asked for by {by}"]
    told += [f"of {', '.join(view.wanted)}"] if view.wanted else []
    told += [f"on {view.host_class}"] if view.host_class else []
    told += [text for text in (view.progress, view.error) if text]
    return Entry(
        at=run.finished_at or run.started_at or run.requested_at,
        kind="run",
        title="Experiment" if run.kind == "experiment" else f"Run of {run.kind}",
        badge=view.state,
        head_sha=run.head_sha,
        reasons=tuple(told),
        run=view,
    )


def of_override(word: Override) -> Entry:
    """Return the entry of a maintainer's word on a red job."""
    reason = f": {word.reason}" if word.reason else ""
    return Entry(
        at=word.at,
        kind="override",
        title="A maintainer's word",
        badge=Badge(text=word.verdict, tone=RULING_TONES.get(word.verdict, "bad")),
        reasons=(f"{word.by} on {word.job}{reason}",),
    )


def failures(value: Mapping[str, Any]) -> tuple[FailureView, ...]:
    """Return the groups of a CI decision, each with all its evidence."""
    return tuple(failure(group) for group in value.get("groups") or () if isinstance(group, Mapping))


def failure(group: Mapping[str, Any]) -> FailureView:
    """Return one group."""
    ruling, kind = str(group.get("ruling") or "unknown"), str(group.get("kind") or "")
    return FailureView(
        verdict=Badge(text=ruling, tone=RULING_TONES.get(ruling, "unsure")),
        kind=KINDS.get(kind, kind.replace("_", " ")),
        count=int(group.get("count") or 1),
        jobs=texts(group.get("jobs")),
        tests=texts(group.get("tests"))[:MOST_TESTS],
        platforms=texts(group.get("platforms")),
        exceptions=texts(group.get("exceptions")),
        evidence=tuple(
            EvidenceView(says=str(one.get("says") or ""), url=one.get("url"), sha=one.get("sha"))
            for one in group.get("evidence") or ()
        ),
        would_settle_it=group.get("would_settle_it"),
        declared_by=group.get("declared_by"),
        urls=tuple((str(name), str(url)) for name, url in group.get("urls") or ())[:20],
    )


def texts(values: Any) -> tuple[str, ...]:
    """Return a list's items as text."""
    return tuple(str(one) for one in values or ())


def reasons(kind: str, value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the reasons of a decision's value as sentences."""
    reader = of_word if kind.startswith(COMMANDS) else READERS.get(kind)
    return tuple(reader(value)) if reader else ()


def of_route(value: Mapping[str, Any]) -> Iterable[str]:
    """Yield whom was asked or why nobody, each owner's reasons, and what is odd about the ownership."""
    asked = value.get("ask") or ()
    if asked:
        yield f"asked: {', '.join(map(str, asked))}"
    elif value.get("not_asked_because"):
        yield f"nobody asked: {value['not_asked_because']}"
    for owner in value.get("owners") or ():
        yield f"{owner.get('login')}: {', '.join(map(str, owner.get('reasons') or ()))}"
    if value.get("approved_by"):
        yield f"approved by {', '.join(map(str, value['approved_by']))}"
    for path in (value.get("unowned_files") or ())[:10]:
        yield f"no owner: {path}"
    for drift in (value.get("drift") or ())[:10]:
        pages, lines = drift.get("page_owners") or (), drift.get("codeowners") or ()
        yield f"drift on {drift.get('path')}: page {names(pages)}; CODEOWNERS {names(lines)}"


def names(logins: Sequence[Any]) -> str:
    """Return logins as text."""
    return " ".join(map(str, logins)) or "nobody"


def of_priority(value: Mapping[str, Any]) -> Iterable[str]:
    """Yield each signal with its points."""
    if value.get("override_by"):
        yield f"set by {value['override_by']}"
    for reason in value.get("reasons") or ():
        yield f"{reason.get('signal')} ({reason.get('points', 0):+d})"
    if value.get("score") is not None:
        yield f"{value['score']} points in all"


def of_ci(value: Mapping[str, Any]) -> Iterable[str]:
    """Yield the red checks, and what could not be known."""
    if value.get("red"):
        yield f"red: {', '.join(map(str, value['red']))}"
    yield from map(str, value.get("notes") or ())


def of_perf(value: Mapping[str, Any]) -> Iterable[str]:
    """Yield why the gate decided as it did, and each case."""
    for text in (value.get("why"), value.get("error")):
        if text:
            yield str(text)
    cases = value.get("cases") or ()
    for case in cases if len(cases) > 1 else ():
        yield f"{case.get('case')}: {str(case.get('decision') or 'not decided').replace('_', ' ')}"


def of_review(value: Mapping[str, Any]) -> Iterable[str]:
    """Yield each finding of the automated review."""
    for finding in value.get("findings") or ():
        where = f"{finding.get('path')}:{finding.get('line')}: " if finding.get("path") else ""
        yield f"{where}{finding.get('says')} ({finding.get('rule')})"


def of_word(value: Mapping[str, Any]) -> Iterable[str]:
    """Yield the fields of a small decision."""
    for key, item in value.items():
        if item not in (None, "", [], {}):
            yield f"{key.replace('_', ' ')}: {', '.join(map(str, item)) if isinstance(item, list) else item}"


READERS: Mapping[str, Callable[[Mapping[str, Any]], Iterable[str]]] = {
    "route": of_route,
    "priority": of_priority,
    "ci": of_ci,
    "perf": of_perf,
    "review": of_review,
    **dict.fromkeys(("override", "ask", "skip", "pause", "closed"), of_word),
}
