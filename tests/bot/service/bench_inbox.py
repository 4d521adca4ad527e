"""How many deliveries a second are acknowledged, and how evenly: bare app, a transaction each, group commit.

`python -m tests.bot.service.bench_inbox [--seconds 5] [--clients 16] [--database URL]` prints one table.
Server and client are processes of this machine, so it is the ratios that count.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from sqlalchemy import func, select

from bot import inbox, webhook
from bot.app import Wiring, create_app
from bot.db.engine import open_engine, open_sessions
from bot.db.migrate import upgrade
from bot.db.models import Delivery
from bot.demo.redis_child import RedisChild
from bot.log import configure
from bot.serving import serve_app
from bot.settings import Settings, load_settings
from tests.bot.service.dummy import jobs_for, parse
from tests.bot.service.world import REPOSITORY, SECRET, free_port, signature

READING = webhook.Reading(parse, jobs_for)
PAYLOAD_BYTES = 8_000


def bare(_: Settings) -> FastAPI:
    """Verify and answer, nothing else: the yardstick."""
    app = FastAPI()

    @app.post("/webhooks/github")
    async def take(request: Request) -> JSONResponse:
        await understood(request)
        return JSONResponse({"outcome": "new"}, status_code=202)

    return app


def each(settings: Settings) -> FastAPI:
    """A transaction for each delivery, as a service does that has no writer."""
    app = FastAPI()
    sessions = open_sessions(open_engine(settings.database))

    def store(incoming: inbox.Incoming) -> None:
        with sessions.begin() as session:
            inbox.save_repositories(session, [incoming])
            inbox.store(session, [incoming])

    @app.post("/webhooks/github")
    async def take(request: Request) -> JSONResponse:
        await run_in_threadpool(store, await understood(request))
        return JSONResponse({"outcome": "new"}, status_code=202)

    return app


def group(settings: Settings) -> FastAPI:
    """The service itself, with its relay sending to a real Redis."""
    return create_app(settings, Wiring(READING, lambda _: None))


async def understood(request: Request) -> inbox.Incoming:
    body = await request.body()
    assert webhook.signed_by_one((SECRET,), body, request.headers["x-hub-signature-256"])
    return webhook.understand(READING, request.headers["x-github-delivery"], "issue_comment", body)


MODES: dict[str, Callable[[Settings], FastAPI]] = {
    "bare app": bare, "a transaction each": each, "group commit": group,
}  # fmt: skip


def serve(mode: str, told: dict[str, Any], port: int) -> None:
    configure("ERROR")
    serve_app(MODES[mode](load_settings(told)), "127.0.0.1", port)


def request_bytes(number: int) -> bytes:
    """Return one whole request about a pull request of its own."""
    payload = {
        "repository": REPOSITORY,
        "action": "created",
        "number": number,
        "subject": f"comment-{number}",
    }
    body = json.dumps({**payload, "padding": "x" * (PAYLOAD_BYTES - 200)}).encode()
    head = (
        "POST /webhooks/github HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"X-GitHub-Event: issue_comment\r\nX-GitHub-Delivery: {uuid.uuid4()}\r\n"
        f"X-Hub-Signature-256: {signature(body)}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def one_client(port: int, until_s: float, numbers: Any) -> tuple[list[float], int]:
    """Send requests one after another; return their latencies and how many were not accepted."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    latencies: list[float] = []
    refused = 0
    while time.perf_counter() < until_s:
        message = request_bytes(next(numbers))
        started = time.perf_counter()
        writer.write(message)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        )
        await reader.readexactly(length)
        latencies.append(time.perf_counter() - started)
        refused += not head.startswith(b"HTTP/1.1 202")
    writer.close()
    return latencies, refused


async def drive(port: int, clients: int, seconds: float) -> tuple[list[float], int]:
    numbers = iter(range(1, 10_000_000))
    until_s = time.perf_counter() + seconds
    done = await asyncio.gather(*(one_client(port, until_s, numbers) for _ in range(clients)))
    return [latency for latencies, _ in done for latency in latencies], sum(refused for _, refused in done)


def wait_for(port: int) -> None:
    import socket

    for _ in range(400):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("the server did not start")


def measure(mode: str, told: dict[str, Any], clients: int, seconds: float) -> tuple[list[float], int]:
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(mode, told, port))
    process.start()
    try:
        wait_for(port)
        asyncio.run(drive(port, clients, 1.0))  # warm-up
        return asyncio.run(drive(port, clients, seconds))
    finally:
        process.terminate()
        process.join()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=5.0)
    options.add_argument("--clients", type=int, default=16)
    options.add_argument(
        "--database", default="", help="postgresql://… (default: SQLite in a temporary folder)"
    )
    asked = options.parse_args()
    print(f"{asked.clients} clients, {PAYLOAD_BYTES} bytes, {asked.seconds:.0f} s each")
    heads = ("of bare", "p50 ms", "p99 ms", "p99/p50", "refused")
    print(f"{'mode':<20}{'per second':>12}{''.join(f'{head:>9}' for head in heads)}{'rows':>8}")
    yardstick = 0.0
    for mode in MODES:
        with tempfile.TemporaryDirectory(dir="/tmp") as folder, RedisChild() as redis:
            url = asked.database or f"sqlite:///{folder}/bench.db"
            engine = open_engine(url)
            upgrade(engine)
            told = {
                "data_dir": Path(folder),
                "database_url": url,
                "broker_url": redis.url,
                "webhook_secrets": SECRET,
            }
            latencies, refused = measure(mode, told, asked.clients, asked.seconds)
            with open_sessions(engine)() as session:
                rows = session.scalar(select(func.count()).select_from(Delivery)) or 0
            engine.dispose()
        rate = len(latencies) / asked.seconds
        yardstick = yardstick or rate
        p50, p99 = statistics.median(latencies), statistics.quantiles(latencies, n=100)[98]
        print(
            f"{mode:<20}{rate:>12.0f}{rate / yardstick:>9.2f}{p50 * 1e3:>9.1f}{p99 * 1e3:>9.1f}"
            f"{p99 / p50:>9.1f}{refused:>9}{rows:>8}",
            flush=True,
        )


if __name__ == "__main__":
    main()
