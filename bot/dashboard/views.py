"""What all pages show alike, as frozen values; a page and its `.json` twin render the same value."""

from datetime import datetime, timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Tone = Literal["good", "bad", "unsure", "soft"]


class View(BaseModel):
    """A frozen value of a page."""

    model_config = ConfigDict(frozen=True)


class Page(View):
    """A page as a whole; `schema` tells readers of the JSON which form this is."""

    schema_: Literal[1] = Field(default=1, serialization_alias="schema")


class Asking(BaseModel):
    """What a page is asked for, by its address; other words in the address mean nothing."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    after: str = Field(default="", max_length=600)


class Badge(View):
    """A short answer with its tone; the word carries the meaning, the colour only repeats it."""

    text: str
    tone: Tone = "soft"


NOTHING = Badge(text="–")
PRIORITY_TONES: dict[str, Tone] = {"critical": "bad", "high": "bad", "medium": "unsure", "low": "soft"}
CI_BADGES = {
    "green": Badge(text="green", tone="good"),
    "pending": Badge(text="running"),
    "unrelated": Badge(text="red, unrelated", tone="good"),
    "unknown": Badge(text="red, unknown", tone="unsure"),
    "regression": Badge(text="red, regression", tone="bad"),
}
PERF_TONES: dict[str, Tone] = {
    "regression": "bad",
    "no_regression": "good",
    "improved": "good",
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
    word = "improved" if value.get("improved") else str(value.get("decision") or value.get("state") or "")
    change = value.get("change_pct")
    return perf_word_badge(word, float(change) if isinstance(change, int | float) else None)


def perf_word_badge(word: str, change_pct: float | None) -> Badge:
    """Return the badge of a performance decision's word, with the change where it is known."""
    if not word:
        return NOTHING
    shown = word.replace("_", " ")
    text = f"{shown} ({change_pct:+.1f} %)" if change_pct is not None else shown
    return Badge(text=text, tone=PERF_TONES.get(word, "soft"))


def age(since: datetime, now: datetime) -> str:
    """Say how long ago `since` was, in its largest whole unit (`3 d`, `5 h`, `2 min`)."""
    return span(max(now - since, timedelta(0)))


def span(passed: timedelta) -> str:
    """Say how long a time is, in its largest whole unit."""
    if passed.days:
        return f"{passed.days} d"
    hours, rest = divmod(passed.seconds, 3600)
    return f"{hours} h" if hours else f"{rest // 60} min"
