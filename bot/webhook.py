"""Receives GitHub's webhooks: size limit, HMAC-SHA256 over the raw bytes, durable inbox, 202.

Nothing is believed before the signature was checked, and nothing is answered with 202 before it was stored.
"""

import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from bot import metrics
from bot.dispatch import JobSpec
from bot.errors import PayloadRejected
from bot.events import PARSERS, Event, MalformedPayload
from bot.inbox import Inbox, Incoming
from bot.log import bound, get_logger

GUID = re.compile(r"[A-Za-z0-9-]{1,72}")
EVENT_NAME = re.compile(r"[a-z_]{1,64}")
# GitHub nests a handful of levels; Python's parser gives up far above that.
SIGNATURE_PREFIX = "sha256="

log = get_logger(__name__)


@dataclass(frozen=True)
class Reading:
    """How deliveries are understood: `parse` and `jobs_for` are pure. `own_logins` are the bot's accounts."""

    parse: Callable[[str, Mapping[str, Any]], Event]
    jobs_for: Callable[[Event, Collection[str]], Sequence[JobSpec]]
    own_logins: Callable[[], Collection[str]] = tuple


def signed_by_one(secrets: Sequence[str], body: bytes, signature: str) -> bool:
    """Say whether one of the secrets made `signature` (`sha256=…`) over the raw body; in constant time."""
    if not signature.startswith(SIGNATURE_PREFIX):
        return False
    given = signature.removeprefix(SIGNATURE_PREFIX).encode("latin-1", "replace")
    matches = [
        hmac.compare_digest(hmac.new(secret.encode(), body, hashlib.sha256).hexdigest().encode(), given)
        for secret in secrets
    ]
    return any(matches)


async def read_body(request: Request, limit: int) -> bytes:
    """Return the raw body; PayloadRejected 413 as soon as it is known to be larger than `limit` bytes."""
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit:
        raise PayloadRejected(413, f"the body is larger than {limit} bytes")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise PayloadRejected(413, f"the body is larger than {limit} bytes")
    return bytes(body)


def parse_object(body: bytes) -> Mapping[str, Any]:
    """Return the body's JSON object; PayloadRejected 400 for anything else."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        raise PayloadRejected(
            400, "the body is no JSON; set the webhook's content type to application/json"
        ) from None
    if not isinstance(payload, dict):
        raise PayloadRejected(400, "the body is no JSON object")
    return payload


def header(request: Request, name: str, form: re.Pattern[str]) -> str:
    """Return a header of the right form; PayloadRejected 400 otherwise."""
    value = request.headers.get(name, "")
    if not form.fullmatch(value):
        raise PayloadRejected(400, f"the header {name} is missing or malformed")
    return value


def understand(reading: Reading, guid: str, name: str, body: bytes) -> Incoming:
    """Return a verified delivery with the jobs it asks for. PayloadRejected 400 for a malformed one."""
    payload = parse_object(body)
    try:
        event = reading.parse(name, payload)
    except MalformedPayload as error:
        raise PayloadRejected(400, str(error)) from None
    jobs = tuple(reading.jobs_for(event, reading.own_logins()))
    return Incoming(guid, name, event.action, jobs, body, event.repo, event.installation_id, event.number)


async def receive(
    request: Request, secrets: Sequence[str], limit: int, reading: Reading, inbox: Inbox
) -> JSONResponse:
    """Take one delivery; 202 once it is stored, or at once where it asks for nothing."""
    started = time.perf_counter()
    body = await read_body(request, limit)
    if not signed_by_one(secrets, body, request.headers.get("x-hub-signature-256", "")):
        raise PayloadRejected(401, "the signature is missing or wrong")
    guid = header(request, "x-github-delivery", GUID)
    name = header(request, "x-github-event", EVENT_NAME)
    incoming = understand(reading, guid, name, body)
    outcome = (await inbox.put(incoming)).value if incoming.jobs else "ignored"
    metrics.DELIVERIES.labels(name if name in PARSERS else "other", outcome).inc()
    metrics.DELIVERY_S.observe(time.perf_counter() - started)
    with bound(delivery=guid):
        log.info("delivery accepted", github_event=name, action=incoming.action, outcome=outcome)
    return JSONResponse({"delivery": guid, "outcome": outcome}, status_code=202)


def router(secrets: Sequence[str], limit: int, reading: Reading, inbox: Inbox) -> APIRouter:
    """Return the route of GitHub's webhook."""
    made = APIRouter(tags=["webhooks"])

    @made.post("/webhooks/github", status_code=202, summary="GitHub's webhook")
    async def github(request: Request) -> JSONResponse:
        return await receive(request, secrets, limit, reading, inbox)

    return made
