"""What a log or report says went wrong: values only, made by the parsers."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from bot.ci.signature import Signature

Category = Literal["test", "collection", "compile", "lint", "build", "crash", "timeout", "job", "unread"]
DETERMINISTIC: frozenset[Category] = frozenset({"collection", "compile", "lint", "build"})
MESSAGE_LIMIT = 600
PATHS_LIMIT = 60
EXTENSION = re.compile(r"\.(?:py|pyx|rs|go|tsx?|jsx?|mjs|cjs|mts|cts|cc|cpp|cxx|java|kt|rb)(?=$|::| > )")


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing that went wrong.

    `paths` are the files its traceback or finding names, outermost first; `detail` is the message's further
    lines; `outer` is the line that only wrapped the cause, where one was unwrapped.
    """

    category: Category
    test: str | None = None
    exception: str | None = None
    message: str = ""
    detail: str = ""
    paths: tuple[str, ...] = ()
    file: str | None = None
    line: int | None = None
    outer: str | None = None

    @property
    def signature(self) -> Signature | None:
        """Return its signature, or None where nothing was said."""
        if not self.exception and not self.message:
            return None
        return Signature(self.exception, self.message)

    @property
    def key(self) -> str | None:
        """Return the test's name in one form for all reports, or None where no test is known."""
        return test_key(self.test) if self.test else None


@dataclass(frozen=True, slots=True)
class Found:
    """What one parser found in one log.

    `counted` is the number of failures that the tool's own summary gives; `ran` says whether tests ran.
    """

    failures: tuple[Failure, ...] = ()
    passed: frozenset[str] = frozenset()
    counted: int | None = None
    ran: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What one job says: its failures, the tests that passed, and whether all of it could be read."""

    failures: tuple[Failure, ...] = ()
    passed: frozenset[str] = frozenset()
    ran: bool = False
    complete: bool = False
    infra: tuple["InfraMark", ...] = ()
    started: bool = True
    seen: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class InfraMark:
    """A line that only machines and services write: its name, and the line."""

    name: str
    line: str


def test_key(test: str) -> str:
    """Return a test's name in one form: path and dotted reports of one test are equal."""
    head, bracket, parameters = test.partition("[")
    head = EXTENSION.sub("", head.removeprefix("./"), count=1)
    return head.replace("::", ".").replace("/", ".").replace("\\", ".") + bracket + parameters


def cut(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return a text within a limit, on one line."""
    return text.strip()[:limit]


def merge_paths(*groups: Iterable[str]) -> tuple[str, ...]:
    """Return paths without repeats, in order; the last PATHS_LIMIT of them."""
    unique = dict.fromkeys(path for group in groups for path in group)
    return tuple(unique)[-PATHS_LIMIT:]
