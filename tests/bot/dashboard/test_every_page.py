"""What holds for every page, whatever it shows: found by the routes, so that a new page is held to it too."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute
from sqlalchemy import Engine, event, update
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from bot.dashboard.rendering import shared_pages
from bot.dashboard.routes import router_of
from bot.dashboard.site import Scope, Site
from bot.db.engine import open_engine, open_sessions
from bot.db.models import Base, Repository
from tests.bot.dashboard.conftest import pages_over
from tests.bot.dashboard.filling import NOW, REPO, REPO_ID, Size, fill, night_sha, signature_of

PARTS = {
    "owner": "acme",
    "name": "engine",
    "number": "7",
    "key": signature_of(3),
    "series_id": "2",
    "run_id": "run-20",
}
PAIR = f"?base={night_sha(3)[:10]}&head={night_sha(60)[:10]}"


def html_paths() -> list[str]:
    """Return the address of every HTML page of ours."""
    site = Site(open_sessions(open_engine("sqlite://")), shared_pages(), "https://github.example")
    router: APIRouter = router_of(site)
    paths = [route.path for route in router.routes if isinstance(route, APIRoute)]
    return [path.format(**PARTS) for path in paths if not path.endswith(".json") and "/static/" not in path]


def json_path(path: str) -> str:
    return "/queue.json" if path == "/" else f"{path}.json"


class Words(HTMLParser):
    """What a page says to whoever has no eyes for it, and what it loads."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


@pytest.mark.parametrize("path", html_paths())
def test_a_page_is_whole_without_a_script_and_loads_nothing_from_elsewhere(
    filled: TestClient, path: str
) -> None:
    answer = filled.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    page = Words(answer.text)
    assert len(page.all("h1")) == len(page.all("main")) == 1
    assert "· prgate</title>" in answer.text
    assert page.all("html")[0]["lang"] == "en"
    assert not [tag for tag, attributes in page.tags if "style" in attributes or tag == "style"]
    assert not [
        attributes for _, attributes in page.tags if any(name.startswith("on") for name in attributes)
    ]
    assert all(script.get("src", "") for script in page.all("script"))
    for attributes in [*page.all("script"), *page.all("link"), *page.all("img")]:
        assert str(attributes.get("src") or attributes.get("href")).startswith("/static/")
    assert len([link for link in page.all("a") if link.get("aria-current") == "page"]) <= 1


@pytest.mark.parametrize("path", html_paths())
def test_each_control_and_scrolling_part_has_a_name_and_takes_the_keyboard(
    filled: TestClient, path: str
) -> None:
    page = Words(filled.get(path).text)
    for part in [attributes for _, attributes in page.tags if attributes.get("class") == "scroll"]:
        assert part.get("tabindex") == "0"
        assert part.get("aria-label")
    assert all(picture.get("aria-label") for picture in page.all("svg"))
    assert len(page.all("label")) >= len(page.all("select")) + len(page.all("input"))


@pytest.mark.parametrize("path", html_paths())
def test_each_page_is_json_too_and_says_where(filled: TestClient, path: str) -> None:
    html = filled.get(path).text
    found = re.search(r'this page as <a href="([^"]+)">JSON', html)
    assert found
    assert found[1].partition("?")[0] == json_path(path)
    document = filled.get(found[1].replace("&amp;", "&")).json()
    assert document["schema"] == 1
    assert "next" in document or not {"items"} & document.keys()
    assert len(document.get("items", ())) <= 100


@pytest.mark.parametrize("path", ["/red", "/perf", "/perf/compare", "/owners", "/workers", "/accuracy", "/"])
def test_an_empty_page_says_what_would_fill_it(client: TestClient, path: str) -> None:
    html = client.get(path).text
    assert any(word in html for word in ("fills", "fill", "yet"))
    assert client.get(json_path(path)).json()["items"] == []


def test_each_static_file_has_its_licence_and_changes_its_address_with_its_content(
    filled: TestClient,
) -> None:
    for name in ("htmx-4.0.1", "uplot-1.6.32"):
        assert "Permission" in filled.get(f"/static/{name}.LICENSE").text
    html = filled.get("/perf/series/2").text
    for path in re.findall(r'(/static/[^"]+\?v=\w{12})', html):
        assert "immutable" in filled.get(path).headers["cache-control"]
    assert "immutable" not in filled.get("/static/site.css").headers["cache-control"]


@pytest.fixture
def counted(year: Engine) -> Iterator[list[str]]:
    statements: list[str] = []

    def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
        statements.append(statement)

    event.listen(year, "before_cursor_execute", note)
    yield statements
    event.remove(year, "before_cursor_execute", note)


@pytest.mark.parametrize("path", html_paths())
def test_a_page_asks_a_fixed_number_of_questions(
    filled: TestClient, counted: list[str], path: str, engine: Engine
) -> None:
    """Twenty pull requests or a hundred and twenty: the database is asked equally often."""
    filled.get(path)  # what is kept after the first time does not count
    counted.clear()
    filled.get(path)
    asked = len(counted)
    fill(engine, Size(pulls=30, failures=300, cases=2))
    few: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda c, k, statement, *rest: few.append(statement))
    with TestClient(pages_over(engine)) as small:
        small_path = path.replace("run-20", "run-5")
        small.get(small_path)
        few.clear()
        small.get(small_path)
    assert asked <= 18
    assert asked == len(few)


@pytest.fixture
def private(engine: Engine) -> Engine:
    """The same year in a private repository."""
    fill(engine, Size(pulls=30, failures=300, cases=2))
    with Session(engine) as session:
        session.execute(update(Repository).values(private=True))
        session.commit()
    return engine


def test_a_private_repository_is_on_no_page_of_a_stranger(private: Engine) -> None:
    with TestClient(pages_over(private)) as stranger:
        for path in html_paths():
            path = path.replace("run-20", "run-5")
            for address in (path, json_path(path), json_path(path) + PAIR):
                answer = stranger.get(address)
                assert answer.status_code in (200, 404)
                for secret in (REPO, "scheduler", "owner-00", "test_case", "tests/test_"):
                    # An unknown pull request is called what it was asked for.
                    assert secret not in answer.text.replace(f"{REPO}#7 is not known", ""), (address, secret)


def test_who_may_read_a_private_repository_sees_it_on_every_page(private: Engine) -> None:
    with TestClient(pages_over(private, scope=lambda _: Scope(frozenset({REPO_ID})))) as member:
        for path in html_paths():
            assert member.get(path.replace("run-20", "run-5")).status_code == 200
        assert REPO in member.get("/").text


def test_a_removed_repository_is_gone_from_every_page(engine: Engine, client: TestClient) -> None:
    fill(engine, Size(pulls=30, failures=300, cases=2))
    with Session(engine) as session:
        session.execute(update(Repository).values(removed_at=NOW))
        session.commit()
    assert client.get("/queue.json").json()["items"] == []
    assert client.get(f"/pr/{REPO}/7").status_code == 404
    assert client.get("/perf/series/2").status_code == 404


@pytest.mark.parametrize(
    "path", ["/perf/series/0", "/perf/series/x", "/?limit=101", "/perf/run/" + "a" * 37, "/nope/x"]
)
def test_what_cannot_be_read_is_said_on_a_page_in_words(filled: TestClient, path: str) -> None:
    answer = filled.get(path)
    assert answer.status_code in (404, 422)
    if path != "/nope/x":
        assert "<h1>" in answer.text
        assert "Traceback" not in answer.text


HOSTILE = [
    "'",
    '"><script>alert(1)</script>',
    "%00",
    "\\",
    "%",
    "a" * 201,
    "🚀",
    "-1",
    "1e999",
    "null",
    "[]",
    "{{7*7}}",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_words_in_an_address_break_no_page(filled: TestClient, value: str) -> None:
    names = "text repo owner priority waiting ci perf state sort after where metric hardware base head limit"
    words = names.split()
    for path in ("/", "/red", "/perf", "/perf/compare", "/owners", "/perf/series/2.json"):
        answer = filled.get(path, params=dict.fromkeys(words, value))
        assert answer.status_code in (200, 422)
        for name in ("text", "after"):
            one = filled.get(path, params={name: value})
            assert one.status_code in (200, 422)
            assert "<script>alert" not in one.text


def test_models_of_pages_are_known_to_the_migrations() -> None:
    assert {"asked", "lane_worker"} <= set(Base.metadata.tables)
