"""What people do on the pages: sign in, filter, watch something move, change something, understand a red."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from bot.app import create_app
from bot.demo.children import wait_until
from bot.demo.github import StandIn
from bot.demo.world import EmbeddedWorld
from bot.service import Parts
from bot.settings import load_settings
from bot.wiring import standard_wiring
from tests.bot.dashboard_access.streams import served
from tests.browser.conftest import MAINTAINER, Open, sign_in

ROOT = Path(__file__).parents[2]


@pytest.fixture
def number(world: EmbeddedWorld) -> int:
    return world.recording.fix.number


@pytest.fixture
def story(world: EmbeddedWorld, number: int) -> str:
    return f"/pr/{world.recording.repository}/{number}"


def test_a_stranger_understands_a_red_verdict_in_three_clicks(
    open_window: Open, world: EmbeddedWorld, number: int
) -> None:
    """README -> queue -> the pull request with the verdict and its evidence -> the evidence itself."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (front,) = set(re.findall(r"\]\((http://127\.0\.0\.1:8090/)\)", readme))
    visit = open_window(world.address.service)
    visit.go(
        urlsplit(front).path
    )  # the first click; the demo listens where the README says, this world elsewhere
    row = visit.page.get_by_role("row").filter(has_text=f"#{number}")
    expect(row).to_contain_text("red, unrelated")
    row.get_by_role("link").first.click()  # the second
    verdict = visit.page.locator("section.failure").first
    expect(verdict).to_contain_text("unrelated")
    expect(verdict.locator("li").first).to_be_visible()
    print(verdict.inner_text())
    evidence = verdict.get_by_role("link").first
    there = evidence.get_attribute("href") or ""
    evidence.click()  # the third
    visit.page.wait_for_url(there)
    log = visit.page.locator(f'[id="{urlsplit(there).fragment}"] pre')
    expect(log).to_be_visible()
    print(log.inner_text()[-600:])
    visit.foreign = [url for url in visit.foreign if not url.startswith("http://127.0.0.1")]


def test_signing_in_and_out_with_github(open_window: Open, world: EmbeddedWorld, story: str) -> None:
    visit = open_window(world.address.service)
    visit.go(story)
    expect(visit.page.get_by_text("Change a verdict")).to_have_count(0)
    sign_in(visit, world, MAINTAINER)
    assert urlsplit(visit.page.url).path == story  # back where it began
    expect(visit.page.get_by_role("banner")).to_contain_text(MAINTAINER)
    visit.page.get_by_role("link", name="Change a verdict").click()
    expect(visit.page.get_by_role("heading", level=1)).to_contain_text("Change something")
    visit.page.get_by_role("button", name="Sign out").click()
    expect(visit.page.get_by_role("link", name="Sign in with GitHub")).to_be_visible()
    assert visit.page.evaluate("document.cookie") == ""


def test_a_filter_narrows_the_queue_without_a_reload(
    open_window: Open, world: EmbeddedWorld, number: int
) -> None:
    visit = open_window(world.address.service)
    visit.go("/")
    visit.page.evaluate("window.sameDocument = true")
    rows = visit.page.locator("#list tbody tr")
    everything = rows.count()
    assert everything >= 2
    visit.page.locator("select[name=ci]").select_option(label="red, unrelated")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(f"#{number}")
    assert "ci=unrelated" in visit.page.url
    assert visit.page.evaluate("window.sameDocument") is True
    visit.page.reload()
    expect(rows).to_have_count(1)
    visit.page.locator("select[name=ci]").select_option(label="green")
    visit.page.get_by_label("Repository").fill("no/such")
    visit.page.get_by_role("button", name="Show").click()
    expect(visit.page.get_by_text("No pull request matches")).to_be_visible()


def test_a_priority_set_in_one_window_moves_the_queue_in_another(
    open_window: Open, world: EmbeddedWorld, maintainer: dict[str, Any], number: int, story: str
) -> None:
    watching = open_window(world.address.service)
    watching.go("/")
    watching.page.evaluate("window.sameDocument = true")
    row = watching.page.get_by_role("row").filter(has_text=f"#{number}")
    expect(row).not_to_contain_text("critical")
    acting = open_window(world.address.service, storage_state=maintainer)
    acting.go(f"{story}/change")
    acting.page.get_by_label("Level").select_option("critical")
    acting.page.get_by_role("button", name="Set").click()
    expect(acting.page.locator("#orders")).to_contain_text("critical by your word")
    expect(row).to_contain_text("critical")
    assert watching.page.evaluate("window.sameDocument") is True


def test_a_red_job_is_declared_on_the_page_and_the_note_says_by_whom(
    open_window: Open, world: EmbeddedWorld, maintainer: dict[str, Any], number: int, story: str
) -> None:
    visit = open_window(world.address.service, storage_state=maintainer)
    visit.go(f"{story}/change")
    visit.page.get_by_label("Because").fill("the same test fails on main")
    visit.page.get_by_role("button", name="Declare").click()
    expect(visit.page.locator("#orders")).to_contain_text("by your word")
    visit.page.get_by_role("link", name=re.compile("Gate the fused")).click()
    expect(visit.page.locator("#story")).to_contain_text(f"Declared by {MAINTAINER}")
    (note,) = [one.body for one in world.github.bot_comments(number) if "<!-- prgate:ci -->" in one.body]
    assert MAINTAINER in note.replace("\\-", "-")


def test_a_page_moves_again_after_the_service_was_away(
    open_window: Open, world: EmbeddedWorld, number: int, story: str
) -> None:
    visit = open_window(world.address.service, expected=("ERR_", "SSE", "network error", "Failed to fetch"))
    with visit.page.expect_response("**/events?*"):
        visit.go(story)
    visit.page.evaluate("window.sameDocument = true")
    world.web.kill()
    world.web.start()
    wait_until(world.answers, world.children, 60, "the service's second start")
    world.github.hub.comment(number, MAINTAINER, "@prgate priority low")
    expect(visit.page.locator("dl.facts")).to_contain_text("low")
    assert visit.page.evaluate("window.sameDocument") is True


def test_dead_jobs_are_replayed_with_one_press(
    open_window: Open, world: EmbeddedWorld, maintainer: dict[str, Any]
) -> None:
    visit = open_window(world.address.service, storage_state=maintainer)
    visit.go("/dead")
    visit.page.get_by_role("button", name="Replay").first.click()
    expect(visit.page.get_by_text("Every job of your repositories came to an end")).to_be_visible()


def test_a_github_app_is_made_by_pressing_through(
    open_window: Open, world: EmbeddedWorld, tmp_path: Path
) -> None:
    github: StandIn = world.github
    told = {
        "data_dir": tmp_path,
        "broker_url": "redis://127.0.0.1:1",
        "github_api_url": f"{github.url}/api/v3",
        "github_web_url": github.url,
    }
    settings = load_settings(told)
    app = create_app(settings, standard_wiring(settings, Parts(sweeps=False)))
    with served(app) as (address, _):
        object.__setattr__(settings, "public_url", address)
        visit = open_window(address, expected=("403",))
        assert visit.go("/setup?token=wrong") == 403
        assert visit.go(f"/setup?token={app.state.service.setup.token}") == 200
        assert visit.faults_of_access() == []
        visit.page.get_by_label(re.compile("Organization")).fill("acme")
        visit.page.get_by_role("button", name="Use this").click()
        visit.page.get_by_role("button", name="Go to GitHub for acme").click()
        visit.page.get_by_role("link", name="Create GitHub App").click()
        expect(visit.page.get_by_text("PRGATE_GITHUB_APP_ID=99")).to_be_visible()
        assert visit.faults_of_access() == []
        visit.foreign = [url for url in visit.foreign if not url.startswith(github.url)]
