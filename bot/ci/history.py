"""CI's past of one repository: what is kept of it, brought up to date where it has gaps."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from bot.ci.coverage import cover, covered_by, rest_of, settled
from bot.ci.memory import Seen, portions, remember
from bot.ci.providers.fetch import Fetcher
from bot.ci.providers.reads import Sighting, Window
from bot.ci.recall import Past
from bot.db.engine import Sessions
from bot.db.models import CiJob

# Jobs of one transaction: nobody else can write to SQLite meanwhile.
STEP = 2_000


@dataclass(frozen=True)
class History:
    """What is kept of one repository's CI. `main` names its default branch."""

    sessions: Sessions
    repo_id: int
    main: str
    now: datetime

    @contextmanager
    def past(self) -> Iterator[Past]:
        """Lend a reader of what is kept."""
        with self.sessions() as session:
            yield Past(session, self.repo_id)

    def remember(self, seen: Iterable[Seen]) -> int:
        """Keep what was seen, in short transactions; return how many jobs were new."""
        new = 0
        for part in portions(seen, STEP):
            with self.sessions.begin() as session:
                new += remember(session, self.repo_id, part, self.main)
        return new

    def size(self) -> int:
        """Return how many jobs are kept."""
        with self.sessions() as session:
            asked = select(func.count()).select_from(CiJob).where(CiJob.repo_id == self.repo_id)
            return session.scalar(asked) or 0

    def covered(self, scope: str) -> Window | None:
        """Return the span of a scope of which every build is kept; None where there is none."""
        with self.sessions() as session:
            return covered_by(session, self.repo_id, scope)

    def learn(
        self, scope: str, window: Window, fetcher: Fetcher, ask: Callable[[Window], Iterable[Sighting]]
    ) -> list[Sighting]:
        """Read what of a window is not kept yet, keep it, and return it.

        What was read without a fault is not asked for again; a scope without a name always is.
        """
        rest = rest_of(window, self.covered(scope) if scope else None)
        if rest is None:
            return []
        faults, cuts = fetcher.faults, fetcher.cuts
        found = list(ask(rest))
        self.remember(Seen(one) for one in found)
        whole = newest_part(rest, found) if fetcher.cuts > cuts else rest
        known = settled(whole, self.now) if whole else None
        if scope and known is not None and fetcher.faults == faults:
            with self.sessions.begin() as session:
                cover(session, self.repo_id, scope, known)
        return found


def newest_part(asked: Window, found: Sequence[Sighting]) -> Window | None:
    """Return the end of a span that a list covers which was cut behind its newest builds."""
    oldest = min((one.created_at for one in found if one.created_at), default=None)
    return None if oldest is None or oldest > asked.end else Window(max(oldest, asked.start), asked.end)
