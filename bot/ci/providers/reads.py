"""What the providers ask of GitHub, and what they bring back: jobs as they were seen in builds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from bot.ci.snapshot import Job


class UnreadableError(Exception):
    """GitHub refused a read or could not be reached; `status` 0: no answer."""

    def __init__(self, status: int) -> None:
        super().__init__(f"GitHub answered {status}" if status else "GitHub did not answer")
        self.status = status


class GitHubReads(Protocol):
    """One repository's reads as plain JSON. Each raises UnreadableError where GitHub refuses."""

    full_name: str

    def get(self, path: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON below the repository's address; None for 404."""

    def pages(self, path: str, parameters: Mapping[str, Any] | None = None, key: str = "") -> Iterator[Any]:
        """Yield the items of a list; `key` names a list that is wrapped."""


@dataclass(frozen=True, slots=True)
class Window:
    """A time span, aware UTC, end included."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Sighting:
    """A job seen in a build.

    `source` is the pipeline or workflow: a later build of one source replaces its earlier ones, slot by slot.
    `for_pull`: it ran what somebody proposes, not what the branch holds; `pull` None: it is not known whose.
    `replaced`: by a later attempt.
    """

    job: Job
    source: str
    sha: str
    branch: str
    for_pull: bool
    pull: int | None
    created_at: datetime | None
    replaced: bool
    slot: int = 0


class Provider(Protocol):
    """One system that runs CI."""

    def parts(self) -> Iterator[tuple[str, "Provider"]]:
        """Yield what can be read apart, each by a name of its own; empty: what is read may lack jobs."""

    def on_commit(self, sha: str) -> Iterator[Sighting]:
        """Yield the ended jobs of every build of a commit, whoever asked for it."""

    def on_branch(self, branch: str, window: Window) -> Iterator[Sighting]:
        """Yield the ended jobs of the branch's own builds, newest first; never a pull request's."""

    def red_pulls(self, window: Window) -> Iterator[Sighting]:
        """Yield the ended jobs of red builds of pull requests, newest first."""

    def log(self, seen: Sighting) -> str | None:
        """Return a job's whole raw log; None where it cannot be read."""

    def junit(self, seen: Sighting) -> str | None:
        """Return a job's JUnit report; None where there is none."""
