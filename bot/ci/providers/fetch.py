"""HTTP reads of CI providers: allowed origins only, bounded in size, number and time.

A read that fails is None, and a note says so.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

TIMEOUT_S = 20.0  # without a byte
LONGEST_READ_S = 90.0  # one answer, however slowly it drips
MOST_REQUESTS = 400  # of one verdict: Buildkite answers about as many in a minute
MOST_REDIRECTS = 3
JSON_LIMIT = 32 * 1024**2
LOG_LIMIT = 64 * 1024**2
ALL_LIMIT = 256 * 1024**2  # everything that one verdict reads
LIMITED = 429
LIMITS = frozenset({403, LIMITED, 503})
UNTOLD_WAIT_S = 60.0
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: its body, and the next page that its headers name."""

    body: bytes
    following: str | None = None


@dataclass
class Pace:
    """How a reader with time asks: `gap_s` seconds apart, and again where a server says when.

    `wait` sleeps, and may say why; `patience_s` is how long it may wait at servers' wishes in all.
    """

    gap_s: float
    patience_s: float
    wait: Callable[[float, str], None]

    def before(self) -> None:
        """Keep the distance to the request before."""
        if self.gap_s > 0:
            self.wait(self.gap_s, "")

    def waited(self, answer: httpx.Response) -> bool:
        """Wait as long as a server that limits us asks for; False where it does not, or patience is over."""
        told = answer.headers.get("retry-after", "")
        if answer.status_code not in LIMITS or (not told and answer.status_code != LIMITED):
            return False
        seconds = float(told) + 1 if told.isdigit() and len(told) < 6 else UNTOLD_WAIT_S
        if seconds > self.patience_s:
            return False
        self.patience_s -= seconds
        self.wait(seconds, f"{host_of(str(answer.url))} limits how much may be read")
        return True


@dataclass
class Fetcher:
    """Reads for one verdict. `origins` may be asked; `notes` say, once each, what could not be read.

    `faults` counts what could not be read, `cuts` the lists that went on. With a `pace` the limits of one
    verdict do not hold: it is a reader with time.
    """

    origins: frozenset[str]
    client: httpx.Client
    pace: Pace | None = None
    notes: dict[str, None] = field(default_factory=dict)
    requests: int = 0
    bytes_read: int = 0
    faults: int = 0
    cuts: int = 0

    def note(self, says: str) -> None:
        """Remember what a reader must know: something could not be read."""
        self.faults += 1
        self.notes.setdefault(says)

    def note_cut(self, says: str) -> None:
        """Remember that only the newest part of a list was read."""
        self.cuts += 1
        self.notes.setdefault(says)

    @contextmanager
    def optional(self) -> Iterator[bool]:
        """Read what is welcome and not needed: what fails inside is no fault, and nobody is told.

        Lends False where half of what may be read was read already: the rest is for what is needed.
        """
        faults, notes = self.faults, dict(self.notes)
        yield self.pace is not None or self.requests < MOST_REQUESTS // 2
        self.faults, self.notes = faults, notes

    def json(
        self, url: str, headers: Mapping[str, str], parameters: Mapping[str, Any] | None = None
    ) -> tuple[Any, str | None]:
        """Return the JSON at `url` and the address of the next page; (None, None) where it cannot be read."""
        answer = self._follow(url, headers, parameters, JSON_LIMIT)
        if answer is None:
            return None, None
        try:
            found = decode(answer.body)
        except ValueError:
            self.note(f"{host_of(url)} answered something that is no JSON")
            return None, None
        following = answer.following
        # A next page elsewhere would be asked with this host's token.
        return found, following if following and origin_of(following) == origin_of(url) else None

    def text(self, url: str, headers: Mapping[str, str]) -> str | None:
        """Return the whole text at `url`; None where it cannot be read or is too long to be read whole."""
        found = self.data(url, headers, LOG_LIMIT)
        return None if found is None else found.decode("utf-8", errors="replace")

    def data(self, url: str, headers: Mapping[str, str], limit: int) -> bytes | None:
        """Return the bytes at `url`, at most `limit` of them; None where it cannot be read."""
        answer = self._follow(url, headers, None, limit)
        return None if answer is None else answer.body

    def _follow(
        self, url: str, headers: Mapping[str, str], parameters: Mapping[str, Any] | None, limit: int
    ) -> Answer | None:
        hops = 0
        while hops < MOST_REDIRECTS:
            if not self._may(url):
                return None
            try:
                with self.client.stream(
                    "GET", url, headers=dict(headers), params=parameters, timeout=TIMEOUT_S
                ) as answer:
                    if self.pace is not None and self.pace.waited(answer):
                        continue
                    if not answer.is_redirect:
                        return self._take(answer, limit)
                    hops += 1
                    # What a redirect names is signed by itself; our token is none of its business.
                    url, headers, parameters = target_of(answer), {}, None
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                self.note(f"{host_of(url)} did not answer ({type(error).__name__})")
                return None
        return None

    def _may(self, url: str) -> bool:
        self.requests += 1
        if self.pace is not None:
            self.pace.before()
        elif self.requests > MOST_REQUESTS:
            self.note("more had to be read than one verdict may read; the rest is not known")
            return False
        if origin_of(url) not in self.origins:
            self.note(f"{host_of(url) or 'an address'} is not a host that logs may come from")
            return False
        return True

    def _take(self, answer: httpx.Response, limit: int) -> Answer | None:
        """Return a good answer's body; None and a note for any other."""
        host = host_of(str(answer.url))
        if answer.status_code == LIMITED:
            self.note(f"{host} limits how much may be read now; what is missing is not known")
        elif answer.status_code in (401, 403):
            self.note(f"{host} refuses to be read ({answer.status_code}): its token lacks a permission")
        elif answer.status_code >= 500:
            self.note(f"{host} answered {answer.status_code}; what is missing is not known")
        elif answer.status_code < 400:
            return self._body(answer, host, limit)
        return None

    def _body(self, answer: httpx.Response, host: str, limit: int) -> Answer | None:
        parts, size, end = [], 0, time.monotonic() + LONGEST_READ_S
        for part in answer.iter_bytes():
            parts.append(part)
            size += len(part)
            self.bytes_read += len(part)
            # A cut log could hide the very line that matters: better not known than half known.
            if size > limit:
                self.note(f"{host} answered with more than {limit // 1024**2} MiB, which was not read")
                return None
            if self.pace is None and self.bytes_read > ALL_LIMIT:
                self.note("more had to be read than one verdict may read; the rest is not known")
                return None
            if time.monotonic() > end:
                self.note(f"{host} answered too slowly; what is missing is not known")
                return None
        following = answer.links.get("next", {}).get("url")
        return Answer(b"".join(parts), str(following) if following else None)


def decode(body: bytes) -> Any:
    """Return a JSON document. ValueError where it is none, or nested too deep."""
    try:
        return json.loads(body)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def target_of(answer: httpx.Response) -> str:
    """Return where a redirect leads; empty where it does not say."""
    return str(answer.next_request.url) if answer.next_request else ""


def parts_of(url: str) -> httpx.URL | None:
    """Return an address as the client itself will read it; None for none."""
    try:
        return httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return None


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address; empty for none and for one with a user in it."""
    found = parts_of(url)
    if found is None or found.userinfo or found.scheme not in PORTS or not found.host:
        return ""
    return f"{found.scheme}://{found.host.lower()}:{found.port or PORTS[found.scheme]}"


def host_of(url: str) -> str:
    """Return the host of an address, for people; empty for none."""
    found = parts_of(url)
    return found.host if found else ""


def origins(urls: Iterable[str], hosts: Iterable[str]) -> frozenset[str]:
    """Return the origins of configured addresses and, by https alone, of further hosts."""
    found = (origin_of(url) for url in (*urls, *(f"https://{host}" for host in hosts)))
    return frozenset(origin for origin in found if origin)
