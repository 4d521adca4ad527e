"""GitHub's web flow: away with a state and a PKCE challenge, back with a code, the login for it.

RFC 6749 section 4.1 and RFC 7636 (S256), as GitHub documents them for Apps. The token is used once, to ask
whose it is, and forgotten.
"""

import base64
import hashlib
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx

from bot.settings import Settings

LIMIT_S = 10.0


class SignInFailed(Exception):  # noqa: N818 - it is told to the visitor
    """The sign-in came to nothing; the text says why and may be shown."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to GitHub and back: what must come back, and where the visitor goes on."""

    state: str
    verifier: str
    goes_on: str


def begin(goes_on: str) -> Attempt:
    """Return a new attempt; its address may only be a page of ours."""
    return Attempt(secrets.token_urlsafe(24), secrets.token_urlsafe(48), local_path(goes_on))


def local_path(wanted: str) -> str:
    """Return a path on this very host, else `/`: a sign-in must not lead elsewhere."""
    plain = wanted.isprintable() and "\\" not in wanted and len(wanted) <= 1_000
    return wanted if plain and wanted.startswith("/") and not wanted.startswith("//") else "/"


def callback_url(settings: Settings) -> str:
    """Return where GitHub sends people back to; the App must know it."""
    return f"{settings.public_url}/auth/callback"


def authorize_url(settings: Settings, attempt: Attempt) -> str:
    """Return the page of GitHub that asks whether we may know the login; no scope is asked for."""
    asked = {
        "client_id": settings.github_client_id,
        "redirect_uri": callback_url(settings),
        "state": attempt.state,
        "code_challenge": challenge(attempt.verifier),
        "code_challenge_method": "S256",
    }
    return f"{settings.github_web_url}/login/oauth/authorize?{urlencode(asked)}"


def challenge(verifier: str) -> str:
    """Return the S256 challenge of a verifier."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def login_for(settings: Settings, code: str, verifier: str) -> str:
    """Return whose sign-in a code is. SignInFailed where GitHub does not say."""
    given = {
        "client_id": settings.github_client_id,
        "client_secret": settings.github_client_secret.get_secret_value(),
        "code": code,
        "redirect_uri": callback_url(settings),
        "code_verifier": verifier,
    }
    with httpx.Client(timeout=LIMIT_S, headers={"Accept": "application/json"}) as client:
        url = f"{settings.github_web_url}/login/oauth/access_token"
        token = answer(client, "POST", url, data=given).get("access_token")
        if not isinstance(token, str):
            raise SignInFailed("GitHub did not accept the sign-in; it may be too old. Please sign in again.")
        user = answer(
            client, "GET", f"{settings.github_api_url}/user", headers={"Authorization": f"Bearer {token}"}
        )
    login = user.get("login")
    if not isinstance(login, str) or not login:
        raise SignInFailed("GitHub did not say who you are.")
    return login


def answer(client: httpx.Client, verb: str, url: str, **more: Any) -> dict[str, Any]:
    """Return GitHub's JSON object. SignInFailed where there is none."""
    try:
        found = client.request(verb, url, **more).json()
    except (httpx.HTTPError, ValueError):
        raise SignInFailed("GitHub did not answer as it should; please try again in a minute.") from None
    return found if isinstance(found, dict) else {}
