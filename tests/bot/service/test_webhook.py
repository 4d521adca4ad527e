"""What the webhook refuses, and that nothing of it is kept. Every request goes over real HTTP."""

import hashlib
import hmac
import json
import random
import socket
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.db.models import Delivery, Job
from bot.webhook import signed_by_one
from tests.bot.service.world import OLD_SECRET, REPOSITORY, SECRET, World, signature

BODY = json.dumps({"repository": REPOSITORY, "action": "opened", "number": 1}).encode()


def send(world: World, body: bytes, **headers: str | None) -> Any:
    """Post a body with good headers, but for those given (None leaves one out)."""
    names = {"event": "X-GitHub-Event", "delivery": "X-GitHub-Delivery", "sign": "X-Hub-Signature-256"}
    good: dict[str, str | None] = {
        "event": "pull_request",
        "delivery": str(uuid.uuid4()),
        "sign": signature(body),
    }
    chosen = {names[key]: value for key, value in {**good, **headers}.items() if value is not None}
    return world.http.post("/webhooks/github", content=body, headers=chosen)


REFUSED: list[tuple[str, bytes, dict[str, str | None], int]] = [
    ("unsigned", BODY, {"sign": None}, 401),
    ("signed with another secret", BODY, {"sign": signature(BODY, "guess")}, 401),
    ("signed over another body", BODY, {"sign": signature(BODY + b" ")}, 401),
    (
        "signed with SHA-1",
        BODY,
        {"sign": "sha1=" + hmac.new(SECRET.encode(), BODY, hashlib.sha1).hexdigest()},
        401,
    ),
    ("a signature without its kind", BODY, {"sign": signature(BODY).removeprefix("sha256=")}, 401),
    ("an upper-case signature", BODY, {"sign": "sha256=" + signature(BODY)[7:].upper()}, 401),
    ("no JSON", b"payload=%7B%7D", {}, 400),
    ("half a document", BODY[:-1], {}, 400),
    ("an array", b"[1]", {}, 400),
    ("nested beyond reason", b"[" * 200_000, {}, 400),
    ("bytes that are no text", b'{"a": "\xff\xfe"}', {}, 400),
    ("not what the event always has", b'{"action": "opened"}', {}, 400),
    ("no event name", BODY, {"event": None}, 400),
    ("a hostile event name", BODY, {"event": "pull_request' OR 1=1"}, 400),
    ("no delivery id", BODY, {"delivery": None}, 400),
    ("a hostile delivery id", BODY, {"delivery": "../" * 30}, 400),
]


@pytest.mark.parametrize(
    ("body", "headers", "status"), [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED]
)
def test_a_bad_delivery_is_refused_in_one_line_and_leaves_no_row(
    standing: World, body: bytes, headers: dict[str, str | None], status: int
) -> None:
    before = standing.count(Delivery)
    answer = send(standing, body, **headers)
    assert answer.status_code == status
    assert "\n" not in answer.json()["error"]
    assert standing.count(Delivery) == before


def test_a_secret_can_be_changed_while_deliveries_come_in(standing: World) -> None:
    assert send(standing, BODY, sign=signature(BODY, OLD_SECRET)).status_code == 202
    assert send(standing, BODY, sign=signature(BODY, SECRET)).status_code == 202


def test_an_oversized_body_is_refused_by_its_declared_and_by_its_real_size(standing: World) -> None:
    limit = 26_214_400
    head = "POST /webhooks/github HTTP/1.1\r\nHost: x\r\nX-GitHub-Event: push\r\nX-GitHub-Delivery: a\r\n"
    with socket.create_connection(("127.0.0.1", standing.port), timeout=20) as connection:
        connection.sendall(f"{head}Content-Length: {limit + 1}\r\n\r\n".encode())
        assert connection.recv(64).startswith(b"HTTP/1.1 413")
    with socket.create_connection(("127.0.0.1", standing.port), timeout=20) as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
        answered = b""
        try:
            for _ in range(27):
                connection.sendall(piece)
        except OSError:
            pass  # it may hang up on us before we are through
        answered = connection.recv(64)
    assert answered.startswith(b"HTTP/1.1 413")


def test_an_event_that_nothing_is_done_for_is_accepted_and_forgotten(standing: World) -> None:
    before = (standing.count(Delivery), standing.count(Job))
    for event in ("star", "ping", "brand_new_event"):
        answer = send(standing, BODY, event=event)
        assert (answer.status_code, answer.json()["outcome"]) == (202, "ignored")
    assert (standing.count(Delivery), standing.count(Job)) == before


def test_a_delivery_sent_many_times_at_once_is_one_delivery(standing: World) -> None:
    payload = {"action": "created", "number": 201, "subject": "comment-201"}
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: standing.post("issue_comment", payload, guid="many"), range(48)))
    assert {answer.status_code for answer in answers} == {202}
    assert sorted(answer.json()["outcome"] for answer in answers) == ["new", *["repeated"] * 47]
    assert len(standing.jobs(201)) == 1


def test_a_slow_client_holds_nobody_up(standing: World) -> None:
    with socket.create_connection(("127.0.0.1", standing.port), timeout=20) as connection:
        connection.sendall(b"POST /webhooks/github HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n{")
        started = time.monotonic()
        assert send(standing, BODY).status_code == 202
        assert time.monotonic() - started < 5


def test_two_thousand_forged_signatures_are_all_refused() -> None:
    source = random.Random(20261)
    good = signature(BODY)
    secrets = (SECRET, OLD_SECRET)
    assert signed_by_one(secrets, BODY, good)
    for _ in range(2_000):
        forged = list(good)
        for _ in range(source.randint(1, 3)):
            place = source.randrange(len(forged))
            forged[place] = source.choice(
                [c for c in "0123456789abcdefABCDEF=sh é\x00" if c != forged[place]]
            )
        text = "".join(forged)
        assert text == good or not signed_by_one(secrets, BODY, text)


@settings(max_examples=300, deadline=None)
@given(body=st.binary(max_size=200), sign=st.text(max_size=100))
def test_no_text_signs_any_body(body: bytes, sign: str) -> None:
    assert not signed_by_one((SECRET,), body, sign)
    assert not signed_by_one((SECRET,), body, "sha256=" + sign)
    assert not signed_by_one((), body, signature(body))
