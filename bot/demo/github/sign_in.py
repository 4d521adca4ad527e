"""The stand-in's web flows: signing in as one of its people, and making an App from a manifest."""

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from bot.demo.github.hub import Hub
from bot.demo.github.pages import Page

CLIENT_ID = "Iv1.standin"
CLIENT_SECRET = "standin-client-secret"  # noqa: S105 - guards nothing: the stand-in is for this machine
Given = dict[str, str]


@dataclass
class Pending:
    """What was begun: codes of sign-ins with their login and challenge, codes of manifests."""

    sign_ins: dict[str, tuple[str, Given]] = field(default_factory=dict)
    manifests: dict[str, dict[str, Any]] = field(default_factory=dict)


def create_sign_in(hub: Hub, page: Page) -> APIRouter:
    """Return the pages of both flows."""
    router = APIRouter()
    pending = Pending()

    @router.get("/login/oauth/authorize")
    def authorize(request: Request, choose: str = "") -> Response:
        """Let the visitor choose who they are, and send them back."""
        asked = dict(request.query_params)
        if asked.get("client_id") != CLIENT_ID or "redirect_uri" not in asked:
            return page("choose.html", 404, title="There is no such App", choices=[])
        if choose in hub.state.users:
            code = secrets.token_hex(10)
            pending.sign_ins[code] = (choose, asked)
            back = {"code": code, "state": asked.get("state", "")}
            return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", 302)
        people = [user for user in hub.state.users.values() if user.type == "User"]
        links = [(f"{user.login} ({user.permission})", {**asked, "choose": user.login}) for user in people]
        shown = [(label, f"/login/oauth/authorize?{urlencode(query)}") for label, query in links]
        return page("choose.html", title="Sign in as", choices=shown)

    @router.post("/login/oauth/access_token")
    async def access_token(request: Request) -> Response:
        """Give a token for a code, once, to who can prove to have begun."""
        given = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        login, asked = pending.sign_ins.pop(given.get("code", ""), ("", {}))
        proven = given.get("client_secret") == CLIENT_SECRET and verifies(given, asked)
        if not login or not proven or given.get("redirect_uri") != asked["redirect_uri"]:
            return JSONResponse({"error": "bad_verification_code"})
        token = f"ghu_standin{secrets.token_hex(8)}"
        hub.state.tokens[token] = login
        return JSONResponse({"access_token": token, "token_type": "bearer", "scope": ""})

    add_manifests(router, hub, page, pending)
    return router


def verifies(given: Given, asked: Given) -> bool:
    """Say whether a verifier is the one that the challenge was made from (S256)."""
    digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=") == asked.get("code_challenge")


def add_manifests(router: APIRouter, hub: Hub, page: Page, pending: Pending) -> None:
    """Add the flow that makes an App from a manifest."""

    @router.post("/settings/apps/new")
    @router.post("/organizations/{owner}/settings/apps/new")
    async def new_app(request: Request, state: str = "") -> Response:
        """Show what would be made."""
        fields = parse_qs((await request.body()).decode())
        manifest: dict[str, Any] = json.loads(fields["manifest"][0])
        code = secrets.token_hex(10)
        pending.manifests[code] = manifest
        back = f"{manifest['redirect_url']}?{urlencode({'code': code, 'state': state})}"
        return page("choose.html", title=f"Create {manifest['name']}", choices=[("Create GitHub App", back)])

    @router.post("/api/v3/app-manifests/{code}/conversions")
    def convert(code: str) -> Response:
        """Give the new App's secrets for a code, once."""
        manifest = pending.manifests.pop(code, None)
        if manifest is None:
            return JSONResponse({"message": "Not Found"}, 404)
        key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
        made = {
            "id": 99,
            "slug": manifest["name"].lower(),
            "name": manifest["name"],
            "html_url": f"{hub.shapes.url}/apps/{manifest['name'].lower()}",
            "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET,
            "webhook_secret": secrets.token_hex(20),
            "pem": key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode(),
        }
        return JSONResponse(made, 201)
