"""HTTP reads of CI providers: allowed hosts only, bounded in size and number, faults as None and a note."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

LOG_LIMIT = 64 * 1024**2
TIMEOUT_S = 20.0
MOST_REQUESTS = 400  # of one verdict: Buildkite answers about as many in a minute
MOST_REDIRECTS = 3
LIMITED = 429


@dataclass
class Fetcher:
    """Reads for one verdict. `hosts` may be asked; `notes` say, once each, what could not be read."""

    hosts: frozenset[str]
    client: httpx.Client
    notes: dict[str, None] = field(default_factory=dict)
    requests: int = 0

    def note(self, says: str) -> None:
        """Remember what a reader must know."""
        self.notes.setdefault(says)

    def json(
        self, url: str, headers: Mapping[str, str], parameters: Mapping[str, Any] | None = None
    ) -> tuple[Any, str | None]:
        """Return the JSON at `url` and the address of the next page; (None, None) where it cannot be read."""
        answer = self._send(url, headers, parameters)
        if answer is None:
            return None, None
        try:
            found = answer.json()
        except ValueError:
            self.note(f"{host_of(url)} answered something that is no JSON")
            return None, None
        following = answer.links.get("next", {}).get("url")
        return found, str(following) if following else None

    def text(self, url: str, headers: Mapping[str, str]) -> str | None:
        """Return the text at `url`, its end where it is too long; None where it cannot be read."""
        answer = self._send(url, headers, None)
        return None if answer is None else answer.content[-LOG_LIMIT:].decode("utf-8", errors="replace")

    def _send(
        self, url: str, headers: Mapping[str, str], parameters: Mapping[str, Any] | None
    ) -> httpx.Response | None:
        for _ in range(MOST_REDIRECTS):
            if not self._may(url):
                return None
            answer = self._get(url, headers, parameters)
            if answer is None or not answer.is_redirect:
                return answer
            # The place that a redirect names is signed by itself; our token is none of its business.
            url, headers, parameters = str(answer.next_request.url if answer.next_request else ""), {}, None
        return None

    def _may(self, url: str) -> bool:
        self.requests += 1
        if self.requests > MOST_REQUESTS:
            self.note("more had to be read than one verdict may read; the rest is not known")
            return False
        if host_of(url) not in self.hosts or not url.startswith(("https://", "http://")):
            self.note(f"{host_of(url) or 'an address'} is not a host that logs may come from")
            return False
        return True

    def _get(
        self, url: str, headers: Mapping[str, str], parameters: Mapping[str, Any] | None
    ) -> httpx.Response | None:
        try:
            answer = self.client.get(url, headers=dict(headers), params=parameters, timeout=TIMEOUT_S)
        except httpx.HTTPError as error:
            self.note(f"{host_of(url)} did not answer ({type(error).__name__})")
            return None
        if answer.status_code == LIMITED:
            self.note(f"{host_of(url)} limits how much may be read now; what is missing is not known")
            return None
        if answer.status_code in (401, 403):
            self.note(
                f"{host_of(url)} refuses to be read ({answer.status_code}): its token lacks a permission"
            )
            return None
        return answer if answer.is_redirect or answer.status_code < 400 else None


def host_of(url: str) -> str:
    """Return host and port of an address; empty for none."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2].lower()
    except ValueError:
        return ""
