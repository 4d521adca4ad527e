"""Create the tables."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from bot.db import types

revision: str = "0001"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "comment",
        sa.Column(
            "repo_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("marker", types.SafeString(length=100), nullable=False),
        sa.Column("comment_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("body_hash", types.SafeString(length=64), nullable=False),
        sa.Column("head_sha", types.SafeString(length=64), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("repo_id", "number", "marker", name=op.f("pk_comment")),
    )
    op.create_table(
        "decision",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("repo_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("kind", types.SafeString(length=32), nullable=False),
        sa.Column("head_sha", types.SafeString(length=64), nullable=False),
        sa.Column("decided_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("facts_hash", types.SafeString(length=64), nullable=False),
        sa.Column("value", types.SafeJson(), nullable=False),
        sa.Column("evidence", types.SafeJson(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decision")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("decision", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_decision_decided_at"), ["decided_at"], unique=False)
        batch_op.create_index(
            "ix_decision_repo_id_number_kind_id", ["repo_id", "number", "kind", "id"], unique=False
        )

    op.create_table(
        "delivery",
        sa.Column("guid", types.SafeString(length=100), nullable=False),
        sa.Column("event", types.SafeString(length=64), nullable=False),
        sa.Column("action", types.SafeString(length=64), nullable=False),
        sa.Column("repo_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("received_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.Column(
            "state",
            sa.Enum("received", "done", "failed", name="deliverystate", native_enum=False, length=16),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("guid", name=op.f("pk_delivery")),
    )
    with op.batch_alter_table("delivery", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_delivery_received_at"), ["received_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_delivery_state"), ["state"], unique=False)

    op.create_table(
        "event",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("kind", types.SafeString(length=32), nullable=False),
        sa.Column("repo_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("data", types.SafeJson(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("event", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_event_at"), ["at"], unique=False)

    op.create_table(
        "job",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("delivery_guid", types.SafeString(length=100), nullable=True),
        sa.Column("verb", types.SafeString(length=32), nullable=False),
        sa.Column("repo_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("subject", types.SafeText(), nullable=False),
        sa.Column("coalesce_key", types.SafeString(length=400), nullable=True),
        sa.Column("dedupe_key", types.SafeString(length=400), nullable=True),
        sa.Column(
            "state",
            sa.Enum("queued", "running", "done", "dead", name="jobstate", native_enum=False, length=16),
            nullable=False,
        ),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before", types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("lease_owner", types.SafeString(length=100), nullable=True),
        sa.Column("lease_until", types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("sent_at", types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("created_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("finished_at", types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("error", types.SafeText(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job")),
        sa.UniqueConstraint("dedupe_key", name=op.f("uq_job_dedupe_key")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("job", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_job_created_at"), ["created_at"], unique=False)
        batch_op.create_index(batch_op.f("ix_job_delivery_guid"), ["delivery_guid"], unique=False)
        batch_op.create_index("ix_job_repo_id_number_state", ["repo_id", "number", "state"], unique=False)
        batch_op.create_index(
            "ix_job_state_sent_at_not_before", ["state", "sent_at", "not_before"], unique=False
        )

    op.create_table(
        "log",
        sa.Column("hash", types.SafeString(length=64), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("stored_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_log")),
    )
    with op.batch_alter_table("log", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_log_stored_at"), ["stored_at"], unique=False)

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

    op.create_table(
        "override",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("repo_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("job", types.SafeText(), nullable=False),
        sa.Column("verdict", types.SafeString(length=16), nullable=False),
        sa.Column("by", types.SafeString(length=100), nullable=False),
        sa.Column("reason", types.SafeText(), nullable=False),
        sa.Column("at", types.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_override")),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("override", schema=None) as batch_op:
        batch_op.create_index("ix_override_repo_id_number", ["repo_id", "number"], unique=False)

    op.create_table(
        "pace",
        sa.Column(
            "installation_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("next_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("minute_started_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("minute_writes", sa.Integer(), nullable=False),
        sa.Column("hour_started_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("hour_writes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("installation_id", name=op.f("pk_pace")),
    )
    op.create_table(
        "permission",
        sa.Column(
            "repo_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("login", types.SafeString(length=100), nullable=False),
        sa.Column("level", types.SafeString(length=16), nullable=False),
        sa.Column("until", types.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("repo_id", "login", name=op.f("pk_permission")),
    )
    op.create_table(
        "pull",
        sa.Column(
            "repo_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("title", types.SafeText(), nullable=False),
        sa.Column("author", types.SafeText(), nullable=False),
        sa.Column("state", types.SafeString(length=16), nullable=False),
        sa.Column("draft", sa.Boolean(), nullable=False),
        sa.Column("head_sha", types.SafeString(length=64), nullable=False),
        sa.Column("base_sha", types.SafeString(length=64), nullable=False),
        sa.Column("base_ref", types.SafeText(), nullable=False),
        sa.Column("labels", types.SafeJson(), nullable=False),
        sa.Column("created_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("opened_by_association", types.SafeText(), nullable=False),
        sa.Column("mode", types.SafeString(length=16), nullable=False),
        sa.PrimaryKeyConstraint("repo_id", "number", name=op.f("pk_pull")),
    )
    with op.batch_alter_table("pull", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_pull_head_sha"), ["head_sha"], unique=False)
        batch_op.create_index(batch_op.f("ix_pull_state"), ["state"], unique=False)

    op.create_table(
        "repository",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("full_name", types.SafeString(length=255), nullable=False),
        sa.Column("installation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("default_branch", types.SafeText(), nullable=False),
        sa.Column("private", sa.Boolean(), nullable=False),
        sa.Column("removed_at", types.UtcDateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_repository")),
    )
    with op.batch_alter_table("repository", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_repository_full_name"), ["full_name"], unique=False)

    op.create_table(
        "run",
        sa.Column("id", types.SafeString(length=36), nullable=False),
        sa.Column("repo_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("head_sha", types.SafeString(length=64), nullable=False),
        sa.Column("base_sha", types.SafeString(length=64), nullable=False),
        sa.Column("kind", types.SafeString(length=32), nullable=False),
        sa.Column("queue", types.SafeString(length=80), nullable=False),
        sa.Column("spec", types.SafeJson(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "queued",
                "running",
                "done",
                "failed",
                "canceled",
                name="runstate",
                native_enum=False,
                length=16,
            ),
            nullable=False,
        ),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("requested_by", types.SafeText(), nullable=False),
        sa.Column("requested_at", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("started_at", types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("not_before", types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("lease_owner", types.SafeString(length=200), nullable=True),
        sa.Column("lease_until", types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("sent_at", types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("cancel_asked", sa.Boolean(), nullable=False),
        sa.Column("progress", types.SafeJson(), nullable=False),
        sa.Column("result", types.SafeJson(), nullable=True),
        sa.Column("machine", types.SafeJson(), nullable=True),
        sa.Column("error", types.SafeText(), nullable=True),
        sa.Column("finished_at", types.UtcDateTime(timezone=True), nullable=True),
        sa.Column("dedupe_key", types.SafeString(length=400), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
        sa.UniqueConstraint("dedupe_key", name=op.f("uq_run_dedupe_key")),
    )
    with op.batch_alter_table("run", schema=None) as batch_op:
        batch_op.create_index(
            "ix_run_repo_id_number_requested_at", ["repo_id", "number", "requested_at"], unique=False
        )
        batch_op.create_index(
            "ix_run_state_queue_requested_at", ["state", "queue", "requested_at"], unique=False
        )

    op.create_table(
        "run_block",
        sa.Column("run_id", types.SafeString(length=36), nullable=False),
        sa.Column("case", types.SafeString(length=200), nullable=False),
        sa.Column("n", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("data", types.SafeJson(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "case", "n", name=op.f("pk_run_block")),
    )
    op.create_table(
        "sweep_lease",
        sa.Column("name", types.SafeString(length=64), nullable=False),
        sa.Column("owner", types.SafeString(length=100), nullable=False),
        sa.Column("until", types.UtcDateTime(timezone=True), nullable=False),
        sa.Column("done_at", types.UtcDateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_sweep_lease")),
    )
    op.create_table(
        "writer_lease",
        sa.Column(
            "repo_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("owner", types.SafeString(length=100), nullable=False),
        sa.Column("until", types.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("repo_id", "number", name=op.f("pk_writer_lease")),
    )


def downgrade() -> None:
    op.drop_table("writer_lease")
    op.drop_table("sweep_lease")
    op.drop_table("run_block")
    with op.batch_alter_table("run", schema=None) as batch_op:
        batch_op.drop_index("ix_run_state_queue_requested_at")
        batch_op.drop_index("ix_run_repo_id_number_requested_at")

    op.drop_table("run")
    with op.batch_alter_table("repository", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_repository_full_name"))

    op.drop_table("repository")
    with op.batch_alter_table("pull", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_pull_state"))
        batch_op.drop_index(batch_op.f("ix_pull_head_sha"))

    op.drop_table("pull")
    op.drop_table("permission")
    op.drop_table("pace")
    with op.batch_alter_table("override", schema=None) as batch_op:
        batch_op.drop_index("ix_override_repo_id_number")

    op.drop_table("override")
    with op.batch_alter_table("outcome", schema=None) as batch_op:
        batch_op.drop_index("ix_outcome_repo_id_sha")
        batch_op.drop_index("ix_outcome_repo_id_message_hash_at")
        batch_op.drop_index("ix_outcome_repo_id_job_at")

    op.drop_table("outcome")
    with op.batch_alter_table("log", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_log_stored_at"))

    op.drop_table("log")
    with op.batch_alter_table("job", schema=None) as batch_op:
        batch_op.drop_index("ix_job_state_sent_at_not_before")
        batch_op.drop_index("ix_job_repo_id_number_state")
        batch_op.drop_index(batch_op.f("ix_job_delivery_guid"))
        batch_op.drop_index(batch_op.f("ix_job_created_at"))

    op.drop_table("job")
    with op.batch_alter_table("event", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_event_at"))

    op.drop_table("event")
    with op.batch_alter_table("delivery", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_delivery_state"))
        batch_op.drop_index(batch_op.f("ix_delivery_received_at"))

    op.drop_table("delivery")
    with op.batch_alter_table("decision", schema=None) as batch_op:
        batch_op.drop_index("ix_decision_repo_id_number_kind_id")
        batch_op.drop_index(batch_op.f("ix_decision_decided_at"))

    op.drop_table("decision")
    op.drop_table("comment")
