"""Who asks: nobody that is known, or a person whom GitHub named to us a while ago."""

import hmac
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from starlette.requests import HTTPConnection
from starlette.responses import Response

from bot.dashboard.auth.sealed import encode, mac, seal, unseal

SESSION_LIFE = timedelta(hours=8)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks. `login` None: not signed in; `csrf` goes into every form that changes something.

    `can_sign_in` says whether the service offers it.
    """

    login: str | None = None
    csrf: str = ""
    can_sign_in: bool = False


@dataclass(frozen=True)
class SessionCookie:
    """How a session travels: a sealed cookie, good for some hours, for our pages alone."""

    key: bytes
    secure: bool
    can_sign_in: bool = True

    @property
    def name(self) -> str:
        """Return the cookie's name; over HTTPS one that a browser binds to this very host."""
        return "__Host-prgate" if self.secure else "prgate"

    def visitor(self, request: HTTPConnection) -> Visitor:
        """Return who asks, by the cookie; a forged or old one is nobody's."""
        claims = unseal(self.key, "session", request.cookies.get(self.name, ""), datetime.now(UTC))
        if claims is None:
            return Visitor(can_sign_in=self.can_sign_in)
        return Visitor(claims["login"], self.csrf(claims["id"]), self.can_sign_in)

    def csrf(self, session_id: str) -> str:
        """Return the token that a session's own forms carry; other sites cannot read it."""
        return encode(mac(self.key, "csrf", session_id.encode()))

    def begin(self, response: Response, login: str) -> None:
        """Let a response start a session."""
        claims = {"login": login, "id": secrets.token_urlsafe(16)}
        sealed = seal(self.key, "session", claims, datetime.now(UTC) + SESSION_LIFE)
        life_s = int(SESSION_LIFE.total_seconds())
        response.set_cookie(
            self.name, sealed, max_age=life_s, secure=self.secure, httponly=True, samesite="lax"
        )

    def end(self, response: Response) -> None:
        """Let a response end the session."""
        response.delete_cookie(self.name, secure=self.secure, httponly=True, samesite="lax")


def csrf_holds(visitor: Visitor, given: str) -> bool:
    """Say whether a form came from a page that we gave this visitor."""
    return bool(visitor.csrf) and hmac.compare_digest(visitor.csrf.encode(), given.encode())
