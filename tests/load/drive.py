"""Clients that send one request after another over kept connections, and time each answer."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True)
class Answers:
    """What came back: seconds of each answer, how many were not 202, and how long it all took."""

    latencies_s: tuple[float, ...]
    refused: int
    wall_s: float

    @property
    def per_second(self) -> float:
        """Answers a second."""
        return len(self.latencies_s) / self.wall_s

    @property
    def p50_ms(self) -> float:
        """The median answer."""
        return median(self.latencies_s) * 1e3

    @property
    def p99_ms(self) -> float:
        """The slowest of a hundred."""
        return quantiles(self.latencies_s, n=100)[98] * 1e3


async def one_client(
    port: int, messages: Iterator[bytes], goes_on: Callable[[], bool]
) -> tuple[list[float], int]:
    """Send until it is enough; return latencies and how many answers were no 202."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    latencies: list[float] = []
    refused = 0
    while goes_on():
        started = time.perf_counter()
        writer.write(next(messages))
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        await reader.readexactly(length)
        latencies.append(time.perf_counter() - started)
        refused += not head.startswith(b"HTTP/1.1 202")
    writer.close()
    await writer.wait_closed()
    return latencies, refused


async def drive(port: int, messages: Iterator[bytes], clients: int, goes_on: Callable[[], bool]) -> Answers:
    """Let clients send side by side."""
    started = time.perf_counter()
    done = await asyncio.gather(*(one_client(port, messages, goes_on) for _ in range(clients)))
    wall_s = time.perf_counter() - started
    latencies = tuple(one for found, _ in done for one in found)
    return Answers(latencies, sum(refused for _, refused in done), wall_s)


def for_seconds(port: int, messages: Iterator[bytes], clients: int, seconds: float) -> Answers:
    """Send for a time."""
    until_s = time.perf_counter() + seconds
    return asyncio.run(drive(port, messages, clients, lambda: time.perf_counter() < until_s))


def so_many(port: int, messages: Iterator[bytes], clients: int, count: int) -> Answers:
    """Send so many requests (and at most one a client more)."""
    left = iter(range(count))
    return asyncio.run(drive(port, messages, clients, lambda: next(left, None) is not None))
