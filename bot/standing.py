"""Views beside the truth, so that pages are indexed reads: how a pull request stands, which workers live.

The decisions are the truth; a pull request's row repeats the latest of each kind, written with it.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, update
from sqlalchemy.orm import Session

from bot.actions import Target
from bot.db.engine import Sessions
from bot.db.models import Pull
from bot.db.standing import Asked, LaneWorker
from bot.db.types import now_plus
from bot.db.upsert import changed, insert_into
from perf_runner.models import Machine

FORGOTTEN_AFTER_S = 30 * 86_400.0
NOT_JUDGED: Mapping[str, Any] = {"ci": "", "perf": "", "perf_pct": None}


def roll_up(session: Session, target: Target, kind: str, value: Mapping[str, Any]) -> None:
    """Keep what a decision says in the pull request's row: CI and performance only of the present head."""
    here = update(Pull).where(Pull.repo_id == target.repo_id, Pull.number == target.number)
    if kind == "priority":
        level, score = str(value.get("level") or ""), int(value.get("score") or 0)
        session.execute(here.values(level=level, score=score))
    elif kind == "ci":
        found = str(value.get("overall") or "")
        session.execute(here.where(Pull.head_sha == target.head_sha).values(ci=found))
    elif kind == "perf":
        session.execute(here.where(Pull.head_sha == target.head_sha).values(**of_perf(value)))
    elif kind == "route":
        keep_asked(session, target, tuple(str(login) for login in value.get("ask") or ()))


def of_perf(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the word and the change in per cent of a performance decision's value."""
    word = "improved" if value.get("improved") else str(value.get("decision") or value.get("state") or "")
    change = value.get("change_pct")
    return {"perf": word, "perf_pct": float(change) if isinstance(change, int | float) else None}


def forget_asked(session: Session, target: Target) -> None:
    """Drop who is asked: nobody is, once a pull request is closed."""
    session.execute(delete(Asked).where(Asked.repo_id == target.repo_id, Asked.number == target.number))


def keep_asked(session: Session, target: Target, names: tuple[str, ...]) -> None:
    """Keep who is asked now."""
    forget_asked(session, target)
    by_login = {name.casefold()[:200]: name for name in names}
    rows = [
        {"repo_id": target.repo_id, "number": target.number, "login": login, "name": name}
        for login, name in by_login.items()
    ]
    if rows:
        session.execute(insert_into(session, Asked).on_conflict_do_nothing(), rows)


def see_worker(
    sessions: Sessions,
    name: str,
    machine: Machine,
    queues: tuple[str, ...] | None = None,
    run: str | None = None,
) -> None:
    """Keep that a worker of the runner lane showed itself; `queues` None: they are as they were."""
    values: dict[str, Any] = {
        "machine": machine.model_dump(mode="json"),
        "run_id": run,
        "seen_at": now_plus(0),
    }
    if queues is not None:
        values["queues"] = list(queues)
    with sessions.begin() as session:
        before = session.get(LaneWorker, name)
        if machine.noise_probe_pct is None and before is not None:
            # Polls come without the probe, which takes its time; the last one stands.
            values["machine"]["noise_probe_pct"] = before.machine.get("noise_probe_pct")
        upsert = insert_into(session, LaneWorker).values({"name": name, "queues": [], **values})
        session.execute(upsert.on_conflict_do_update(index_elements=["name"], set_=values))
        session.execute(delete(LaneWorker).where(LaneWorker.seen_at < now_plus(-FORGOTTEN_AFTER_S)))


def hear_worker(sessions: Sessions, name: str, run: str | None) -> bool:
    """Keep a known worker's sign of life; False for one that never showed itself."""
    with sessions.begin() as session:
        here = update(LaneWorker).where(LaneWorker.name == name)
        return changed(session, here.values(run_id=run, seen_at=now_plus(0))) > 0
