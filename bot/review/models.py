"""What the review reads and says: frozen values in the form of the command line's contract."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Severity = Literal["high", "medium", "low"]
ORDER: dict[str, int] = {"high": 0, "medium": 1, "low": 2}


class ReviewRequest(BaseModel):
    """A pull request as text: its title, description and unified diff."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    title: str = ""
    body: str = ""
    diff: str = ""
    changed_files: tuple[Any, ...] = ()


class Finding(BaseModel):
    """One thing to put right; `line` is of the head's side, None where it is about the description."""

    model_config = ConfigDict(frozen=True)

    rule: str
    severity: Severity
    path: str | None = None
    line: int | None = None
    says: str
    do: str
    source: str


class Claim(BaseModel):
    """One performance claim of the description; `value_pct` above 0 is an improvement.

    `confirmed` says whether the percentage follows from the description's own tables, None when it has none.
    """

    model_config = ConfigDict(frozen=True)

    text: str
    metric: str | None = None
    value_pct: float | None = None
    hardware: str | None = None
    samples: int | None = None
    confirmed: bool | None = None
    complete: bool = False
    missing: tuple[str, ...] = ()


class Review(BaseModel):
    """All findings, the gravest first, and all claims in the order of the text."""

    model_config = ConfigDict(frozen=True)

    findings: tuple[Finding, ...] = ()
    claims: tuple[Claim, ...] = ()
