"""schemathesis over every route of the service, pages and forms included: whatever is sent, no server error.

The service is a process of its own with the real wiring. Webhooks are signed and runs hold a valid token, so
that what is generated meets the code behind the doors too; every operation is also met without them.
"""

import hashlib
import hmac
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import BaseModel

from bot.app import create_app
from bot.demo.redis_child import RedisChild
from bot.settings import load_settings
from perf_runner.protocol import Beat, ClaimRequest, PollRequest, Report, make_token
from tests.bot.service.world import free_port, wait_until

ROOT = Path(__file__).parents[2]
WEBHOOK, SERVICE, LANE, BUILDKITE = "webhook-secret", "service-key-of-tests", "lane-key-of-tests", "bk-secret"
EXAMPLES = 8
# Answers without an end: proved by the tests of the live pages.
ENDLESS = {"/events"}
# 503 is what these are for: something around the service is away.
MAY_BE_UNREADY = {"/readyz"}
REPOSITORY = {
    "id": 77, "full_name": "acme/engine", "default_branch": "main", "private": False,
}  # fmt: skip
TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer"}
SHA = {"type": "string", "pattern": "^[0-9a-f]{40}$"}
PULL = {
    "type": "object",
    "properties": {"number": NUMBER, "state": TEXT, "head": {"type": "object", "properties": {"sha": SHA}}},
}
EVENTS = (
    "pull_request", "issue_comment", "pull_request_review", "pull_request_review_comment", "issues", "status",
    "check_run", "check_suite", "workflow_run", "workflow_job", "merge_group", "push", "installation", "ping",
    "installation_repositories", "repository", "label", "member",
)  # fmt: skip
DELIVERY = {
    "type": "object",
    "required": ["action", "number", "repository", "pull_request", "issue", "comment", "sender"],
    "properties": {
        "action": {
            "enum": ["opened", "created", "edited", "synchronize", "completed", "deleted", "added", None, 1]
        },
        "number": NUMBER,
        "repository": {"anyOf": [{"const": REPOSITORY}, {"const": REPOSITORY}, {"type": "object"}, TEXT]},
        "installation": {"type": "object", "properties": {"id": NUMBER}},
        "pull_request": PULL,
        "issue": {"type": "object", "properties": {"number": NUMBER, "pull_request": {"type": "object"}}},
        "comment": {"type": "object", "properties": {"id": NUMBER, "body": TEXT, "user": {"type": "object"}}},
        "review": {"type": "object", "properties": {"id": NUMBER, "body": TEXT}},
        "sender": {"type": "object", "properties": {"login": TEXT, "type": TEXT}},
        "sha": SHA,
        "state": TEXT,
        "ref": TEXT,
        "check_run": {"type": "object"},
        "check_suite": {"type": "object"},
        "workflow_run": {"type": "object"},
        "build": {"type": "object", "properties": {"number": NUMBER, "commit": SHA, "pull_request": PULL}},
        "pipeline": {"type": "object", "properties": {"slug": TEXT}},
    },
}
FORM = {"type": "object", "additionalProperties": TEXT, "properties": {"verb": TEXT, "form": TEXT}}
BODIES: dict[str, type[BaseModel]] = {
    "poll": PollRequest,
    "claim": ClaimRequest,
    "beat": Beat,
    "report": Report,
}


def routes_of(routes: Any) -> Iterator[APIRoute]:
    """Yield every route, those of the pages too."""
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        elif (inner := getattr(route, "original_router", None)) is not None:
            yield from routes_of(inner.routes)


def document() -> dict[str, Any]:
    """Return the service's OpenAPI document with its pages, and with bodies where they are read raw."""
    app = create_app(load_settings(told("redis://127.0.0.1:1", "sqlite://")))
    routes = [route for route in routes_of(app.routes) if route.path not in ENDLESS]
    for route in routes:
        route.include_in_schema = True
    found = get_openapi(title="prgate", version="1", routes=routes)
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    for path, operations in found["paths"].items():
        if "post" in operations and "requestBody" not in operations["post"]:
            kind, schema = body_of(path, schemas)
            operations["post"]["requestBody"] = {"content": {kind: {"schema": schema}}}
    return found


def body_of(path: str, schemas: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return media type and schema of what a path is sent."""
    name = path.rpartition("/")[2]
    if path.startswith("/webhooks/"):
        return "application/json", DELIVERY
    if path.startswith("/runner/"):
        schema = BODIES[name].model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        return "application/json", schema
    return "application/x-www-form-urlencoded", FORM


def told(broker: str, database: str, folder: Path = Path("/nonexistent")) -> dict[str, Any]:
    """Return the settings of the service."""
    return {
        "broker_url": broker,
        "database_url": database,
        "data_dir": str(folder),
        "webhook_secrets": WEBHOOK,
        "service_key": SERVICE,
        "lane_keys": LANE,
        "buildkite_webhook_secret": BUILDKITE,
        "github_token": "ghp_" + "a" * 36,
        "github_api_url": "http://127.0.0.1:9",
        "github_web_url": "http://127.0.0.1:9",
    }


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a running service, and its log."""
    folder = tmp_path_factory.mktemp("service")
    with RedisChild() as redis:
        values = told(redis.url, f"sqlite:///{folder / 'prgate.db'}", folder)
        environment = {f"PRGATE_{name.upper()}": str(value) for name, value in values.items()}
        port = free_port()
        command = [sys.executable, "-m", "bot", "serve", "--port", str(port)]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=folder,
                env={**environment, "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        url = f"http://127.0.0.1:{port}"
        try:
            wait_until(lambda: answers(url), 90, "for the service")
            yield url, folder / "log"
        finally:
            process.terminate()
            process.wait(timeout=60)


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def keys_for(path: str, body: bytes, event: str) -> dict[str, str]:
    """Return the headers that open a path's door."""
    if path == "/webhooks/github":
        signature = hmac.new(WEBHOOK.encode(), body, hashlib.sha256).hexdigest()
        return {
            "X-Hub-Signature-256": f"sha256={signature}",
            "X-GitHub-Delivery": str(uuid.uuid4()),
            "X-GitHub-Event": event,
        }
    if path == "/webhooks/buildkite":
        return {"X-Buildkite-Token": BUILDKITE, "X-Buildkite-Event": "build.finished"}
    if path == "/runner/poll":
        return {"Authorization": f"Bearer {LANE}"}
    found = re.match(r"/runner/runs/([A-Za-z0-9_-]{1,64})/", path)
    if not found:
        return {}
    token = make_token(SERVICE, found[1], 1, datetime.now(UTC) + timedelta(hours=1))
    return {"Authorization": f"Bearer {token}"}


def send(kwargs: Mapping[str, Any], number: int, *, keys: bool) -> requests.Response:
    """Send a generated request, with the keys of its door where they are asked for."""
    fields = ("method", "url", "headers", "params", "data", "json", "cookies", "files")
    prepared = requests.Request(**{name: kwargs[name] for name in fields if name in kwargs}).prepare()
    body = prepared.body or b""
    raw = body.encode() if isinstance(body, str) else body
    path = (prepared.path_url or "/").partition("?")[0]
    if keys and isinstance(raw, bytes):
        prepared.headers.update(keys_for(path, raw, EVENTS[number % len(EVENTS)]))
    with requests.Session() as session:
        return session.send(prepared, timeout=60, allow_redirects=False)


GENERATION = settings(
    deadline=None, derandomize=True, database=None,
    phases=[Phase.generate], suppress_health_check=list(HealthCheck),
)  # fmt: skip


@dataclass
class Prober:
    """Sends what is generated for one operation after another and counts it."""

    url: str
    log: Path
    sent: int = 0
    answered: dict[str, set[int]] = field(default_factory=dict)

    def check(self, case: schemathesis.Case) -> None:
        """Send a request with and without the keys; no answer may be a server error."""
        kwargs = case.as_transport_kwargs(base_url=self.url)
        for keys in (True, False):
            self.sent += 1
            try:
                answer = send(kwargs, self.sent // 2, keys=keys)
            except (requests.exceptions.InvalidHeader, UnicodeError):
                return  # no client can send this
            self.answered.setdefault(case.path, set()).add(answer.status_code)
            if case.path in MAY_BE_UNREADY and answer.status_code == 503:
                continue
            said = f"{case.method} {case.path}: {answer.text[:500]}\n{self.log.read_text()[-3000:]}"
            assert answer.status_code < 500, said


def test_no_request_makes_a_server_error(service: tuple[str, Path]) -> None:
    prober = Prober(*service)
    operations = [one.ok() for one in schemathesis.openapi.from_dict(document()).get_all_operations()]
    for operation in operations:
        examples = EXAMPLES * (8 if operation.path.startswith("/webhooks/") else 1)
        settings(GENERATION, max_examples=examples)(given(case=operation.as_strategy())(prober.check))()
    assert len(operations) >= 40
    assert prober.sent >= len(operations) * EXAMPLES
    assert "Traceback" not in prober.log.read_text()
    # With the keys it came further than the doors.
    answered = prober.answered
    assert 202 in answered["/webhooks/github"]
    assert 204 in answered["/runner/poll"]
    assert {401, 409} <= answered["/runner/runs/{run_id}/claim"] | answered["/runner/runs/{run_id}/beat"]
