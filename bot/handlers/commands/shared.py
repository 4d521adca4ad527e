"""What the commands have in common: the facts of a comment, and the form of a reply."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.actions import Action
from bot.ci_note import FailureGroup
from bot.commands import Command, Said
from bot.escape import code
from bot.gathering import Look
from bot.handlers.perf import RunFacts
from bot.rerunning import RedJob
from bot.review.models import Review


@dataclass(frozen=True, slots=True)
class CommandFacts:
    """A comment, what it says to us, who wrote it, and what the commands in it need to know.

    `done` are the commands that this comment gave before an edit. `head_was_there`: the head is the one
    that the comment's author could see. `revisions` are the commits of those that were named; `red_jobs` are
    read for `retry` alone.
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
    revisions: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[RunFacts, ...] = ()
    red_jobs: tuple[RedJob, ...] = ()
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
    return best_name(name, [job for group in groups for job in group.jobs])


def best_name(name: str, names: Sequence[str]) -> str | None:
    """Return the name that is meant: equal, else the only one that contains it, else a near miss."""
    known = list(dict.fromkeys(names))
    wanted = name.strip(" `\"'").casefold()
    equal = [one for one in known if one.casefold() == wanted]
    inside = [one for one in known if wanted and wanted in one.casefold()]
    if equal or len(inside) == 1:
        return (equal or inside)[0]
    near = difflib.get_close_matches(wanted, [one.casefold() for one in known], n=1, cutoff=0.75)
    return next((one for one in known if near and one.casefold() == near[0]), None)


def names_in(text: str) -> tuple[str, ...]:
    """Return the names of a list: names hold blanks, so commas part them (outside of brackets)."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"[": 1, "(": 1, "]": -1, ")": -1}.get(letter, 0)
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return tuple(dict.fromkeys(name for part in parts if (name := part.strip(" `\"'"))))


def moved(facts: CommandFacts, verb: str) -> str:
    """Return why nothing of this head is run: the head is not the one that was spoken of."""
    head = code(facts.look.target.head_sha[:12])
    return (
        f"The head is now {head}, which came after your comment (or its time is not known). What runs on our "
        f"machines needs a word about that very commit: look at it and say `{facts.at} {verb}` again."
    )


def no_such_job(name: str, groups: tuple[FailureGroup, ...]) -> str:
    """Return what is said where no red job is meant."""
    jobs = list(dict.fromkeys(job for group in groups for job in group.jobs))
    if not jobs:
        return "No red job of this head is known."
    listed = ", ".join(code(job) for job in jobs[:20])
    return f"No red job of this head is called {code(name)}. Red: {listed}."
