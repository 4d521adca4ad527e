"""How long each page takes on a year of a large repository, and on a tenth of it.

`python -m tests.bot.dashboard.bench_pages [--rounds 60]` fills two PostgreSQL databases, serves each from a
process of its own, asks them in turns for every page and prints one table. A time is the server's: from the
request's arrival to the whole answer, in milliseconds. Exit code 1: a page's p95 is above 150 ms, its
median is more than 1.5 times that of the tenth, or the first page with all that it loads is above 100 kB.
"""

import argparse
import multiprocessing
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.dashboard.rendering import shared_pages
from bot.dashboard.routes import router_of
from bot.dashboard.site import Site
from bot.db.engine import open_engine, open_reading_sessions
from bot.db.migrate import upgrade
from bot.serving import serve_app
from tests.bot.dashboard.filling import FULL, REPO, Size, fill, night_sha, signature_of
from tests.bot.service.world import free_port, wait_until
from tests.postgres import Postgres

P95_MS, MOST_RATIO, FIRST_PAGE_BYTES = 150.0, 1.5, 100_000
LOADED = re.compile(r'(?:src|href)="(/static/[^"]+)"')
Address = Callable[[random.Random, Size], str]


def some_pull(dice: random.Random, size: Size) -> str:
    return f"/pr/{REPO}/{dice.randrange(1, size.pulls + 1)}"


def busy_pull(dice: random.Random, size: Size) -> str:
    """A pull request with two hundred decisions."""
    return f"/pr/{REPO}/{100 * dice.randrange(1, size.pulls // 100 + 1)}"


def some_failure(dice: random.Random, size: Size) -> str:
    return f"/red/{REPO}/{signature_of(dice.randrange(1, size.failures // 25))}"


def some_series(dice: random.Random, size: Size) -> str:
    return f"/perf/series/{dice.randrange(1, size.cases + 1)}"


def two_commits(dice: random.Random, size: Size) -> str:
    base, head = dice.sample(range(size.nights), 2)
    return f"/perf/compare?repo={REPO}&base={night_sha(base)[:12]}&head={night_sha(head)[:12]}"


def fixed(path: str) -> Address:
    return lambda dice, size: path


PAGES: dict[str, Address] = {
    "queue": fixed("/"),
    "queue, urgent unknowns that wait for reviewers": fixed("/?ci=unknown&waiting=reviewers&limit=10"),
    "queue, asked of one person": fixed("/?owner=owner-001&sort=oldest&limit=10"),
    "queue, text that nothing has": fixed("/?text=nowhere+to+be+found"),
    "queue as JSON": fixed("/queue.json?limit=100"),
    "pull request": some_pull,
    "pull request of 200 decisions": busy_pull,
    "red board": fixed("/red"),
    "red board, text": fixed("/red?text=test_49&where=main&limit=5"),
    "failure": some_failure,
    "hottest failure": fixed(f"/red/{REPO}/{signature_of(0)}"),
    "performance": fixed("/perf"),
    "performance, text": fixed("/perf?text=case_03"),
    "series": some_series,
    "series as JSON": lambda dice, size: some_series(dice, size) + ".json",
    "compare": two_commits,
    "run": fixed("/perf/run/run-30"),
    "kernels": fixed("/perf/kernels"),
    "owners": fixed("/owners"),
    "workers": fixed("/workers"),
    "accuracy": fixed("/accuracy"),
    "commands": fixed("/help"),
}


class Clock:
    """Says in a header how long the application took for the whole answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()

        async def timed(message: Message) -> None:
            if message["type"] == "http.response.start":
                took_ms = (time.perf_counter() - began) * 1e3
                message["headers"] = [*message["headers"], (b"x-took-ms", f"{took_ms:.3f}".encode())]
            await send(message)

        await self.app(scope, receive, timed)


def serve(database_url: str, port: int) -> None:
    """Serve the pages over a store as the service does."""
    sessions = open_reading_sessions(open_engine(database_url))
    app = FastAPI()
    app.include_router(router_of(Site(sessions, shared_pages(), "https://github.example")))
    app.add_middleware(Clock)
    serve_app(app, "127.0.0.1", port)


@contextmanager
def serving(database_url: str) -> Iterator[httpx.Client]:
    """Serve from a process of its own."""
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(database_url, port), daemon=True
    )
    process.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            wait_until(lambda: answers(client), 60, "for the pages")
            yield client
    finally:
        process.terminate()
        process.join(timeout=20)


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/help").status_code == 200
    except httpx.TransportError:
        return False


def filled(postgres: Postgres, size: Size) -> str:
    """Return the URL of a database of a size."""
    url = postgres.new_database()
    engine = open_engine(url)
    upgrade(engine)
    fill(engine, size)
    engine.dispose()
    return url


def timed_ms(client: httpx.Client, path: str) -> float:
    answer = client.get(path)
    assert answer.status_code == 200, (path, answer.status_code)
    return float(answer.headers["x-took-ms"])


Times = tuple[list[float], list[float]]


def measure(client: httpx.Client, tenth: httpx.Client, address: Address, rounds: int) -> Times:
    """Return the times on the whole and on a tenth, asked for in turns so that both meet the same noise."""
    dice = random.Random(1)
    whole_ms, tenth_ms = [], []
    for turn in range(rounds + 3):
        one, other = timed_ms(client, address(dice, FULL)), timed_ms(tenth, address(dice, FULL.tenth()))
        if turn >= 3:
            whole_ms.append(one)
            tenth_ms.append(other)
    return whole_ms, tenth_ms


def p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def first_page_bytes(client: httpx.Client) -> int:
    """Return the bytes of the first page with what it loads; nothing is compressed."""
    page = client.get("/")
    parts = [client.get(path.replace("&amp;", "&")) for path in dict.fromkeys(LOADED.findall(page.text))]
    return sum(len(answer.content) for answer in [page, *parts])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    postgres = Postgres()
    try:
        began = time.monotonic()
        whole, tenth = filled(postgres, FULL), filled(postgres, FULL.tenth())
        print(f"filled in {time.monotonic() - began:.0f} s", file=sys.stderr)
        with serving(whole) as client, serving(tenth) as other:
            bad = report(client, other, rounds)
            first = first_page_bytes(client)
        print(f"\nfirst page with all it loads, uncompressed: {first / 1000:.1f} kB")
    finally:
        postgres.stop()
    return 1 if bad or first > FIRST_PAGE_BYTES else 0


def report(client: httpx.Client, tenth: httpx.Client, rounds: int) -> bool:
    """Print the table; say whether a bar was missed."""
    print("| page | p50 ms | p95 ms | p50 ms of a tenth | ratio | kB |")
    print("|---|---|---|---|---|---|")
    bad = False
    for name, address in PAGES.items():
        whole_ms, tenth_ms = measure(client, tenth, address, rounds)
        size = len(client.get(address(random.Random(1), FULL)).content) / 1000
        high, middle, small = p95(whole_ms), statistics.median(whole_ms), statistics.median(tenth_ms)
        missed = high > P95_MS or middle / small > MOST_RATIO
        bad = bad or missed
        cells = [name + (" **missed**" if missed else ""), f"{middle:.1f}", f"{high:.1f}", f"{small:.1f}"]
        print("|", " | ".join([*cells, f"{middle / small:.2f}", f"{size:.1f}"]), "|", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
