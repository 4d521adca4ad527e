"""Who may read what: nobody, a person that GitHub names, and what an error means."""

import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.dashboard.auth.oauth import local_path
from bot.dashboard.auth.sealed import derive_key, seal, unseal
from bot.db.models import Permission
from tests.bot.dashboard_access.conftest import NAME, Site


def titles(client: httpx.Client) -> list[str]:
    return [item["title"] for item in client.get("/queue.json").json()["items"]]


def test_a_stranger_reads_public_repositories_and_no_others(site: Site) -> None:
    client = site.browser()
    assert titles(client) == ["open title"]
    assert client.get(f"/pr/{NAME}/1").status_code == 404
    assert client.get(f"/pr/{NAME}/1.json").status_code == 404
    assert client.get("/pr/omni/open/1").status_code == 200


@pytest.mark.parametrize(
    ("login", "sees"),
    [("reader-1", True), ("maintainer-1", True), ("stranger-1", False)],
)
def test_the_permission_on_github_opens_a_private_repository(site: Site, login: str, sees: bool) -> None:
    client = site.browser(login)
    assert ("canary title" in titles(client)) is sees
    assert (client.get(f"/pr/{NAME}/1").status_code == 200) is sees


def test_an_error_is_a_no(site: Site) -> None:
    client = site.browser("maintainer-1")
    with site.service.sessions.begin() as session:
        session.query(Permission).delete()
    site.github.faults.fail("GET", "/permission", status=500, times=20)
    assert titles(client) == ["open title"]
    site.github.faults.planned.clear()


def test_a_permission_is_asked_once_in_some_minutes(site: Site) -> None:
    client = site.browser("reader-1")

    def asked() -> int:
        return sum("reader-1/permission" in one.path for one in site.github.state.requests)

    before = asked()
    for _ in range(5):
        titles(client)
    assert asked() - before <= 1


def test_a_session_ends_by_sign_out_and_by_itself(site: Site) -> None:
    client = site.browser("reader-1")
    assert "reader-1" in client.get("/help").text
    answer = client.post("/auth/sign-out", data={"csrf": site.csrf(client)})
    assert answer.status_code == 303
    assert "reader-1" not in client.get("/help").text
    key = site.service.access.key
    old = seal(key, "session", {"login": "reader-1", "id": "x"}, datetime.now(UTC) - timedelta(seconds=1))
    client.cookies.set("prgate", old)
    assert "reader-1" not in client.get("/help").text


def test_the_cookie_is_for_us_alone(site: Site) -> None:
    client = site.browser()
    answer = site.come_back(client, "reader-1", goes_on="/pr/omni/open/1")
    assert answer.headers["location"] == "/pr/omni/open/1"
    cookie = next(one for one in answer.headers.get_list("set-cookie") if one.startswith("prgate="))
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Max-Age=28800" in cookie
    assert "ghu_" not in cookie


@pytest.mark.parametrize("told", [{"public_url": "https://prgate.example"}])
def test_over_https_the_cookie_is_bound_to_the_host(site: Site) -> None:
    cookie = site.service.access.cookie
    assert (cookie.name, cookie.secure) == ("__Host-prgate", True)
    answer = site.browser().get("/auth/sign-in")
    assert "Secure" in answer.headers["set-cookie"]
    assert "max-age" in answer.headers["strict-transport-security"]


def test_a_code_is_good_for_the_browser_that_began_and_once(site: Site) -> None:
    began, other = site.browser(), site.browser()
    away = began.get("/auth/sign-in").headers["location"]
    back = httpx.get(f"{away}&choose=reader-1").headers["location"].removeprefix("http://testserver")
    assert other.get(back).status_code == 400
    other.get("/auth/sign-in")
    assert other.get(back).status_code == 400  # it began too, but with another state
    assert began.get(back).status_code == 303
    assert began.get(back).status_code == 400


def test_a_code_that_was_given_away_needs_the_verifier_too(site: Site) -> None:
    began, thief = site.browser(), site.browser()
    away = began.get("/auth/sign-in").headers["location"]
    back = httpx.get(f"{away}&choose=maintainer-1").headers["location"]
    stolen = httpx.URL(back).params["code"]
    mine = httpx.URL(thief.get("/auth/sign-in").headers["location"]).params["state"]
    answer = thief.get("/auth/callback", params={"code": stolen, "state": mine})
    assert answer.status_code == 502
    assert "did not accept the sign-in" in answer.text


def test_who_says_no_on_github_stays_a_stranger(site: Site) -> None:
    client = site.browser()
    state = httpx.URL(client.get("/auth/sign-in").headers["location"]).params["state"]
    answer = client.get("/auth/callback", params={"error": "access_denied", "state": state})
    assert answer.status_code == 403
    assert client.get("/dead").status_code == 303


@pytest.mark.parametrize("told", [{"github_client_secret": ""}])
def test_where_nobody_can_sign_in_nothing_offers_it(site: Site) -> None:
    client = site.browser()
    assert "Sign in" not in client.get("/").text
    assert client.get("/auth/sign-in").status_code == 404


@pytest.mark.parametrize("told", [{"dashboard_access": "sign-in"}])
def test_behind_a_sign_in_nothing_is_shown_before_it(site: Site) -> None:
    client = site.browser()
    answer = client.get("/?state=all")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/auth/sign-in?goes_on=%2F%3Fstate%3Dall"
    assert client.get("/queue.json").status_code == 401
    assert client.get("/events").status_code == 401
    assert client.get("/healthz").status_code == 200
    assert client.post("/webhooks/github", content=b"{}").status_code in (400, 401, 403)
    assert client.get("/help").status_code == 303
    assert titles(site.browser("reader-1")) == ["canary title"]  # nothing says that they may read omni/open


@pytest.mark.parametrize(
    "elsewhere",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/a\nb", ""],
)
def test_a_sign_in_leads_to_a_page_of_ours(elsewhere: str) -> None:
    assert local_path(elsewhere) == "/"


@settings(max_examples=50)
@given(claims=st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3), at=st.integers(0, 400))
def test_a_sealed_value_is_taken_whole_or_not_at_all(claims: dict[str, str], at: int) -> None:
    key, now = derive_key("secret"), datetime.now(UTC)
    claims.pop("until", None)
    sealed = seal(key, "session", claims, now + timedelta(minutes=1))
    opened = unseal(key, "session", sealed, now)
    assert opened is not None
    assert claims.items() <= opened.items()
    assert unseal(key, "other", sealed, now) is None
    assert unseal(derive_key("another"), "session", sealed, now) is None
    assert unseal(key, "session", sealed, now + timedelta(minutes=2)) is None
    place = at % len(sealed)
    forged = sealed[:place] + ("A" if sealed[place] != "A" else "B") + sealed[place + 1 :]
    found = unseal(key, "session", forged, now)
    assert found is None or json.dumps(found) == json.dumps(opened)  # the last letter may carry spare bits


@given(st.text(max_size=200))
def test_any_cookie_is_read(text: str) -> None:
    assert unseal(derive_key("secret"), "session", text, datetime.now(UTC)) is None
