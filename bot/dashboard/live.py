"""What happens, as it happens: rows of `event` by rising id, as server-sent events.

One reader a process looks at the table while anybody listens; every stream takes from what it found, or from
the table where it was away for longer. A message only says what changed: the page then asks for itself
again, with the visitor's own permissions.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from bot import metrics
from bot.db.engine import Sessions
from bot.db.models import Event
from bot.errors import one_line
from bot.log import get_logger

log = get_logger(__name__)

LOOK_S = 1.0
BEAT_S = 15.0
MOST_STREAMS = 200
NOT_YET = -1
KEPT = 2_000  # events that streams take from memory
MOST_AT_ONCE = 500  # events of one look, and of one message
# Ids are given before a commit: a lower one may show up after a higher one. A gap is waited for this long.
GAP_S = 5.0
# A page that is shown now may lack what was written meanwhile: its stream begins a little earlier.
OVERLAP = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Told:
    """One event as live pages see it."""

    id: int
    kind: str
    repo_id: int | None
    number: int | None
    at: datetime


def settled(found: Sequence[Told], after: int, gap_over: bool) -> Sequence[Told]:
    """Return the events up to the first gap in the ids: pure. One right behind `after` counts unless it was
    waited for long enough."""
    first = found[0].id if found and (gap_over or not after) else after + 1
    for place, told in enumerate(found):
        if told.id != first + place:
            return found[:place]
    return found


def read_after(session: Session, after: int, limit: int = MOST_AT_ONCE) -> list[Told]:
    """Return the events behind an id, oldest first."""
    columns = (Event.id, Event.kind, Event.repo_id, Event.number, Event.at)
    rows = session.execute(select(*columns).where(Event.id > after).order_by(Event.id).limit(limit))
    return [Told(*row) for row in rows]


def newest_before(session: Session, at: datetime) -> int:
    """Return the id of the newest event before a time; 0 where there is none."""
    return session.scalar(select(func.max(Event.id)).where(Event.at < at)) or 0


def beginning(sessions: Sessions, made: datetime) -> int:
    """Return where the stream of a page that was made then begins."""
    with sessions() as session:
        return newest_before(session, made - OVERLAP)


@dataclass
class Live:
    """The streams of one process. `sessions` only read. All but `close` belong to the event loop."""

    sessions: Sessions
    look_s: float = LOOK_S
    beat_s: float = BEAT_S
    most_streams: int = MOST_STREAMS
    streams: int = 0
    closed: bool = False
    _seen: int = NOT_YET
    _recent: deque[Told] = field(default_factory=lambda: deque(maxlen=KEPT))
    _gap_since_s: float | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _reader: asyncio.Task[None] | None = None

    def close(self) -> None:
        """End all streams; called on the event loop when the server is told to stop."""
        self.closed = True
        self._announce()

    @property
    def full(self) -> bool:
        """Say whether no stream more may be opened."""
        return self.closed or self.streams >= self.most_streams

    def enter(self) -> None:
        """Count one more stream; the first one starts the reader."""
        self.streams += 1
        metrics.LIVE_STREAMS.set(self.streams)
        if self._reader is None or self._reader.done():
            self._seen = NOT_YET
            self._reader = asyncio.create_task(self._read())

    def leave(self) -> None:
        """Count one stream less."""
        self.streams -= 1
        metrics.LIVE_STREAMS.set(self.streams)

    def _announce(self) -> None:
        """Wake every stream that waits."""
        self._news.set()
        self._news = asyncio.Event()

    async def _read(self) -> None:
        """Look at the table again and again while anybody listens."""
        while self.streams and not self.closed:
            try:
                if await self._look():
                    self._announce()
            except Exception as error:
                log.warning("live pages wait for the database", error=one_line(error))
            await asyncio.sleep(self.look_s)

    async def _look(self) -> bool:
        """Take what came; say whether anything did."""
        if self._seen == NOT_YET:
            self._recent.clear()
            self._seen = await run_in_threadpool(beginning, self.sessions, datetime.now(UTC))
            return True
        found = await run_in_threadpool(self._fetch, self._seen)
        now_s = time.monotonic()
        gap_over = self._gap_since_s is not None and now_s - self._gap_since_s > GAP_S
        good = settled(found, self._seen, gap_over)
        if len(good) == len(found):
            self._gap_since_s = None
        elif good or self._gap_since_s is None:
            self._gap_since_s = now_s
        if good:
            self._recent.extend(good)
            self._seen = good[-1].id
        return bool(good)

    def _fetch(self, after: int) -> list[Told]:
        with self.sessions() as session:
            return read_after(session, after)

    async def after(self, last: int) -> Sequence[Told]:
        """Return what came behind an id, as far as it is settled; waits for news up to a heartbeat."""
        news = self._news
        if self._seen <= last:
            try:
                await asyncio.wait_for(news.wait(), self.beat_s)
            except TimeoutError:
                return ()
        if self._recent and self._recent[0].id <= last + 1:
            return [told for told in self._recent if told.id > last][:MOST_AT_ONCE]
        found = await run_in_threadpool(self._fetch, last)
        return [told for told in found if told.id <= self._seen]


Wanted = Callable[[Told], bool]
Renew = Callable[[], Wanted | None]


@dataclass(frozen=True, slots=True)
class Stream:
    """One visitor's stream: where it begins, and what of it they may see.

    `renew` looks at the permissions again (blocking); None ends the stream. `again_s` is how often.
    """

    begins: int
    renew: Renew
    again_s: float = 60.0


async def messages(live: Live, stream: Stream) -> AsyncIterator[str]:
    """Yield the messages of a stream until the server stops or the visitor may not read any more."""
    last, wanted, renewed_s = stream.begins, await run_in_threadpool(stream.renew), time.monotonic()
    live.enter()
    try:
        yield "retry: 2000\n\n"
        while wanted is not None and not live.closed:
            came = await live.after(last)
            if time.monotonic() - renewed_s > stream.again_s:
                wanted, renewed_s = await run_in_threadpool(stream.renew), time.monotonic()
            if wanted is not None:
                last = came[-1].id if came else last
                yield part(last, [told for told in came if wanted(told)], bool(came))
    finally:
        live.leave()


def part(last: int, shown: Sequence[Told], moved: bool) -> str:
    """Return what is sent now: a message, the place to come back to, or a heartbeat."""
    if shown:
        return message(last, shown)
    return f"id: {last}\n\n" if moved else ": still here\n\n"


def message(last: int, shown: Sequence[Told]) -> str:
    """Return one message: its event's name is `changed`, its data what changed, its id where to go on."""
    items = [{"id": one.id, "kind": one.kind, "repo_id": one.repo_id, "number": one.number} for one in shown]
    data = json.dumps({"schema": 1, "items": items}, separators=(",", ":"))
    return f"event: changed\nid: {last}\ndata: {data}\n\n"
