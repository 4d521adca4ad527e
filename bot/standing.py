"""How a pull request stands now, beside its row: decisions rolled up, so that the queue is one indexed read.

The decisions are the truth; what is kept here is a view of the latest of each kind, written with it.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, update
from sqlalchemy.orm import Session

from bot.actions import Target
from bot.db.models import Pull
from bot.db.standing import Asked
from bot.db.upsert import insert_into

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


def keep_asked(session: Session, target: Target, names: tuple[str, ...]) -> None:
    """Keep who is asked now."""
    key = (Asked.repo_id == target.repo_id, Asked.number == target.number)
    session.execute(delete(Asked).where(*key))
    by_login = {name.casefold()[:200]: name for name in names}
    rows = [
        {"repo_id": target.repo_id, "number": target.number, "login": login, "name": name}
        for login, name in by_login.items()
    ]
    if rows:
        session.execute(insert_into(session, Asked).on_conflict_do_nothing(), rows)
