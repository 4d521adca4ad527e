"""What may be read, from where, and how much: against servers that do not play fair."""

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest

from bot.ci.providers.fetch import MOST_REQUESTS, Fetcher, origin_of, origins

SECRET = {"Authorization": "Bearer token"}
Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Server:
    """A server that answers by path; `asked` holds the paths and the authorization that came with them."""

    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers.get("Authorization")))
                status, headers, body = outer.answers.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    self.wfile.write(body)
                except ConnectionError:
                    outer.asked.append(("hung up", None))

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        Thread(target=self.http.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[[], Server]]:
    made: list[Server] = []

    def start() -> Server:
        made.append(Server())
        return made[-1]

    yield start
    for server in made:
        server.stop()


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client() as client:
        yield client


def test_a_host_that_is_not_allowed_is_never_asked(serve: Callable[[], Server], http: httpx.Client) -> None:
    known, other = serve(), serve()
    fetcher = Fetcher(origins([known.url], ["logs.example.org"]), http)
    for url in (
        other.url,
        known.url.replace("http://", "http://user@"),
        "file:///etc/passwd",
        "http://[::1",
        "",
    ):
        assert fetcher.text(url, SECRET) is None
    assert known.asked == other.asked == []
    assert "127.0.0.1 is not a host that logs may come from" in fetcher.notes


def test_a_redirect_to_another_host_is_not_followed(serve: Callable[[], Server], http: httpx.Client) -> None:
    known, other = serve(), serve()
    known.answers["/log"] = (302, {"Location": f"{other.url}/metadata"}, b"")
    other.answers["/metadata"] = (200, {}, b"secret")
    assert Fetcher(origins([known.url], []), http).text(f"{known.url}/log", SECRET) is None
    assert other.asked == []


def test_a_redirect_to_an_allowed_host_carries_no_token(
    serve: Callable[[], Server], http: httpx.Client
) -> None:
    known, store = serve(), serve()
    known.answers["/log"] = (302, {"Location": f"{store.url}/signed"}, b"")
    store.answers["/signed"] = (200, {}, b"the log")
    assert Fetcher(origins([known.url, store.url], []), http).text(f"{known.url}/log", SECRET) == "the log"
    assert known.asked == [("/log", "Bearer token")]
    assert store.asked == [("/signed", None)]


def test_a_ring_of_redirects_ends(serve: Callable[[], Server], http: httpx.Client) -> None:
    known = serve()
    known.answers["/log"] = (302, {"Location": "/log"}, b"")
    assert Fetcher(origins([known.url], []), http).text(f"{known.url}/log", {}) is None
    assert len(known.asked) == 3


def test_a_next_page_elsewhere_is_not_a_next_page(serve: Callable[[], Server], http: httpx.Client) -> None:
    known, other = serve(), serve()
    fetcher = Fetcher(origins([known.url, other.url], []), http)
    known.answers["/a"] = (200, {"Link": f'<{known.url}/b>; rel="next"'}, b"[1]")
    known.answers["/b"] = (200, {"Link": f'<{other.url}/c>; rel="next"'}, b"[2]")
    assert fetcher.json(f"{known.url}/a", SECRET) == ([1], f"{known.url}/b")
    assert fetcher.json(f"{known.url}/b", SECRET) == ([2], None)


def test_what_is_too_long_is_not_read_to_its_end_and_not_half_known(
    serve: Callable[[], Server], http: httpx.Client
) -> None:
    known = serve()
    known.answers["/zip"] = (200, {}, b"x" * 3_000_000)
    bomb = gzip.compress(b"\0" * 40_000_000)
    known.answers["/bomb"] = (200, {"Content-Encoding": "gzip", "Content-Length": str(len(bomb))}, bomb)
    fetcher = Fetcher(origins([known.url], []), http)
    assert fetcher.data(f"{known.url}/zip", {}, 1024**2) is None
    assert fetcher.data(f"{known.url}/bomb", {}, 1024**2) is None
    assert list(fetcher.notes) == ["127.0.0.1 answered with more than 1 MiB, which was not read"]


def test_one_verdict_reads_no_more_than_its_share(serve: Callable[[], Server], http: httpx.Client) -> None:
    known = serve()
    fetcher = Fetcher(origins([known.url], []), http, requests=MOST_REQUESTS)
    assert fetcher.text(f"{known.url}/log", {}) is None
    assert known.asked == []


@pytest.mark.parametrize("body", [b"<html>", b"", b"[" * 100_000, b"\xff\xfe"])
def test_what_is_no_json_is_not_known(serve: Callable[[], Server], http: httpx.Client, body: bytes) -> None:
    known = serve()
    known.answers["/a"] = (200, {}, body)
    fetcher = Fetcher(origins([known.url], []), http)
    assert fetcher.json(f"{known.url}/a", {}) == (None, None)
    assert list(fetcher.notes) == ["127.0.0.1 answered something that is no JSON"]


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_refusal_is_said(serve: Callable[[], Server], http: httpx.Client, status: int) -> None:
    known = serve()
    known.answers["/a"] = (status, {}, b"{}")
    fetcher = Fetcher(origins([known.url], []), http)
    assert fetcher.json(f"{known.url}/a", {}) == (None, None)
    assert len(fetcher.notes) == 1


def test_a_server_that_is_not_there_is_said(http: httpx.Client) -> None:
    fetcher = Fetcher(origins(["http://127.0.0.1:1"], []), http)
    assert fetcher.text("http://127.0.0.1:1/log", {}) is None
    assert list(fetcher.notes) == ["127.0.0.1 did not answer (ConnectError)"]


def test_invalid_bytes_of_a_log_are_replaced(serve: Callable[[], Server], http: httpx.Client) -> None:
    known = serve()
    known.answers["/log"] = (200, {}, b"ok \xff\xfe end")
    assert Fetcher(origins([known.url], []), http).text(f"{known.url}/log", {}) == "ok \ufffd\ufffd end"


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://API.Example.org/x", "https://api.example.org:443"),
        ("http://127.0.0.1:8080/api/v3", "http://127.0.0.1:8080"),
        ("https://good.example.org@evil.example.org/", ""),
        ("https://good.example.org:443/", "https://good.example.org:443"),
        ("ftp://good.example.org/", ""),
        ("//good.example.org/", ""),
    ],
)
def test_an_origin_is_scheme_host_and_port(url: str, origin: str) -> None:
    assert origin_of(url) == origin


def test_further_hosts_are_read_by_https_alone() -> None:
    allowed = origins([], ["logs.example.org", "logs.example.org:8443"])
    assert allowed == {"https://logs.example.org:443", "https://logs.example.org:8443"}
