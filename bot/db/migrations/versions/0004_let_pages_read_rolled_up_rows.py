"""Let pages read rolled-up rows: how a pull request stands, who is asked, which workers are there."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from bot.db import types

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
KINDS = ("route", "priority", "ci", "perf")
PULL = sa.table(
    "pull",
    sa.column("repo_id", BIG),
    sa.column("number", sa.Integer()),
    sa.column("head_sha", sa.String()),
    sa.column("state", sa.String()),
    sa.column("level", sa.String()),
    sa.column("score", sa.Integer()),
    sa.column("ci", sa.String()),
    sa.column("perf", sa.String()),
    sa.column("perf_pct", sa.Double()),
)
DECISION = sa.table(
    "decision",
    sa.column("id", BIG),
    sa.column("repo_id", BIG),
    sa.column("number", sa.Integer()),
    sa.column("kind", sa.String()),
    sa.column("head_sha", sa.String()),
    sa.column("value", types.SafeJson()),
)
ASKED = sa.table(
    "asked",
    sa.column("repo_id", BIG),
    sa.column("number", sa.Integer()),
    sa.column("login", sa.String()),
    sa.column("name", sa.String()),
)


def upgrade() -> None:
    op.create_table(
        "asked",
        sa.Column("repo_id", BIG, autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("login", types.SafeString(length=200), nullable=False),
        sa.Column("name", types.SafeString(length=200), nullable=False),
        sa.PrimaryKeyConstraint("repo_id", "number", "login", name=op.f("pk_asked")),
    )
    with op.batch_alter_table("asked", schema=None) as batch_op:
        batch_op.create_index("ix_asked_login_repo_id", ["login", "repo_id"], unique=False)

    op.create_table(
        "lane_worker",
        sa.Column("name", types.SafeString(length=200), nullable=False),
        sa.Column("queues", types.SafeJson(), nullable=False),
        sa.Column("machine", types.SafeJson(), nullable=False),
        sa.Column("run_id", types.SafeString(length=36), nullable=True),
        sa.Column("seen_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_lane_worker")),
    )
    with op.batch_alter_table("pull", schema=None) as batch_op:
        for name, length in (("turn", 16), ("level", 16), ("ci", 16), ("perf", 32)):
            kind = types.SafeString(length=length)
            batch_op.add_column(sa.Column(name, kind, nullable=False, server_default=""))
        batch_op.add_column(sa.Column("score", sa.Integer(), nullable=False, server_default="0"))
        batch_op.add_column(sa.Column("perf_pct", sa.Double(), nullable=True))
        batch_op.create_index("ix_pull_state_score_created_at", ["state", "score", "created_at"])
    with op.batch_alter_table("nightly", schema=None) as batch_op:
        batch_op.create_index("ix_nightly_repo_id_sha", ["repo_id", "sha"], unique=False)
    roll_up(op.get_bind())


def roll_up(connection: sa.Connection) -> None:
    """Fill the new columns from the latest decisions of each pull request."""
    newest = (
        sa.select(sa.func.max(DECISION.c.id))
        .where(DECISION.c.kind.in_(KINDS))
        .group_by(DECISION.c.repo_id, DECISION.c.number, DECISION.c.kind)
    )
    for row in connection.execute(sa.select(DECISION).where(DECISION.c.id.in_(newest))).all():
        value = row.value if isinstance(row.value, dict) else {}
        if row.kind == "route":
            keep_asked(connection, row.repo_id, row.number, value)
            continue
        here = sa.update(PULL).where(PULL.c.repo_id == row.repo_id, PULL.c.number == row.number)
        if row.kind != "priority":
            here = here.where(PULL.c.head_sha == row.head_sha)
        connection.execute(here.values(**columns(row.kind, value)))


def columns(kind: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a decision's value."""
    if kind == "priority":
        return {"level": str(value.get("level") or "")[:16], "score": int(value.get("score") or 0)}
    if kind == "ci":
        return {"ci": str(value.get("overall") or "")[:16]}
    word = "improved" if value.get("improved") else str(value.get("decision") or value.get("state") or "")
    change = value.get("change_pct")
    return {"perf": word[:32], "perf_pct": float(change) if isinstance(change, int | float) else None}


def keep_asked(connection: sa.Connection, repo_id: int, number: int, value: Mapping[str, Any]) -> None:
    """Fill in who is asked on an open pull request."""
    here = (PULL.c.repo_id == repo_id, PULL.c.number == number, PULL.c.state == "open")
    if connection.scalar(sa.select(PULL.c.number).where(*here)) is None:
        return
    names = {str(name).casefold()[:200]: str(name)[:200] for name in value.get("ask") or ()}
    for login, name in names.items():
        row = {"repo_id": repo_id, "number": number, "login": login, "name": name}
        connection.execute(sa.insert(ASKED).values(row))


def downgrade() -> None:
    with op.batch_alter_table("nightly", schema=None) as batch_op:
        batch_op.drop_index("ix_nightly_repo_id_sha")
    with op.batch_alter_table("pull", schema=None) as batch_op:
        batch_op.drop_index("ix_pull_state_score_created_at")
        for name in ("perf_pct", "score", "perf", "ci", "level", "turn"):
            batch_op.drop_column(name)
    op.drop_table("lane_worker")
    op.drop_table("asked")
