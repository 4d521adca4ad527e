"""Buildkite's webhook: signed and fresh, it means "look at this commit"; anything else means nothing."""

import hashlib
import hmac
import json
import time
from typing import Any

import pytest
from sqlalchemy import select

from bot.buildkite_hook import commit_of
from bot.db.models import Job, Repository
from tests.bot.service.world import REPOSITORY, World

SECRET = "buildkite-canary"
SHA = "a1" * 20


def build(
    event: str = "build.finished", url: str = "git@github.com:acme/engine.git", sha: str = SHA
) -> bytes:
    pipeline = {"slug": "engine", "repository": url}
    return json.dumps({"event": event, "build": {"id": "b1", "commit": sha}, "pipeline": pipeline}).encode()


def signed(body: bytes, age_s: float = 0, secret: str = SECRET) -> dict[str, str]:
    stamp = str(int(time.time() - age_s))
    made = hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return {
        "X-Buildkite-Signature": f"timestamp={stamp},signature={made}",
        "X-Buildkite-Event": "build.finished",
    }


@pytest.fixture
def world(standing: World) -> World:
    with standing.sessions.begin() as session:
        session.merge(Repository(**REPOSITORY))
    return standing


def post(world: World, body: bytes, headers: dict[str, Any]) -> Any:
    return world.http.post("/webhooks/buildkite", content=body, headers=headers)


def looks(world: World) -> list[Job]:
    with world.sessions() as session:
        return list(session.scalars(select(Job).where(Job.subject == f"sha:{SHA}")))


def test_a_finished_build_queues_a_look_at_its_commit_once(world: World) -> None:
    body = build()
    first = post(world, body, signed(body))
    assert (first.status_code, first.json()["outcome"]) == (202, "new")
    assert post(world, body, signed(body)).json()["outcome"] == "repeated"
    (look,) = looks(world)
    assert (look.verb, look.repo_id, look.number) == ("expand", REPOSITORY["id"], None)


def test_the_plain_token_is_taken_too(world: World) -> None:
    body = build("job.finished")
    assert post(world, body, {"X-Buildkite-Token": SECRET}).status_code == 202
    assert post(world, body, {"X-Buildkite-Token": "guess"}).status_code == 401


def test_unsigned_old_and_forged_events_are_refused(world: World) -> None:
    body = build()
    for headers in (
        {},
        signed(body, age_s=3_600),
        signed(body, age_s=-3_600),
        signed(body, secret="guess"),
        signed(build(sha="b2" * 20)),
        {"X-Buildkite-Signature": "timestamp=9999999999999999999,signature=00"},
        {"X-Buildkite-Signature": b",,,=,timestamp,signature=\xe9"},
    ):
        assert post(world, body, headers).status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        build("build.scheduled"),
        build(url="git@github.com:acme/unknown.git"),
        build(sha="HEAD"),
        b"{}",
        b'{"build": 1}',
    ],
)
def test_what_concerns_no_commit_of_ours_is_accepted_and_forgotten(world: World, body: bytes) -> None:
    answer = post(world, body, signed(body))
    assert (answer.status_code, answer.json()["outcome"]) == (202, "ignored")


def test_malformed_json_is_refused(world: World) -> None:
    assert post(world, b"[", signed(b"[")).status_code == 400


@pytest.mark.parametrize(
    "url",
    [
        "git@github.com:acme/engine.git",
        "https://github.com/acme/engine",
        "ssh://git@github.com/acme/engine.git/",
    ],
)
def test_the_repository_is_read_from_each_form_of_its_url(url: str) -> None:
    payload = {"build": {"commit": SHA}, "pipeline": {"repository": url}}
    assert commit_of(payload) == ("acme/engine", SHA)
