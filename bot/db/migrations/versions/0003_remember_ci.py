"""Remember CI: every job seen, its failures by signature, and a rolled-up row a signature.

`outcome` is made anew: no version before this one wrote a row of it.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from bot.db import types

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.drop_table("outcome")
    op.create_table(
        "outcome",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("repo_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("job_key", types.SafeString(length=64), nullable=False),
        sa.Column("signature", types.SafeString(length=64), nullable=False),
        sa.Column("test", types.SafeString(length=500), nullable=True),
        sa.Column("job", types.SafeString(length=400), nullable=False),
        sa.Column("sha", types.SafeString(length=64), nullable=False),
        sa.Column("branch", types.SafeString(length=250), nullable=False),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("on_main", sa.Boolean(), nullable=False),
        sa.Column("at", types.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outcome")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("outcome", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_outcome_at"), ["at"], unique=False)
        batch_op.create_index("ix_outcome_repo_id_signature_at", ["repo_id", "signature", "at"], unique=False)
        batch_op.create_index("ix_outcome_repo_id_test_at", ["repo_id", "test", "at"], unique=False)
        batch_op.create_index(
            "uq_outcome_repo_id_job_key_signature", ["repo_id", "job_key", "signature"], unique=True
        )
    op.create_table(
        "ci_coverage",
        sa.Column(
            "repo_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("scope", types.SafeString(length=400), nullable=False),
        sa.Column("start_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("end_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("repo_id", "scope", name=op.f("pk_ci_coverage")),
    )
    op.create_table(
        "ci_job",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("repo_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("key", types.SafeString(length=64), nullable=False),
        sa.Column("provider", types.SafeString(length=32), nullable=False),
        sa.Column("build", types.SafeString(length=200), nullable=False),
        sa.Column("source", types.SafeString(length=400), nullable=False),
        sa.Column("name", types.SafeString(length=400), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("replaced", sa.Boolean(), nullable=False),
        sa.Column("sha", types.SafeString(length=64), nullable=False),
        sa.Column("branch", types.SafeString(length=250), nullable=False),
        sa.Column("for_pull", sa.Boolean(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("conclusion", types.SafeString(length=32), nullable=False),
        sa.Column("red", sa.Boolean(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.Column("at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("committed_at", types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("data", types.SafeJson(), nullable=False),
        sa.Column("reading", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ci_job")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("ci_job", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_ci_job_at"), ["at"], unique=False)
        batch_op.create_index(
            "ix_ci_job_repo_id_branch_for_pull_at_sha",
            ["repo_id", "branch", "for_pull", "at", "sha"],
            unique=False,
        )
        batch_op.create_index(
            "ix_ci_job_repo_id_for_pull_red_at",
            ["repo_id", "for_pull", "red", "at"],
            unique=False,
        )
        batch_op.create_index("ix_ci_job_repo_id_name_at", ["repo_id", "name", "at"], unique=False)
        batch_op.create_index("ix_ci_job_repo_id_sha_name", ["repo_id", "sha", "name"], unique=False)
        batch_op.create_index("uq_ci_job_repo_id_key", ["repo_id", "key"], unique=True)

    op.create_table(
        "signature",
        sa.Column(
            "repo_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("key", types.SafeString(length=64), nullable=False),
        sa.Column("test", types.SafeString(length=500), nullable=True),
        sa.Column("job", types.SafeString(length=400), nullable=False),
        sa.Column("exception", types.SafeString(length=200), nullable=True),
        sa.Column("message", types.SafeString(length=300), nullable=False),
        sa.Column("first_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("last_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("times_on_main", sa.Integer(), nullable=False),
        sa.Column("pulls", sa.Integer(), nullable=False),
        sa.Column("commits", sa.Integer(), nullable=False),
        sa.Column("last_main_sha", types.SafeString(length=64), nullable=True),
        sa.Column("last_main_at", types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("passes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("repo_id", "key", name=op.f("pk_signature")),
    )
    with op.batch_alter_table("signature", schema=None) as batch_op:
        batch_op.create_index("ix_signature_repo_id_job", ["repo_id", "job"], unique=False)
        batch_op.create_index("ix_signature_repo_id_last_at", ["repo_id", "last_at"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("signature", schema=None) as batch_op:
        batch_op.drop_index("ix_signature_repo_id_last_at")
        batch_op.drop_index("ix_signature_repo_id_job")

    op.drop_table("signature")
    with op.batch_alter_table("ci_job", schema=None) as batch_op:
        batch_op.drop_index("uq_ci_job_repo_id_key")
        batch_op.drop_index("ix_ci_job_repo_id_sha_name")
        batch_op.drop_index("ix_ci_job_repo_id_name_at")
        batch_op.drop_index("ix_ci_job_repo_id_for_pull_red_at")
        batch_op.drop_index("ix_ci_job_repo_id_branch_for_pull_at_sha")
        batch_op.drop_index(batch_op.f("ix_ci_job_at"))

    op.drop_table("ci_job")
    op.drop_table("ci_coverage")
    op.drop_table("outcome")
    op.create_table(
        "outcome",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("repo_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("sha", types.SafeString(length=64), nullable=False),
        sa.Column("branch", types.SafeText(), nullable=True),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("build", types.SafeString(length=200), nullable=False),
        sa.Column("job", types.SafeString(length=400), nullable=False),
        sa.Column("provider", types.SafeString(length=32), nullable=False),
        sa.Column("test", types.SafeText(), nullable=True),
        sa.Column("exception", types.SafeText(), nullable=True),
        sa.Column("message_hash", types.SafeString(length=64), nullable=True),
        sa.Column("conclusion", types.SafeString(length=32), nullable=False),
        sa.Column("at", types.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outcome")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("outcome", schema=None) as batch_op:
        batch_op.create_index("ix_outcome_repo_id_job_at", ["repo_id", "job", "at"], unique=False)
        batch_op.create_index(
            "ix_outcome_repo_id_message_hash_at", ["repo_id", "message_hash", "at"], unique=False
        )
        batch_op.create_index("ix_outcome_repo_id_sha", ["repo_id", "sha"], unique=False)
