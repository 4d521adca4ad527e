"""One piece of evidence, and how what is said about it is worded."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Strength = Literal["strong", "medium", "weak"]
RANK: dict[Strength, int] = {"strong": 0, "medium": 1, "weak": 2}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one rule found: its name, how much it weighs, one sentence, and where to look it up.

    `definite` marks guilt that needs no green base: what failed cannot have been there before.
    """

    rule: str
    strength: Strength
    says: str
    url: str | None = None
    sha: str | None = None
    definite: bool = False


def short(sha: str | None) -> str:
    """Return a commit's short name."""
    return sha[:12] if sha else "an unnamed commit"


def quote(text: str, limit: int = 160) -> str:
    """Return foreign text within a sentence; escaping is the renderer's work."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def day(at: datetime | None) -> str:
    """Return a date, or nothing."""
    return f" of {at:%Y-%m-%d}" if at else ""


def count(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
