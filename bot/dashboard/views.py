"""What the pages show, as frozen values; a page and its `.json` twin render the same value."""

from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Tone = Literal["good", "bad", "unsure", "soft"]


class View(BaseModel):
    """A frozen value of a page; `schema` tells readers of the JSON which form this is."""

    model_config = ConfigDict(frozen=True)


class Badge(View):
    """A short answer with its tone; the word carries the meaning, the colour only repeats it."""

    text: str
    tone: Tone = "soft"


class QueueRow(View):
    """One open pull request of the queue."""

    repo: str
    number: int
    title: str
    author: str
    draft: bool
    opened_at: datetime
    priority: Badge
    score: int
    owners: tuple[str, ...]
    ci: Badge
    perf: Badge


class QueuePage(View):
    """A keyset page of the queue, most urgent first; `next` opens the following page."""

    schema_: Literal[1] = Field(default=1, serialization_alias="schema")
    items: tuple[QueueRow, ...]
    next: str | None = None


class Entry(View):
    """One thing that happened to a pull request: a decision, an answer or a run, with what it rests on."""

    at: datetime
    kind: str
    title: str
    badge: Badge | None = None
    head_sha: str | None = None
    reasons: tuple[str, ...] = ()
    detail: Any = None


class PullPage(View):
    """The story of one pull request, newest first."""

    schema_: Literal[1] = Field(default=1, serialization_alias="schema")
    repo: str
    number: int
    title: str
    author: str
    state: str
    draft: bool
    head_sha: str
    url: str
    story: tuple[Entry, ...]


NOTHING = Badge(text="–")
PRIORITY_TONES: dict[str, Tone] = {"critical": "bad", "high": "bad", "medium": "unsure", "low": "soft"}
CI_BADGES = {
    "green": Badge(text="green", tone="good"),
    "unrelated": Badge(text="red, unrelated", tone="good"),
    "unknown": Badge(text="red, unknown", tone="unsure"),
    "regression": Badge(text="red, regression", tone="bad"),
}
PERF_TONES: dict[str, Tone] = {
    "regression": "bad",
    "no_regression": "good",
    "inconclusive": "unsure",
    "failed": "unsure",
}


def priority_badge(value: dict[str, Any] | None) -> Badge:
    """Return the badge of a priority decision's value (`{"level": …}`)."""
    level = str((value or {}).get("level", ""))
    return Badge(text=level, tone=PRIORITY_TONES.get(level, "soft")) if level else NOTHING


def ci_badge(value: dict[str, Any] | None) -> Badge:
    """Return the badge of a CI decision's value (`{"overall": …}`)."""
    return CI_BADGES.get(str((value or {}).get("overall", "")), NOTHING)


def perf_badge(value: dict[str, Any] | None) -> Badge:
    """Return the badge of a performance decision's value (`{"state": …, "decision": …, "change_pct": …}`)."""
    value = value or {}
    word = str(value.get("decision") or value.get("state") or "")
    if not word:
        return NOTHING
    change = value.get("change_pct")
    shown = "improved" if value.get("improved") else word.replace("_", " ")
    text = f"{shown} ({change:+.1f} %)" if isinstance(change, int | float) else shown
    return Badge(text=text, tone=PERF_TONES.get(word, "soft"))


def age(since: datetime, now: datetime) -> str:
    """Say how long ago `since` was, in its largest whole unit (`3 d`, `5 h`, `2 min`)."""
    passed = max(now - since, timedelta(0))
    if passed.days:
        return f"{passed.days} d"
    hours, rest = divmod(passed.seconds, 3600)
    return f"{hours} h" if hours else f"{rest // 60} min"
