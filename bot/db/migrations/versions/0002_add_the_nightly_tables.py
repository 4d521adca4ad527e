"""Add the nightly series, their baselines, alarms and episodes."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from bot.db import types

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "alarm",
        sa.Column(
            "series_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("night", sa.Date(), nullable=False),
        sa.Column("worse", sa.Boolean(), autoincrement=False, nullable=False),
        sa.Column("raised_by", types.SafeString(length=16), nullable=False),
        sa.Column("repo_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("z", sa.Double(), nullable=False),
        sa.Column("since", sa.Date(), nullable=False),
        sa.Column("level", sa.Double(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("raised_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("series_id", "night", "worse", "raised_by", name=op.f("pk_alarm")),
    )
    with op.batch_alter_table("alarm", schema=None) as batch_op:
        batch_op.create_index("ix_alarm_repo_id_night", ["repo_id", "night"], unique=False)

    op.create_table(
        "baseline",
        sa.Column(
            "series_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("since", sa.Date(), nullable=False),
        sa.Column("repo_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=True),
        sa.Column("sd", sa.Double(), nullable=True),
        sa.Column("first_night", sa.Date(), nullable=True),
        sa.Column("last_night", sa.Date(), nullable=True),
        sa.Column("origin", types.SafeText(), nullable=False),
        sa.PrimaryKeyConstraint("series_id", "since", name=op.f("pk_baseline")),
    )
    with op.batch_alter_table("baseline", schema=None) as batch_op:
        batch_op.create_index("ix_baseline_repo_id", ["repo_id"], unique=False)

    op.create_table(
        "episode",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("repo_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("key", types.SafeString(length=32), nullable=False),
        sa.Column("family", types.SafeString(length=300), nullable=False),
        sa.Column("hardware", types.SafeString(length=100), nullable=False),
        sa.Column("test", types.SafeString(length=200), nullable=False),
        sa.Column("config", types.SafeString(length=300), nullable=False),
        sa.Column("first_night", sa.Date(), nullable=False),
        sa.Column("last_night", sa.Date(), nullable=False),
        sa.Column("days_failing", sa.Integer(), nullable=False),
        sa.Column("state", types.SafeString(length=16), nullable=False),
        sa.Column("worst_pct", sa.Double(), nullable=False),
        sa.Column("issue_number", sa.Integer(), nullable=True),
        sa.Column("run_id", types.SafeString(length=36), nullable=True),
        sa.Column("explained_pct", sa.Double(), nullable=True),
        sa.Column("explained_low_pct", sa.Double(), nullable=True),
        sa.Column("explained_high_pct", sa.Double(), nullable=True),
        sa.Column("data", types.SafeJson(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_episode")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("episode", schema=None) as batch_op:
        batch_op.create_index("uq_episode_repo_id_key", ["repo_id", "key"], unique=True)
        batch_op.create_index(
            "ix_episode_repo_id_state_last_night", ["repo_id", "state", "last_night"], unique=False
        )

    op.create_table(
        "nightly",
        sa.Column(
            "series_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("night", sa.Date(), nullable=False),
        sa.Column("sha", types.SafeString(length=64), nullable=False),
        sa.Column("source", types.SafeString(length=80), nullable=False),
        sa.Column("repo_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=True),
        sa.Column("sd", sa.Double(), nullable=True),
        sa.Column("baseline", sa.Double(), nullable=True),
        sa.Column("machine", types.SafeString(length=200), nullable=False),
        sa.Column("run_id", types.SafeString(length=36), nullable=True),
        sa.Column("status", types.SafeString(length=100), nullable=False),
        sa.Column("published_days", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("series_id", "night", "sha", "source", name=op.f("pk_nightly")),
    )
    with op.batch_alter_table("nightly", schema=None) as batch_op:
        batch_op.create_index("ix_nightly_repo_id_night", ["repo_id", "night"], unique=False)

    op.create_table(
        "nightly_series",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("repo_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("test", types.SafeString(length=200), nullable=False),
        sa.Column("config", types.SafeString(length=300), nullable=False),
        sa.Column("hardware", types.SafeString(length=100), nullable=False),
        sa.Column("metric", types.SafeString(length=100), nullable=False),
        sa.Column("model", types.SafeString(length=200), nullable=False),
        sa.Column("unit", types.SafeString(length=16), nullable=False),
        sa.Column("way", types.SafeString(length=8), nullable=False),
        sa.Column("nights", sa.Integer(), nullable=False),
        sa.Column("last_night", sa.Date(), nullable=True),
        sa.Column("last_value", sa.Double(), nullable=True),
        sa.Column("last_sha", types.SafeString(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nightly_series")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("nightly_series", schema=None) as batch_op:
        batch_op.create_index(
            "uq_nightly_series_repo_id_test_config_hardware_metric",
            ["repo_id", "test", "config", "hardware", "metric"],
            unique=True,
        )


def downgrade() -> None:
    op.drop_table("nightly_series")
    op.drop_table("nightly")
    op.drop_table("episode")
    op.drop_table("baseline")
    op.drop_table("alarm")
