"""What a visitor may read and change: GitHub's permission decides, and an error is a no."""

from datetime import UTC, datetime

from sqlalchemy import select
from starlette.requests import HTTPConnection

from bot import permissions
from bot.clients import Clients
from bot.dashboard.auth.sealed import derive_key
from bot.dashboard.auth.visitor import SessionCookie, Visitor
from bot.dashboard.site import Scope
from bot.db.engine import Sessions
from bot.db.models import Permission, Repository
from bot.dispatch import JobSpec
from bot.errors import one_line
from bot.log import get_logger
from bot.settings import Settings

log = get_logger(__name__)

# Permissions that one request may ask GitHub for; the rest is no for now, and asked by the next request.
MOST_ASKED = 20


class Access:
    """Answers for one service. `reading` and `sessions` are its database, to read and to keep permissions."""

    def __init__(self, settings: Settings, sessions: Sessions, reading: Sessions) -> None:
        self.settings = settings
        self.sessions = sessions
        self.reading = reading
        self.key = derive_key(settings.service_key.get_secret_value())
        secure = settings.public_url.startswith("https://")
        self.cookie = SessionCookie(self.key, secure, settings.may_sign_in)

    @property
    def public(self) -> bool:
        """Say whether public repositories are open to everybody."""
        return self.settings.dashboard_access == "public"

    def visitor(self, request: HTTPConnection) -> Visitor:
        """Return who asks."""
        return self.cookie.visitor(request)

    def scope(self, request: HTTPConnection) -> Scope:
        """Return what a visitor may read. May ask GitHub: not for the event loop."""
        return self.scope_of(self.visitor(request))

    def scope_of(self, visitor: Visitor) -> Scope:
        """Return what somebody may read."""
        if visitor.login is None:
            return Scope(public=self.public)
        asked = self.guarded_repositories()
        known = self.known_levels(visitor.login)
        asking = [repo_id for repo_id in asked if repo_id not in known][:MOST_ASKED]
        levels = known | {repo_id: self.level(visitor, repo_id) for repo_id in asking}
        may_read = (one for one in asked if permissions.at_least(levels.get(one, "none"), "read"))
        return Scope(frozenset(may_read), public=self.public)

    def guarded_repositories(self) -> list[int]:
        """Return the repositories that need a permission to be read."""
        asked = select(Repository.id).where(Repository.removed_at.is_(None))
        if self.public:
            asked = asked.where(Repository.private.is_(True))
        with self.reading() as session:
            return list(session.scalars(asked.order_by(Repository.id)))

    def known_levels(self, login: str) -> dict[int, str]:
        """Return the permissions of a person that GitHub told lately."""
        now = datetime.now(UTC)
        asked = select(Permission.repo_id, Permission.level).where(
            Permission.login == login.casefold(), Permission.until > now
        )
        with self.reading() as session:
            return {row.repo_id: row.level for row in session.execute(asked)}

    def level(self, visitor: Visitor, repo_id: int) -> str:
        """Return a visitor's permission on a repository; `none` where GitHub does not tell."""
        if visitor.login is None:
            return "none"
        clients = Clients(self.sessions, self.settings, datetime.now(UTC), JobSpec("page", repo_id))
        try:
            return permissions.level(clients, visitor.login)
        except Exception as error:
            log.warning("no permission could be read", repo=repo_id, error=one_line(error))
            return "none"

    def may_write(self, visitor: Visitor, repo_id: int) -> bool:
        """Say whether a visitor may change what is decided in a repository."""
        return permissions.at_least(self.level(visitor, repo_id), "write")
