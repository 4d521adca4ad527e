"""A real Chromium before a real embedded world. `make test-browser` runs this; `make test` does not."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from bot.demo.recorded import Step
from bot.demo.replay import Replay
from bot.demo.world import EmbeddedWorld
from tests.browser.filling import fill
from tests.e2e.conftest import free_ports

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

WANTED = "PRGATE_BROWSER_TESTS"
collect_ignore_glob = [] if os.environ.get(WANTED) else ["test_*.py"]

AXE = Path(__file__).with_name("vendor") / "axe-4.14.1.min.js"
# Chromium's own talk with its maker is off: this machine may have no way there, and a page must not need one.
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MAINTAINER = "owner-10"  # who may administrate the recorded repository
PHONE = {"width": 360, "height": 740}
LIMIT_MS = 60_000  # neighbours may be busy: a wait ends with what it waits for
DESK = {"width": 1280, "height": 800}


@dataclass
class Visit:
    """One visitor's window on the site, and everything that it complained of."""

    page: "Page"
    site: str
    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    def go(self, path: str) -> int:
        """Open a page and wait until it stands; its status."""
        answer = self.page.goto(f"{self.site}{path}", wait_until="load")
        return answer.status if answer else 0

    def listen(self) -> None:
        """Take down errors of the console and requests to other hosts."""
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self._see(request.url))

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning") and not any(word in message.text for word in self.expected):
            self.complaints.append(f"{self.page.url}: {message.text}")

    def _see(self, url: str) -> None:
        if urlsplit(url).netloc not in ("", urlsplit(self.site).netloc):
            self.foreign.append(url)

    def faults_of_access(self) -> list[str]:
        """Return what axe finds wrong with the page as it stands."""
        # axe comes by the debugger, not by a script element: the page's own policy forbids that.
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['id']}: {one['help']}: {[node['html'][:120] for node in one['nodes'][:3]]}"
            for one in found["violations"]
        ]


Open = Callable[..., Visit]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedWorld]:
    """The recorded pull requests with their CI and everything said at once; nothing is measured yet."""
    folder = tmp_path_factory.mktemp("world")
    with EmbeddedWorld(folder, free_ports()) as made:
        Replay(made, lambda _: None).play(is_quick)
        fill(made)
        yield made


def is_quick(step: Step) -> bool:
    """Say whether a step of the record measures nothing."""
    return step.kind != "comment" or "bench" not in step.body


@pytest.fixture(scope="session")
def chromium() -> Iterator["Browser"]:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=LIMIT_MS)
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert found is not None, "install a Chromium (Debian: apt-get install chromium)"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=SWITCHES)
        yield browser
        browser.close()


@pytest.fixture
def open_window(chromium: "Browser") -> Iterator[Open]:
    """Return what opens a visitor's own window; at the end nothing may have been wrong in any of them."""
    contexts: list[BrowserContext] = []
    visits: list[Visit] = []

    def open_it(site: str, *, expected: tuple[str, ...] = (), **options: Any) -> Visit:
        context = chromium.new_context(viewport=options.pop("viewport", DESK), **options)
        context.set_default_timeout(LIMIT_MS)
        contexts.append(context)
        visit = Visit(context.new_page(), site, expected=expected)
        visit.listen()
        visits.append(visit)
        return visit

    yield open_it
    for context in contexts:
        context.close()
    assert [one for visit in visits for one in visit.complaints] == []
    assert [one for visit in visits for one in visit.foreign] == []


@pytest.fixture(scope="session")
def site(world: EmbeddedWorld) -> str:
    return world.address.service


@pytest.fixture(scope="session")
def maintainer(world: EmbeddedWorld, chromium: "Browser") -> dict[str, Any]:
    """What a browser keeps after a maintainer has signed in: new windows may begin with it."""
    context = chromium.new_context()
    visit = Visit(context.new_page(), world.address.service)
    visit.go("/help")
    sign_in(visit, world, MAINTAINER)
    state: dict[str, Any] = dict(context.storage_state())
    context.close()
    return state


def sign_in(visit: Visit, world: EmbeddedWorld, login: str) -> None:
    """Sign in by the page's own link and the stand-in's choice of people."""
    visit.page.get_by_role("link", name="Sign in with GitHub").click()
    visit.page.get_by_role("link", name=login).click()
    visit.page.get_by_role("button", name="Sign out").wait_for()
    visit.foreign = [url for url in visit.foreign if not url.startswith(world.github.url)]
