"""Sign-in and sign-out over HTTP."""

import hmac
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import RedirectResponse, Response

from bot.dashboard.auth import oauth
from bot.dashboard.auth.access import Access
from bot.dashboard.auth.forms import Signed
from bot.dashboard.auth.sealed import seal, unseal
from bot.dashboard.rendering import PageRoute

ATTEMPT_LIFE = timedelta(minutes=10)
ATTEMPT = "prgate-sign-in"
Text = Annotated[str, Query(max_length=2_000)]


def create_auth_router(access: Access) -> APIRouter:
    """Return the routes below `/auth`."""
    router = APIRouter(prefix="/auth", include_in_schema=False, route_class=PageRoute)
    settings = access.settings

    @router.get("/sign-in")
    def sign_in(goes_on: Text = "/") -> Response:
        """Send a visitor to GitHub."""
        if not settings.may_sign_in:
            raise HTTPException(404, "Nobody can sign in here: the service knows no client secret.")
        attempt = oauth.begin(goes_on)
        answer = RedirectResponse(oauth.authorize_url(settings, attempt), 303)
        keep_attempt(access, answer, attempt)
        return answer

    @router.get("/callback")
    def callback(request: Request, state: Text = "", code: Text = "", error: Text = "") -> Response:
        """Take a visitor back from GitHub."""
        attempt = kept_attempt(access, request)
        if attempt is None or not hmac.compare_digest(attempt.state.encode(), state.encode()):
            raise HTTPException(400, "This sign-in was not begun in this browser, or is too old.")
        if error or not code:
            raise HTTPException(403, "GitHub did not let us know who you are; nothing was changed.")
        try:
            login = oauth.login_for(settings, code, attempt.verifier)
        except oauth.SignInFailed as failure:
            raise HTTPException(502, str(failure)) from None
        answer = RedirectResponse(attempt.goes_on, 303)
        access.cookie.begin(answer, login)
        answer.delete_cookie(ATTEMPT, path="/auth")
        return answer

    @router.post("/sign-out")
    def sign_out(_: Signed) -> Response:
        """End the session."""
        answer = RedirectResponse("/", 303)
        access.cookie.end(answer)
        return answer

    return router


def keep_attempt(access: Access, answer: Response, attempt: oauth.Attempt) -> None:
    """Let the visitor's browser carry the attempt until it comes back."""
    claims = {"state": attempt.state, "verifier": attempt.verifier, "goes_on": attempt.goes_on}
    sealed = seal(access.key, "sign-in", claims, datetime.now(UTC) + ATTEMPT_LIFE)
    life_s = int(ATTEMPT_LIFE.total_seconds())
    answer.set_cookie(
        ATTEMPT,
        sealed,
        max_age=life_s,
        path="/auth",
        secure=access.cookie.secure,
        httponly=True,
        samesite="lax",
    )


def kept_attempt(access: Access, request: Request) -> oauth.Attempt | None:
    """Return the attempt that the browser carries; None where there is none that holds."""
    claims = unseal(access.key, "sign-in", request.cookies.get(ATTEMPT, ""), datetime.now(UTC))
    return oauth.Attempt(claims["state"], claims["verifier"], claims["goes_on"]) if claims else None
