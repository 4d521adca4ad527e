"""Which pages there are: what the route table says, and what a visitor finds by following links."""

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

import httpx
from fastapi import FastAPI
from starlette.routing import Route

LINK = re.compile(r'<a\b[^>]*\bhref="([^"#]+)')
# Routes that are no pages of the site: files, streams, ways through GitHub.
NO_PAGES = ("/static/", "/events", "/auth/", "/setup", "/metrics", "/healthz", "/readyz", "/openapi.json")
MOST_OF_A_KIND = 2
MOST_PAGES = 120


def page_routes(app: FastAPI) -> list[Route]:
    """Return the routes that show a page to people."""
    return [
        route
        for route in all_routes(app.routes)
        if "GET" in (route.methods or ())
        and not route.path.endswith(".json")
        and not route.path.startswith(NO_PAGES)
        and not route.path.startswith("/runner/")
    ]


def all_routes(routes: Iterable[object]) -> Iterator[Route]:
    """Yield the routes of an application, those of its included routers too."""
    for route in routes:
        if isinstance(route, Route):
            yield route
        elif (inner := getattr(route, "original_router", None)) is not None:
            yield from all_routes(inner.routes)


@dataclass
class Crawl:
    """What was found from the front page by links alone."""

    site: str
    cookies: dict[str, str]
    routes: list[Route]
    found: dict[str, list[str]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def kind_of(self, path: str) -> str | None:
        """Return the route that answers a path; None for none of the pages."""
        return next((one.path for one in self.routes if one.path_regex.match(path)), None)

    def run(self) -> "Crawl":
        """Follow the links; of each kind of page some are enough."""
        waiting, seen = ["/"], {"/"}
        with httpx.Client(base_url=self.site, cookies=self.cookies, timeout=30) as client:
            while waiting and len(seen) < MOST_PAGES:
                path = waiting.pop(0)
                kind = self.kind_of(urlsplit(path).path)
                if kind is None or len(self.found.get(kind, [])) >= MOST_OF_A_KIND:
                    continue
                answer = client.get(path)
                if answer.status_code != 200:
                    self.broken.append(f"{path}: {answer.status_code}")
                    continue
                self.found.setdefault(kind, []).append(path)
                for link in local_links(answer.text, f"{self.site}{path}", self.site):
                    if link not in seen:
                        seen.add(link)
                        waiting.append(link)
        return self


def local_links(text: str, base: str, site: str) -> list[str]:
    """Return the site's own addresses that a page links to."""
    wholes = [urljoin(base, html.unescape(link)) for link in LINK.findall(text)]
    return [whole.removeprefix(site) for whole in wholes if whole.startswith(f"{site}/")]
