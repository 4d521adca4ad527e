"""Every page of the route table, as people meet it: found by links, readable, reachable, calm."""

import re
from typing import Any

import pytest

from bot.app import create_app
from bot.demo.world import EmbeddedWorld
from bot.settings import load_settings
from tests.browser.conftest import DESK, MAINTAINER, PHONE, Open
from tests.browser.pages import Crawl, page_routes

APP = create_app(load_settings({"github_token": "x", "database_url": "sqlite:///:memory:"}))
ROUTES = page_routes(APP)
CLICKABLE = 'a[href], button, input:not([type=hidden]), select, summary, [tabindex="0"]'
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
SCHEMES = ("light", "dark")


@pytest.fixture(scope="session")
def crawl(world: EmbeddedWorld, maintainer: dict[str, Any], site: str) -> Crawl:
    """What a maintainer finds from the front page by links alone, once something was measured."""
    pull = world.recording.fix.number
    world.github.hub.comment(pull, MAINTAINER, "@prgate bench")
    world.settle(runs=False)
    cookies = {one["name"]: one["value"] for one in maintainer["cookies"]}
    return Crawl(site, cookies, ROUTES).run()


def test_every_page_is_found_by_links_and_no_link_is_broken(crawl: Crawl) -> None:
    assert crawl.broken == []
    assert [route.path for route in ROUTES if route.path not in crawl.found] == []


@pytest.mark.parametrize("route", [route.path for route in ROUTES])
def test_a_page_is_accessible_and_fits(
    route: str, crawl: Crawl, open_window: Open, site: str, maintainer: dict[str, Any]
) -> None:
    """axe finds nothing in light and in dark; a phone needs no scrolling sideways; one heading of the first
    rank, and a title of its own."""
    visit = open_window(site, storage_state=maintainer)
    path = crawl.found[route][0]
    assert visit.go(path) == 200
    for scheme in SCHEMES:
        visit.page.emulate_media(color_scheme=scheme)
        assert visit.faults_of_access() == [], scheme
    assert visit.page.locator("h1").count() == 1
    assert visit.page.title().endswith("· prgate")
    visit.page.set_viewport_size(PHONE)
    visit.page.wait_for_function(FITS, timeout=10_000)
    visit.page.set_viewport_size(DESK)
    assert unreached(visit.page) == []


def unreached(page: Any) -> list[str]:
    """Return what can be clicked but not be reached by the Tab key, in order from the top."""
    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    wanted: list[str] = page.evaluate(
        """(wanted) => {
          const all = [...document.querySelectorAll(wanted)]
            .filter(one => one.checkVisibility({checkVisibilityCSS: true}) && !one.disabled);
          all.forEach((one, n) => one.dataset.place = String(n));
          return all.map(one => one.outerHTML.slice(0, 120));
        }""",
        CLICKABLE,
    )
    reached: set[int] = set()
    for _ in range(min(len(wanted) + 5, 80)):
        page.keyboard.press("Tab")
        place = page.evaluate("document.activeElement?.dataset?.place ?? ''")
        if place:
            reached.add(int(place))
    return [html for place, html in enumerate(wanted[:60]) if place not in reached]


def test_a_page_that_is_not_there_is_a_page_too(open_window: Open, site: str) -> None:
    visit = open_window(site, expected=("404",))
    assert visit.go("/pr/no/such/1") == 404
    assert visit.faults_of_access() == []
    assert visit.page.get_by_role("link", name="Queue").count() == 1


@pytest.mark.parametrize("path", ["/", "/red", "/perf", "/help"])
def test_a_page_reads_the_same_without_scripts(path: str, open_window: Open, site: str) -> None:
    texts = []
    for scripts in (True, False):
        visit = open_window(site, java_script_enabled=scripts)
        visit.go(path)
        text = visit.page.locator("main").inner_text()
        texts.append(re.sub(r"\s+", " ", text))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("route", [route.path for route in ROUTES])
def test_every_filter_of_a_page_can_be_chosen(
    route: str, crawl: Crawl, open_window: Open, site: str, maintainer: dict[str, Any]
) -> None:
    """Each choice of each list of each search form: the page that comes stands, and keeps the choice."""
    visit = open_window(site, storage_state=maintainer)
    path = crawl.found[route][0]
    visit.go(path)
    chosen: list[dict[str, str]] = visit.page.evaluate(
        """() => [...document.querySelectorAll('form')].filter(form => form.method === 'get').flatMap(form =>
          [...form.querySelectorAll('select')].flatMap(select => [...select.options]
            .map(option => ({action: form.getAttribute('action') || location.pathname, name: select.name,
                             value: option.value}))))"""
    )
    for choice in chosen:
        asked = {choice["name"]: choice["value"]}
        answer = visit.page.request.get(f"{site}{choice['action']}", params=asked)
        assert answer.status == 200, asked
        kept = f'value="{choice["value"]}" selected' in answer.text()
        assert kept or not choice["value"], asked
