"""Runs inside the sandbox with nothing but the standard library: a server of the revision, and its load.

    python serving_child.py OPTIONS

OPTIONS is the JSON of `perf_runner.targets.serving.ServingOptions`. The server is started and waited for, the
warm-up requests are made, then `{"ready": true}` is written and each line `{"run": n}` on standard input is
answered with one result document. Closed loop: `concurrency` clients, each with one request under way. Open
loop: Poisson arrivals at `request_rate` a second from a fixed seed, the same for every arm; a latency counts
from the moment a request was due, so a server that falls behind cannot hide it.
"""

import http.client
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Any

HEALTH_INTERVAL_S = 0.1
MAX_ANSWER_BYTES = 256 * 1024**2
ARRIVAL_SEED = 20260901


def main(arguments: list[str]) -> int:
    """Serve runs until the input ends, then stop the server; return the exit code."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    options = json.loads(arguments[0])
    port = free_port()
    command = [part.replace("{port}", str(port)) for part in options["command"]]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=2)
    try:
        wait_for_health(server, port, options)
        load = Load(port, options)
        load.closed_loop(options["warmup_requests"], 1)
        answer(answers, {"ready": True})
        for line in sys.stdin:
            answer(answers, load.run(int(json.loads(line)["run"])))
    except StartError as error:
        answer(answers, {"error": str(error)})
        return 1
    finally:
        server.kill()
        server.wait()
    return 0


class StartError(Exception):
    """The server does not come up; the message says how it ended."""


def free_port() -> int:
    """Return a port of the loopback that nobody uses (behind the sandbox: one of a network of its own)."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def wait_for_health(server: "subprocess.Popen[bytes]", port: int, options: dict[str, Any]) -> None:
    """Return once the health path answers 200; StartError when the server ends or takes too long."""
    deadline_s = time.monotonic() + options["start_timeout_s"]
    while time.monotonic() < deadline_s:
        if server.poll() is not None:
            raise StartError(f"the server ended with code {server.returncode} before it was healthy")
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", options["health"])
            status = connection.getresponse().status
            connection.close()
            if status == 200:
                return
        except OSError:
            pass
        time.sleep(HEALTH_INTERVAL_S)
    raise StartError(f"the server was not healthy within {options['start_timeout_s']:.0f} s")


class Load:
    """Requests to one server, in a closed or an open loop."""

    def __init__(self, port: int, options: dict[str, Any]) -> None:
        self.port, self.options = port, options

    def run(self, requests: int) -> dict[str, Any]:
        """Make `requests` requests as the options say and return the result document."""
        started_s = time.perf_counter()
        rate = self.options.get("request_rate")
        if rate:
            ended = self.open_loop(requests, float(rate))
        else:
            ended = self.closed_loop(requests, int(self.options["concurrency"]))
        duration_s = time.perf_counter() - started_s
        return document(ended, requests, duration_s)

    def closed_loop(self, requests: int, concurrency: int) -> list["Ended"]:
        """Make the requests from `concurrency` clients, each waiting for its answer before the next."""
        numbers, lock, ended = iter(range(requests)), threading.Lock(), list[Ended]()

        def client() -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                result = self.request(number, time.perf_counter())
                with lock:
                    ended.append(result)

        together([client] * min(concurrency, max(requests, 1)))
        return ended

    def open_loop(self, requests: int, rate: float) -> list["Ended"]:
        """Make the requests when they are due, however many are under way."""
        arrivals = random.Random(ARRIVAL_SEED)  # noqa: S311 - arrivals, no secret
        due_s = time.perf_counter()
        threads, ended = [], list[Ended]()
        for number in range(requests):
            due_s += arrivals.expovariate(rate)
            time.sleep(max(due_s - time.perf_counter(), 0.0))
            arguments = (number, due_s)
            thread = threading.Thread(target=lambda a=arguments: ended.append(self.request(*a)))
            thread.start()
            threads.append(thread)
        for thread in threads:
            thread.join()
        return ended

    def request(self, number: int, due_s: float) -> "Ended":
        """Make one request; its latency counts from `due_s` to the last byte of the answer."""
        body = json.dumps({**self.options["body"], "seed": number}).encode()
        headers = {"Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.options["timeout_s"])
        try:
            connection.request("POST", self.options["endpoint"], body, headers)
            response = connection.getresponse()
            content = response.read(MAX_ANSWER_BYTES)
            latency_s = time.perf_counter() - due_s
            return Ended(latency_s, response.status == 200, read_object(content))
        except (OSError, http.client.HTTPException):
            return Ended(time.perf_counter() - due_s, False, {})
        finally:
            connection.close()


class Ended:
    """How one request ended: seconds, whether it was answered well, and the JSON object of its answer."""

    def __init__(self, latency_s: float, good: bool, said: dict[str, Any]) -> None:
        self.latency_s, self.good, self.said = latency_s, good, said


def together(calls: list[Callable[[], None]]) -> None:
    """Run the calls at the same time and wait for all."""
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def read_object(content: bytes) -> dict[str, Any]:
    """Return the JSON object of an answer, empty for any other content (an image, say)."""
    if not content.startswith(b"{"):
        return {}
    try:
        value = json.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def document(ended: list[Ended], requests: int, duration_s: float) -> dict[str, Any]:
    """Return the result document: latencies of the good answers, and what the last one says of the server."""
    good = [result for result in ended if result.good]
    said = good[-1].said if good else {}
    described: dict[str, Any] = {
        key: said[key] for key in ("path_log", "stages_s", "peak_memory_mb", "workload") if key in said
    }
    counts: dict[str, Any] = {"requested": requests, "completed": len(good), "failed": requests - len(good)}
    rate = {"duration_s": duration_s, "throughput_qps": len(good) / duration_s if duration_s > 0 else 0.0}
    if not good:
        return {**counts, "error": "no request was answered with 200"}
    return {**described, **counts, **rate, "latencies_s": [result.latency_s for result in good]}


def answer(output: IO[str], value: dict[str, Any]) -> None:
    """Write one document as one line."""
    output.write(json.dumps(value) + "\n")
    output.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
