"""Values that only this service can have made: JSON with an end and an HMAC-SHA256, for cookies."""

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any

LONGEST = 3_800  # a browser keeps about 4 kB a cookie


def derive_key(secret: str) -> bytes:
    """Return the pages' own key; without a secret one that lasts as long as the process."""
    if not secret:
        return secrets.token_bytes(32)
    return hmac.new(secret.encode(), b"prgate dashboard", hashlib.sha256).digest()


def seal(key: bytes, purpose: str, claims: Mapping[str, Any], until: datetime) -> str:
    """Return the claims as text that `unseal` takes for the same purpose until `until`."""
    body = json.dumps({**claims, "until": until.timestamp()}, separators=(",", ":")).encode()
    return f"{encode(body)}.{encode(mac(key, purpose, body))}"


def unseal(key: bytes, purpose: str, sealed: str, now: datetime) -> dict[str, Any] | None:
    """Return the claims; None where they are forged, for another purpose, or over."""
    body, _, given = sealed[:LONGEST].partition(".")
    try:
        raw, tag = decode(body), decode(given)
    except (ValueError, binascii.Error):
        return None
    if not hmac.compare_digest(tag, mac(key, purpose, raw)):
        return None
    claims: dict[str, Any] = json.loads(raw)
    return claims if float(claims["until"]) > now.timestamp() else None


def mac(key: bytes, purpose: str, body: bytes) -> bytes:
    """Return the authentication of a body for one purpose."""
    return hmac.new(key, purpose.encode() + b"\0" + body, hashlib.sha256).digest()


def encode(raw: bytes) -> str:
    """Return bytes as text that a cookie takes."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode(text: str) -> bytes:
    """Return the bytes of `encode`'s text. ValueError for another text."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
