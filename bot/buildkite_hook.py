"""Receives Buildkite's webhooks: a signed build or job event means "look at this commit"."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from sqlalchemy import select

from bot import metrics
from bot.db.engine import Sessions
from bot.db.models import Repository
from bot.dispatch import JobSpec
from bot.errors import PayloadRejected
from bot.inbox import Inbox, Incoming
from bot.webhook import parse_object, read_body

EVENTS = frozenset({"build.finished", "build.failing", "job.finished"})
LONGEST_AGE_S = 300
SHA = re.compile(r"[0-9a-f]{40}")
# git@host:org/repo.git, https://host/org/repo.git, ssh://git@host/org/repo
FULL_NAME = re.compile(r"[:/]([\w.-]{1,100}/[\w.-]{1,100}?)(?:\.git)?/?$")


def is_genuine(secret: str, body: bytes, headers: Mapping[str, str], now: datetime) -> bool:
    """Say whether Buildkite sent it: a signature over timestamp and body not older than 5 minutes, or
    (where the webhook is set to send it) the token itself."""
    if not secret:
        return False
    token = headers.get("x-buildkite-token")
    if token is not None:
        return hmac.compare_digest(token.encode("latin-1", "replace"), secret.encode())
    parts = dict(
        part.strip().split("=", 1)
        for part in headers.get("x-buildkite-signature", "")[:500].split(",")
        if "=" in part
    )
    stamp, signature = parts.get("timestamp", ""), parts.get("signature", "")
    if not re.fullmatch(r"[0-9]{1,12}", stamp) or abs(now.timestamp() - int(stamp)) > LONGEST_AGE_S:
        return False
    expected = hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode("latin-1", "replace"))


def commit_of(payload: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the repository's full name and the commit of a build; None where the payload names none."""
    build, pipeline = payload.get("build"), payload.get("pipeline")
    if not isinstance(build, dict) or not isinstance(pipeline, dict):
        return None
    found = FULL_NAME.search(str(pipeline.get("repository", ""))[:500])
    sha = str(build.get("commit", ""))
    return (found.group(1), sha) if found and SHA.fullmatch(sha) else None


def repository_id(sessions: Sessions, full_name: str) -> int | None:
    """Return the id of a repository that the bot is installed on."""
    with sessions() as session:
        asked = select(Repository.id).where(
            Repository.full_name == full_name, Repository.removed_at.is_(None)
        )
        return session.scalars(asked.limit(1)).first()


def delivery_id(headers: Mapping[str, str], body: bytes) -> str:
    """Return an id that a repeated delivery has too: Buildkite's own, else a hash of the body."""
    given = headers.get("x-buildkite-request", "")
    if re.fullmatch(r"[A-Za-z0-9-]{8,72}", given):
        return f"buildkite-{given}"
    return f"buildkite-{hashlib.sha256(body).hexdigest()}"


def look_at(repo_id: int, sha: str) -> tuple[JobSpec, ...]:
    """Return the job that finds the pull requests whose head the commit is."""
    subject = f"sha:{sha}"
    return (JobSpec("expand", repo_id, None, subject, dedupe_key=f"expand:{repo_id}:{subject}"),)


def router(secret: str, limit: int, sessions: Sessions, inbox: Inbox) -> APIRouter:
    """Return the route of Buildkite's webhook."""
    made = APIRouter(tags=["webhooks"])

    @made.post("/webhooks/buildkite", status_code=202, summary="Buildkite's webhook")
    async def buildkite(request: Request) -> JSONResponse:
        body = await read_body(request, limit)
        if not is_genuine(secret, body, request.headers, datetime.now(UTC)):
            raise PayloadRejected(401, "the signature is missing, wrong, or too old")
        payload = parse_object(body)
        event = str(payload.get("event", ""))[:64]
        commit = commit_of(payload) if event in EVENTS else None
        repo_id = await run_in_threadpool(repository_id, sessions, commit[0]) if commit else None
        jobs = look_at(repo_id, commit[1]) if commit and repo_id is not None else ()
        outcome = "ignored"
        if jobs:
            guid = delivery_id(request.headers, body)
            outcome = (await inbox.put(Incoming(guid, "buildkite", event, jobs, body))).value
        metrics.DELIVERIES.labels("buildkite", outcome).inc()
        return JSONResponse({"outcome": outcome}, status_code=202)

    return made
