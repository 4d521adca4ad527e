"""What every page is given: the database, the templates, and what the viewer may see."""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request
from sqlalchemy import and_, or_
from sqlalchemy.sql.elements import ColumnElement

from bot.dashboard.rendering import Pages
from bot.dashboard.trees import Trees
from bot.db.engine import Sessions
from bot.db.models import Repository


@dataclass(frozen=True, slots=True)
class Scope:
    """Which repositories a viewer may read: the public ones (unless `public` is off), and those named."""

    repositories: frozenset[int] = frozenset()
    public: bool = True

    def condition(self) -> ColumnElement[bool]:
        """Return the condition that every query of a page puts on `Repository`."""
        named = Repository.id.in_(sorted(self.repositories))
        readable = or_(Repository.private.is_(False), named) if self.public else named
        return and_(Repository.removed_at.is_(None), readable)


def anybody(_: Request) -> Scope:
    """Return what a viewer sees who is not known: the public repositories."""
    return Scope()


@dataclass(frozen=True)
class Site:
    """The shell around every page. `sessions` only read; `web_url` is where GitHub shows pull requests.

    `trees` None: no tree can be read, and the owners' page does without.
    """

    sessions: Sessions
    pages: Pages
    web_url: str
    scope: Callable[[Request], Scope] = anybody
    trees: Trees | None = None
