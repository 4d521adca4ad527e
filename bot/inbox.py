"""The durable inbox: one writer thread commits all waiting deliveries and their jobs as one transaction.

With a transaction for each delivery the slowest acknowledgements took 50 times the median; committed in
groups they take two to four times. The web process answers 202 only after the commit.
"""

import asyncio
import queue
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import case, exists, null, select, update
from sqlalchemy.orm import Session

from bot import jobs, metrics
from bot.db.engine import Sessions
from bot.db.models import Delivery, DeliveryState, Job, Repository
from bot.db.types import now_plus
from bot.db.upsert import insert_into, time_of
from bot.dispatch import JobSpec
from bot.errors import PayloadRejected
from bot.events import RepoRef
from bot.log import get_logger

BATCH = 64
KNOWN_REPOSITORIES = 10_000
# A delivery that GitHub sent before we left a repository may arrive this much later.
LATE_S = 3600.0

log = get_logger(__name__)


class Stored(StrEnum):
    """What became of a delivery."""

    NEW = "new"
    REPEATED = "repeated"
    REVIVED = "revived"


@dataclass(frozen=True, slots=True)
class Incoming:
    """A verified delivery that asks for jobs; `body` is its raw JSON."""

    guid: str
    event: str
    action: str
    jobs: tuple[JobSpec, ...]
    body: bytes = b""
    repo: RepoRef | None = None
    installation_id: int | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A delivery in the queue, and whom to tell."""

    incoming: Incoming
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Stored]


def store(session: Session, batch: Sequence[Incoming]) -> list[Stored]:
    """Write deliveries, jobs and repositories; say for each whether it is new. The caller commits."""
    unique = {incoming.guid: incoming for incoming in batch}
    fresh = insert_deliveries(session, list(unique.values()))
    failed = failed_guids(session, unique.keys() - fresh)
    jobs.add(session, [(spec, guid) for guid in fresh for spec in unique[guid].jobs])
    settle_empty(session, fresh)
    for guid in failed:
        jobs.replay(session, Job.delivery_guid == guid)
    return outcomes([incoming.guid for incoming in batch], fresh, failed)


def outcomes(guids: Sequence[str], fresh: set[str], failed: set[str]) -> list[Stored]:
    """Say what became of each delivery; a copy in the same batch is a repetition of the first."""
    told = dict.fromkeys(failed, Stored.REVIVED) | dict.fromkeys(fresh, Stored.NEW)
    return [told.pop(guid, Stored.REPEATED) for guid in guids]


def insert_deliveries(session: Session, batch: Sequence[Incoming]) -> set[str]:
    """Insert the deliveries that are not there yet; return their ids."""
    now = time_of(session)
    rows = [delivery_row(incoming, now) for incoming in sorted(batch, key=lambda one: one.guid)]
    insert = insert_into(session, Delivery).values(rows).on_conflict_do_nothing()
    return set(session.scalars(insert.returning(Delivery.guid)))


def delivery_row(incoming: Incoming, now: datetime) -> dict[str, object]:
    """Return the row of a new delivery."""
    return {
        "guid": incoming.guid,
        "event": incoming.event[:64],
        "action": incoming.action[:64],
        "repo_id": incoming.repo.id if incoming.repo else None,
        "number": incoming.number,
        "received_at": now,
        "payload": zlib.compress(incoming.body, 1),
        "state": DeliveryState.RECEIVED,
    }


def failed_guids(session: Session, guids: Iterable[str]) -> set[str]:
    """Return those of `guids` that failed before: their redelivery shall run again."""
    known = list(guids)
    if not known:
        return set()
    failed = select(Delivery.guid).where(Delivery.guid.in_(known), Delivery.state == DeliveryState.FAILED)
    return set(session.scalars(failed))


def settle_empty(session: Session, guids: set[str]) -> None:
    """Mark deliveries done of which every job was one that waits already."""
    has_job = exists().where(Job.delivery_guid == Delivery.guid)
    alone = update(Delivery).where(Delivery.guid.in_(guids), ~has_job)
    session.execute(alone.values(state=DeliveryState.DONE))


def save_repositories(session: Session, batch: Iterable[Incoming]) -> None:
    """Keep the rows of the repositories that wrote: names and installations change.

    One that we left comes back by what it writes only after a while: a delivery may be late.
    """
    found = {item.repo.id: (item.repo, item.installation_id) for item in batch if item.repo}
    left_lately = Repository.removed_at > now_plus(-LATE_S)
    back = case((left_lately, Repository.removed_at), else_=null())
    for repo, installation_id in found.values():
        row = {
            "full_name": repo.full_name,
            "installation_id": installation_id,
            "default_branch": repo.default_branch,
            "private": repo.private,
        }
        insert = insert_into(session, Repository).values(id=repo.id, **row)
        session.execute(insert.on_conflict_do_update(index_elements=["id"], set_={**row, "removed_at": back}))


class Inbox:
    """The queue before the writer thread. `on_commit` is called after each commit (the relay listens)."""

    def __init__(self, sessions: Sessions, max_waiting: int, on_commit: Callable[[], None]) -> None:
        self._sessions = sessions
        self._waiting: queue.Queue[Waiting | None] = queue.Queue(max_waiting)
        self._on_commit = on_commit
        self._known: dict[int, tuple[RepoRef, int | None]] = {}
        self._forget_at_s = 0.0
        self._thread = threading.Thread(target=self._write_all, name="inbox", daemon=True)

    def start(self) -> None:
        """Start the writer."""
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, then end."""
        self._waiting.put(None)
        self._thread.join()

    async def put(self, incoming: Incoming) -> Stored:
        """Return once the delivery is committed. PayloadRejected 503 where too many wait, or it failed."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Stored] = loop.create_future()
        try:
            self._waiting.put_nowait(Waiting(incoming, loop, answer))
        except queue.Full:
            raise PayloadRejected(503, "too many deliveries wait; please send it again") from None
        return await answer

    def _write_all(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch, ended = self._gather(first)
            self._write(batch)
            if ended:
                return

    def _gather(self, first: Waiting) -> tuple[list[Waiting], bool]:
        batch = [first]
        while len(batch) < BATCH:
            try:
                following = self._waiting.get_nowait()
            except queue.Empty:
                break
            if following is None:
                return batch, True
            batch.append(following)
        return batch, False

    def _write(self, batch: Sequence[Waiting]) -> None:
        started = time.perf_counter()
        try:
            stored = self._commit([waiting.incoming for waiting in batch])
        except Exception:
            log.exception("a batch of deliveries could not be stored", deliveries=len(batch))
            self._write_apart(batch)
            return
        metrics.INBOX_BATCH.observe(len(batch))
        metrics.INBOX_COMMIT_S.observe(time.perf_counter() - started)
        self._on_commit()
        tell(batch, stored)

    def _commit(self, batch: Sequence[Incoming]) -> list[Stored]:
        if len(self._known) > KNOWN_REPOSITORIES or time.monotonic() > self._forget_at_s:
            self._known.clear()
            self._forget_at_s = time.monotonic() + LATE_S
        unknown = [item for item in batch if item.repo and self._known.get(item.repo.id) != key_of(item)]
        with self._sessions.begin() as session:
            save_repositories(session, unknown)
            stored = store(session, batch)
        self._known.update({item.repo.id: (item.repo, item.installation_id) for item in unknown if item.repo})
        return stored

    def _write_apart(self, batch: Sequence[Waiting]) -> None:
        """Store each delivery by itself, so that one which cannot be stored spoils no other."""
        for waiting in batch:
            try:
                stored = self._commit([waiting.incoming])
            except Exception as error:
                log.exception("a delivery could not be stored", delivery=waiting.incoming.guid)
                tell([waiting], [error])
            else:
                self._on_commit()
                tell([waiting], stored)


def key_of(incoming: Incoming) -> tuple[RepoRef | None, int | None]:
    """Return what a repository's row holds of a delivery."""
    return incoming.repo, incoming.installation_id


def tell(batch: Sequence[Waiting], results: Sequence[Stored | Exception]) -> None:
    """Answer the requests of a batch; one call into each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Stored], Stored | Exception]]] = {}
    for waiting, result in zip(batch, results, strict=True):
        by_loop.setdefault(waiting.loop, []).append((waiting.answer, result))
    for loop, answers in by_loop.items():
        loop.call_soon_threadsafe(resolve, answers)


def resolve(answers: Iterable[tuple[asyncio.Future[Stored], Stored | Exception]]) -> None:
    """Set the results of requests that are still there."""
    for answer, result in answers:
        if answer.done():
            continue
        if isinstance(result, Exception):
            answer.set_exception(PayloadRejected(503, "the delivery could not be stored; send it again"))
        else:
            answer.set_result(result)
