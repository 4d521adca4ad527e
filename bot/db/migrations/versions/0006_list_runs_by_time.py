"""Let runs be listed by the time they were asked for."""

from collections.abc import Sequence

from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    op.create_index("ix_run_requested_at", "run", ["requested_at"])


def downgrade() -> None:
    op.drop_index("ix_run_requested_at", table_name="run")
