"""Every text that prgate posts: a view of a decision -> Markdown, by one template a text. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from typing import Any, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined

from bot import escape
from bot.commands import SPECS

MARKERS = ("route", "triage", "ci", "perf", "review")


@dataclass(frozen=True, slots=True)
class Frame:
    """What every comment carries: the head it speaks of, how we are called, and where the whole story is."""

    handle: str
    head_sha: str
    story_url: str | None = None


@dataclass(frozen=True, slots=True)
class OwnerLine:
    """One owner: only one who is asked is mentioned."""

    login: str
    asked: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModuleLine:
    """A module of the changed files; `weight_pct` is its share of the changed lines."""

    page: str
    weight_pct: int


@dataclass(frozen=True, slots=True)
class DriftLine:
    """A file for which module page and CODEOWNERS name different people."""

    path: str
    page_owners: tuple[str, ...]
    codeowners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RouteView:
    """The routing comment. `self_review`: `wanted` invites, `done` ticks it off, `off` says nothing.

    `waiting_for` says why nobody is asked yet; `ownership_change` what the pull request itself would change.
    """

    author: str
    owners: tuple[OwnerLine, ...]
    modules: tuple[ModuleLine, ...] = ()
    also_touches: tuple[str, ...] = ()
    waiting_for: str | None = None
    drift: tuple[DriftLine, ...] = ()
    unowned: tuple[str, ...] = ()
    ownership_change: tuple[str, ...] = ()
    approved_by: tuple[str, ...] = ()
    self_review: Literal["off", "wanted", "done"] = "off"
    self_review_url: str | None = None
    files_complete: bool = True


@dataclass(frozen=True, slots=True)
class PriorityView:
    """The triage note: level, and each signal with its points; `override_by` names who set it by hand."""

    level: str
    reasons: tuple[tuple[str, int], ...]
    override_by: str | None = None


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """One reason of a verdict, with where it can be looked up."""

    says: str
    url: str | None = None
    sha: str | None = None


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the templates' environment: a missing value is a fault, foreign text goes through a filter."""
    made = Environment(
        loader=PackageLoader("bot", "templates/comments"),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - Markdown, not HTML: every foreign value passes `escape`
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        text=escape.text,
        prose=escape.prose,
        code=escape.code,
        block=escape.block,
        login=escape.login,
        mention=escape.mention,
        sha=short,
        signed=signed,
    )
    made.filters.update(evidence=evidence_line)
    made.globals.update(link=escape.link)
    return made


def short(sha: str) -> str:
    """Return a commit's first 12 characters as a code span."""
    return escape.code(sha[:12])


def evidence_line(line: EvidenceLine) -> str:
    """Return one reason in Markdown, with its commit and its link."""
    where = [short(line.sha)] if line.sha else []
    where += [escape.link("see", line.url)] if line.url else []
    return f"{escape.prose(line.says)}{' (' + ', '.join(where) + ')' if where else ''}"


def signed(value: float) -> str:
    """Return a percentage with its sign: `+10.9 %`."""
    return f"{value:+.1f} %".replace("-", "\u2212")


def render(template: str, marker: str, frame: Frame, **values: Any) -> str:
    """Return one comment: its marker on the first line, its footer on the last, within GitHub's limit."""
    made = environment().get_template(f"{template}.md.j2")
    body = made.render(frame=frame, version=version("prgate"), at=f"@{frame.handle}", **values)
    tidy = "\n".join(line.rstrip() for line in body.strip().split("\n"))
    while "\n\n\n" in tidy:
        tidy = tidy.replace("\n\n\n", "\n\n")
    return escape.fit(f"{marker_line(marker)}\n{tidy}\n")


def marker_line(marker: str) -> str:
    """Return the hidden first line that a comment is found again by."""
    return f"<!-- prgate:{marker} -->"


def has_marker(body: str, marker: str) -> bool:
    """Say whether a comment's first line is the marker (GitHub gives lines back with CR LF)."""
    return body.lstrip().split("\n", 1)[0].strip() == marker_line(marker)


def same(left: str, right: str) -> bool:
    """Say whether two bodies are equal but for line ends and outer blanks, which GitHub may change."""
    return left.replace("\r\n", "\n").strip() == right.replace("\r\n", "\n").strip()


def route_note(view: RouteView, frame: Frame) -> str:
    """Return the routing comment."""
    return render("route", "route", frame, view=view)


def triage_note(view: PriorityView, frame: Frame) -> str:
    """Return the triage note."""
    return render("triage", "triage", frame, view=view)


def answer(marker: str, frame: Frame, paragraphs: Sequence[str]) -> str:
    """Return the answer to a comment, of ready Markdown paragraphs (foreign text in them is escaped)."""
    return render("answer", marker, frame, paragraphs=paragraphs)


def paragraph(template: str, frame: Frame, **values: Any) -> str:
    """Return a part of an answer: no marker, no footer."""
    made = environment().get_template(f"{template}.md.j2")
    return made.render(frame=frame, at=f"@{frame.handle}", **values).strip()


def help_text(frame: Frame) -> str:
    """Return the list of commands."""
    return paragraph("help", frame, specs=SPECS)


def refusal(frame: Frame, verb: str, needs: str, has: str) -> str:
    """Return what a person is told who may not give a command: what it needs, and what they have."""
    return paragraph("refusal", frame, verb=verb, needs=needs, has=has)


def misunderstanding(frame: Frame, said: str, suggestion: str | None) -> str:
    """Return the answer to something that is no command."""
    return paragraph("misunderstood", frame, said=said, suggestion=suggestion)
