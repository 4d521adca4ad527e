"""What the commands have in common: the facts of a comment, and the form of a reply."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.actions import Action
from bot.ci_note import FailureGroup
from bot.commands import Command, Said
from bot.escape import code
from bot.gathering import Look
from bot.handlers.perf import RunFacts
from bot.review.models import Review


@dataclass(frozen=True, slots=True)
class CommandFacts:
    """A comment, what it says to us, who wrote it, and what the commands in it need to know.

    `done` are the commands that this comment gave before an edit. `head_was_there`: the head is the one
    that the comment's author could see. `third` is what `vs REV` resolved to.
    """

    look: Look
    comment_id: int
    kind: str
    author: str
    level: str
    said: tuple[Said, ...]
    done: tuple[str, ...] = ()
    head_was_there: bool = False
    merge_base_sha: str | None = None
    third: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[RunFacts, ...] = ()
    review: Review | None = None
    review_problem: str | None = None

    @property
    def at(self) -> str:
        """How we are addressed."""
        return f"@{self.look.frame.handle}"

    def memory(self, kind: str) -> Mapping[str, Any]:
        """Return the latest decision of a kind."""
        return self.look.memory.get(kind, {})


@dataclass(frozen=True, slots=True)
class Reply:
    """What a command answers (Markdown paragraphs, none: silence but for the reaction) and does."""

    paragraphs: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()


Answer = Callable[[CommandFacts, Command, datetime], Reply]


def says(*paragraphs: str, actions: tuple[Action, ...] = ()) -> Reply:
    """Return a reply of these paragraphs."""
    return Reply(paragraphs, actions)


def red_groups(facts: CommandFacts) -> tuple[FailureGroup, ...]:
    """Return the failure groups of the latest CI verdict on this head."""
    value = facts.memory("ci")
    if value.get("head_sha") not in (None, facts.look.target.head_sha):
        return ()
    return tuple(FailureGroup.from_value(one) for one in value.get("groups", ()))


def match_job(name: str, groups: tuple[FailureGroup, ...]) -> str | None:
    """Return the red job that is meant: equal, else the only one that contains it, else a near miss."""
    jobs = list(dict.fromkeys(job for group in groups for job in group.jobs))
    wanted = name.strip(" `\"'").casefold()
    equal = [job for job in jobs if job.casefold() == wanted]
    inside = [job for job in jobs if wanted and wanted in job.casefold()]
    if equal or len(inside) == 1:
        return (equal or inside)[0]
    near = difflib.get_close_matches(wanted, [job.casefold() for job in jobs], n=1, cutoff=0.75)
    return next((job for job in jobs if near and job.casefold() == near[0]), None)


def no_such_job(name: str, groups: tuple[FailureGroup, ...]) -> str:
    """Return what is said where no red job is meant."""
    jobs = list(dict.fromkeys(job for group in groups for job in group.jobs))
    if not jobs:
        return "No red job of this head is known."
    listed = ", ".join(code(job) for job in jobs[:20])
    return f"No red job of this head is called {code(name)}. Red: {listed}."
