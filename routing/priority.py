"""Says how urgent a pull request is, from signals that anyone can check; each is shown with its points.

What people said (labels, an override) weighs most. What is only seen (age, size, a title's prefix, a new
author) is soft: alone it never makes a pull request high, since that is how everything ends up urgent.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from routing.config import PriorityConfig
from routing.models import Level, Module, Priority, PullRequest, Reason, in_utc
from routing.paths import name_set

SEPARATORS = re.compile(r"[\s\-_:/.]+")
FIX_TAGS = frozenset({"bugfix", "bug", "fix", "fixes", "hotfix"})
FIX_START = re.compile(r"(?:bug[ -]?fix|fix|fixes|hotfix)\b")
REGRESSION = re.compile(r"\b(?:regression|regressed|revert|reverts)\b", re.IGNORECASE)
NEW_AUTHORS = frozenset({"FIRST_TIME_CONTRIBUTOR", "FIRST_TIMER"})
SIZES = ((10, "XS"), (30, "S"), (100, "M"), (500, "L"), (1000, "XL"))
LARGEST = "XXL"
MAX_TITLE = 400


def prioritize(  # noqa: PLR0913
    pr: PullRequest,
    config: PriorityConfig,
    now: datetime,
    modules: Sequence[Module] = (),
    perf_regression: bool = False,
    main_is_red: bool = False,
    override: str | None = None,
) -> Priority:
    """Return level, score and reasons. `override` is a maintainer's word; ValueError if it is no level."""
    points = label_points(config.labels)
    told = [*label_reasons(pr, points), *issue_reasons(pr, points)]
    told += situation(pr, config, perf_regression, main_is_red)
    soft = [*title_reasons(pr, config), *module_reasons(modules, config), *state_reasons(pr, config)]
    soft += [*size_reasons(pr, config), *age_reasons(pr, config, now)]
    reasons = [reason for reason in capped(told, soft, config) if reason.points]
    score = sum(reason.points for reason in reasons)
    level = level_of(score, config)
    if override is not None:
        level = read_level(override)
        reasons = [Reason(signal=f"set to {level} by a maintainer", points=0), *reasons]
    return Priority(level=level, score=score, reasons=tuple(reasons))


def read_level(text: str) -> Level:
    """Return the level of a word. ValueError names those there are."""
    try:
        return Level(text.strip().lower())
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no priority; say {', '.join(Level)}") from None


def level_of(score: int, config: PriorityConfig) -> Level:
    """Return the level of a score; medium where nothing speaks for or against."""
    if score >= config.critical_from:
        return Level.CRITICAL
    if score >= config.high_from:
        return Level.HIGH
    return Level.LOW if score < config.low_below else Level.MEDIUM


def capped(told: list[Reason], soft: list[Reason], config: PriorityConfig) -> list[Reason]:
    """Return all reasons, with what holds soft signals to their limit and the unlabelled below critical."""
    reasons = [*told, *soft]
    over = sum(reason.points for reason in soft) - config.soft_limit
    if over > 0:
        reasons.append(Reason(signal=f"soft signals count for at most {config.soft_limit}", points=-over))
    over = sum(reason.points for reason in reasons) - (config.critical_from - 1)
    if over > 0 and not any(reason.points >= config.critical_from for reason in told):
        reasons.append(Reason(signal="only a label makes it critical", points=-over))
    return reasons


def label_words(label: str) -> str:
    """Return a label's words in one order: `priority: high`, `high-priority` and `High Priority` are one."""
    return " ".join(sorted(SEPARATORS.sub(" ", label.lower()).split()))


def label_points(labels: Mapping[str, int]) -> dict[str, int]:
    """Return the points of labels by their words."""
    return {label_words(label): points for label, points in labels.items()}


def worth(labels: Iterable[str], points: Mapping[str, int]) -> dict[int, str]:
    """Return the labels that count, by their points: of labels that say the same, the first."""
    found: dict[int, str] = {}
    for label in labels:
        value = points.get(label_words(label), 0)
        if value:
            found.setdefault(value, said(label))
    return found


def label_reasons(pr: PullRequest, points: Mapping[str, int]) -> list[Reason]:
    """Return what labels on the pull request say."""
    found = worth(pr.labels, points)
    return [Reason(signal=f"labelled {label}", points=value) for value, label in found.items()]


def issue_reasons(pr: PullRequest, points: Mapping[str, int]) -> list[Reason]:
    """Return what the labels of linked issues say; what several issues say counts once."""
    found: dict[int, Reason] = {}
    for issue in pr.linked_issues:
        for value, label in worth(issue.labels, points).items():
            signal = f"linked issue #{issue.number} is {label}"
            found.setdefault(value, Reason(signal=signal, points=value))
    return list(found.values())


def said(label: str) -> str:
    """Return a label as text for a sentence: one line, not too long."""
    return " ".join(label.split())[:60]


def situation(
    pr: PullRequest, config: PriorityConfig, perf_regression: bool, main_is_red: bool
) -> list[Reason]:
    """Return what was measured: a slower pull request, and a red main that this one may mend."""
    found = []
    if perf_regression:
        found.append(
            Reason(signal="a performance regression was measured", points=config.performance_regression)
        )
    if main_is_red and mends_main(pr):
        found.append(Reason(signal="main is red and this looks like a fix", points=config.main_is_red))
    return found


def mends_main(pr: PullRequest) -> bool:
    """Say whether it may turn main green: a fix, a revert, or one for an issue about failing CI."""
    labels = {label_words(label) for issue in pr.linked_issues for label in issue.labels}
    return is_fix(pr.title) or is_regression(pr.title) or label_words("ci failure") in labels


def is_fix(title: str) -> bool:
    """Say whether a title begins as a bugfix does: `[Bugfix]` among its tags, or `fix:`."""
    tags, rest = title_parts(title)
    return not tags.isdisjoint(FIX_TAGS) or FIX_START.match(rest.lower()) is not None


def is_regression(title: str) -> bool:
    """Say whether a title speaks of a regression or takes something back."""
    return REGRESSION.search(title[:MAX_TITLE]) is not None


def title_parts(title: str) -> tuple[frozenset[str], str]:
    """Return the bracketed tags at the start of a title, in lower case, and the rest."""
    rest, tags = title[:MAX_TITLE].lstrip(), set()
    while rest.startswith("[") and "]" in rest:
        tag, _, rest = rest[1:].partition("]")
        tags.add(SEPARATORS.sub("", tag.lower()))
        rest = rest.lstrip()
    return frozenset(tags), rest


def title_reasons(pr: PullRequest, config: PriorityConfig) -> list[Reason]:
    """Return what the title's prefix says, the stronger of two."""
    found = []
    if is_regression(pr.title):
        found.append(
            Reason(signal="the title speaks of a regression or a revert", points=config.title_regression)
        )
    if is_fix(pr.title):
        found.append(Reason(signal="the title says bugfix", points=config.title_fix))
    return sorted(found, key=lambda reason: -reason.points)[:1]


def module_reasons(modules: Sequence[Module], config: PriorityConfig) -> list[Reason]:
    """Return whether a module that names required reviewers is changed."""
    pages = [module.page for module in modules if module.required_reviewers]
    if not pages:
        return []
    return [
        Reason(signal=f"changes {pages[0]}, which names required reviewers", points=config.required_reviewers)
    ]


def state_reasons(pr: PullRequest, config: PriorityConfig) -> list[Reason]:
    """Return what state the pull request is in, and whose move it is."""
    found = []
    if pr.draft:
        found.append(Reason(signal="it is a draft", points=config.draft))
    elif pr.waiting_on == "author":
        found.append(Reason(signal="it waits for its author", points=config.waiting_for_author))
    if pr.ci in ("green", "red"):
        points = config.ci_green if pr.ci == "green" else config.ci_red
        found.append(Reason(signal=f"CI is {pr.ci}", points=points))
    if pr.author_association.upper() in NEW_AUTHORS:
        found.append(Reason(signal="the author's first contribution here", points=config.first_time_author))
    return found


def size_reasons(pr: PullRequest, config: PriorityConfig) -> list[Reason]:
    """Return whether it is quick to review, or long."""
    lines = changed_lines(pr, config.generated)
    if lines <= config.small_lines:
        return [Reason(signal=f"small: {lines} changed lines", points=config.small)]
    if lines >= config.large_lines:
        return [Reason(signal=f"large: {lines} changed lines", points=config.large)]
    return []


def age_reasons(pr: PullRequest, config: PriorityConfig, now: datetime) -> list[Reason]:
    """Return how long it has waited for others; a draft and one that waits for its author do not age."""
    if pr.created_at is None or pr.draft or pr.waiting_on == "author":
        return []
    days = (in_utc(now) - pr.created_at).days
    if days < config.waiting_days:
        return []
    points = config.waiting_long if days >= config.waiting_long_days else config.waiting_for_us
    return [Reason(signal=f"open for {days} days", points=points)]


def changed_lines(pr: PullRequest, generated: tuple[str, ...]) -> int:
    """Return the changed lines without the files that machines write."""
    names = name_set(generated)
    return sum(file.lines for file in pr.changed_files if names.find(file.path) is None)


def size_label(pr: PullRequest, config: PriorityConfig) -> str:
    """Return the label of the size, from `size/XS` (under 10 lines) to `size/XXL` (1,000 and more)."""
    lines = changed_lines(pr, config.generated)
    return f"size/{next((name for limit, name in SIZES if lines < limit), LARGEST)}"


def priority_label(level: Level) -> str:
    """Return the label that stands for a level when labels are kept in sync."""
    return f"priority: {level}"
