"""What a handler may reach for: the database, the settings, and lazily the repository's GitHub client."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from sqlalchemy.orm import Session, sessionmaker

from bot.db.models import Repository
from bot.dispatch import JobSpec, UserError
from bot.github import Credentials, RepoClient, connect, identity, installation_of
from bot.guarding import Lease, WriteGuard, limits_of
from bot.settings import Settings


@dataclass(frozen=True)
class Clients:
    """The shell around one job. `now` is the job's time, so that decisions are pure and repeatable.

    `lease` is the claim that the job is done under; None where nobody else could do it (previews, tests).
    """

    sessions: sessionmaker[Session]
    settings: Settings
    now: datetime
    spec: JobSpec
    lease: Lease | None = None

    @cached_property
    def credentials(self) -> Credentials:
        """How the service logs in."""
        return credentials(self.settings)

    @cached_property
    def repository(self) -> Repository:
        """The repository's row. UserError where the bot is not installed on it (any more)."""
        with self.sessions() as session:
            row = session.get(Repository, self.spec.repo_id)
        if row is None or row.removed_at is not None:
            raise UserError(f"repository {self.spec.repo_id} is not known (any more)")
        return row

    @cached_property
    def installation_id(self) -> int | None:
        """The App's installation, asked for where the row does not name it; None for a plain account."""
        if not self.credentials.is_app:
            return None
        return self.repository.installation_id or installation_of(self.credentials, self.repository.full_name)

    @cached_property
    def github(self) -> RepoClient:
        """The repository's client. Its writes keep the installation's pace and the job's lease."""
        who = identity(self.credentials)
        connection = connect(self.credentials, self.installation_id, self.guard)
        return RepoClient(connection, self.repository.full_name, who)

    @property
    def guard(self) -> WriteGuard:
        """What each write to GitHub asks first."""
        return WriteGuard(self.sessions, self.installation_id or 0, limits_of(self.settings), self.lease)

    def require_lease(self) -> None:
        """Raise LeaseLost where the job is another worker's by now."""
        if self.lease is not None:
            self.lease.left_s()

    def keep(self, session: Session) -> None:
        """Commit what a job leaves in the database. LeaseLost, and nothing kept, where it is not ours."""
        if self.lease is not None:
            self.lease.lock(session)
        session.commit()

    @property
    def mirrors(self) -> Path | None:
        """The folder of what git fetched; None where nothing may be left behind."""
        return self.settings.data_dir.resolve() / "mirrors"

    @property
    def handles(self) -> tuple[str, ...]:
        """The names that people may mention: our own, and the server's extra ones."""
        return (self.github.who.handle, *self.settings.handle_list)

    def run_url(self, run_id: str) -> str:
        """Return the page that draws the blocks of a run."""
        return f"{self.settings.public_url}/perf/run/{run_id}"

    def series_url(self, series_id: int) -> str:
        """Return the page that draws the nights of a series."""
        return f"{self.settings.public_url}/perf/series/{series_id}"

    def story_url(self, number: int) -> str:
        """Return the page that tells the whole story of a pull request."""
        return f"{self.settings.public_url}/pr/{self.repository.full_name}/{number}"


def credentials(settings: Settings) -> Credentials:
    """Return how the service logs in: an App where its key is there, else a plain account's token."""
    return Credentials(
        settings.github_api_url,
        settings.github_app_id or None,
        settings.private_key or None,
        settings.github_token.get_secret_value() or None,
    )
