"""Keep the times of an installation's writes: counters of a minute and an hour let twice as many through.

The table is made anew: what was written in the last hour is forgotten by it, once.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from bot.db import types

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.drop_table("pace")
    op.create_table(
        "pace",
        installation(),
        sa.Column("recent", types.SafeJson(), nullable=False),
        sa.Column("held_until", types.UtcDateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("installation_id", name=op.f("pk_pace")),
    )


def downgrade() -> None:
    op.drop_table("pace")
    op.create_table(
        "pace",
        installation(),
        sa.Column("next_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("minute_started_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("minute_writes", sa.Integer(), nullable=False),
        sa.Column("hour_started_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("hour_writes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("installation_id", name=op.f("pk_pace")),
    )


def installation() -> "sa.Column[int]":
    return sa.Column(
        "installation_id",
        sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
        autoincrement=False,
        nullable=False,
    )
