"""Set-up: from nothing to an App, once, by who read the server's own output."""

import html
import json
import re
import stat
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.testclient import TestClient

from bot.settings import Settings, load_settings, require
from bot.setup.manifest import NoApp, manifest, settings_file
from tests.bot.dashboard_access.conftest import SERVICE, Site

ROOT = Path(__file__).parents[3]
NEW = {"github_token": "", "github_client_id": "", "github_client_secret": "", "webhook_secrets": ""}


@pytest.fixture
def told() -> dict[str, object]:
    return dict(NEW)


def go_to_github(site: Site, client: TestClient, owner: str = "") -> str:
    """Follow the form to GitHub, confirm there, and return the path to come back to."""
    assert site.service.setup is not None
    page = client.get("/setup", params={"token": site.service.setup.token, "owner": owner})
    assert page.status_code == 200, page.text
    action = html.unescape(re.findall(r'<form method="post" action="([^"]+)"', page.text)[0])
    carried = html.unescape(re.findall(r'name="manifest" value="([^"]*)"', page.text)[0])
    confirm = httpx.post(action, data={"manifest": carried})
    (back,) = re.findall(r'<li><a href="([^"]+)"', confirm.text)
    return html.unescape(back).removeprefix(SERVICE)


def as_settings(text: str) -> Settings:
    """Return the settings of a file's lines, as a process would read them."""
    pairs = [line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#")]
    told = {name.removeprefix("PRGATE_").lower(): value.strip('"') for name, value in pairs}
    return load_settings({"broker_url": "redis://x", **told})


def test_from_nothing_to_an_app_that_the_service_can_start_with(site: Site) -> None:
    client = site.browser()
    answer = client.get(go_to_github(site, client))
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    text = html.unescape(answer.text.partition('aria-label="Settings">')[2].partition("</pre>")[0])
    settings = as_settings(text)
    require(settings, "serve")
    require(settings, "worker")
    assert settings.github_app_id == "99"
    assert settings.private_key.startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    assert settings.may_sign_in
    assert settings.github_api_url == f"{site.github.url}/api/v3"
    assert "Install the App" in answer.text


def test_the_secrets_are_shown_once_and_set_up_is_over(site: Site) -> None:
    client = site.browser()
    back, second = go_to_github(site, client), go_to_github(site, client)
    assert client.get(back).status_code == 200
    assert client.get(back).status_code == 403
    assert client.get(second).status_code == 403
    assert site.service.setup is not None
    assert client.get("/setup", params={"token": site.service.setup.token}).status_code == 410


@pytest.mark.parametrize("token", ["", "x", "é" * 20])
def test_nobody_sets_up_without_the_servers_token(site: Site, token: str) -> None:
    client = site.browser()
    answer = client.get("/setup", params={"token": token})
    assert answer.status_code == 403
    assert "manifest" not in answer.text


def test_a_way_that_was_not_begun_here_leads_nowhere(site: Site) -> None:
    client = site.browser()
    back = go_to_github(site, client)
    code = httpx.URL(f"{SERVICE}{back}").params["code"]
    for state in ("", "x", "x" * 40):
        assert client.get("/setup/callback", params={"code": code, "state": state}).status_code == 403
    good = httpx.URL(f"{SERVICE}{back}").params["state"]
    wrong = client.get("/setup/callback", params={"code": "../../user", "state": good})
    assert (wrong.status_code, "Nothing was set up" in wrong.text) == (502, True)
    assert client.get(go_to_github(site, client)).status_code == 200


def test_the_form_may_go_to_github_and_nowhere_else(site: Site) -> None:
    assert site.service.setup is not None
    answer = site.browser().get("/setup", params={"token": site.service.setup.token, "owner": "acme"})
    assert f"form-action 'self' {site.github.url};" in answer.headers["content-security-policy"]
    assert f"{site.github.url}/organizations/acme/settings/apps/new?state=" in answer.text
    odd = site.browser().get("/setup", params={"token": site.service.setup.token, "owner": "a/../b"})
    assert odd.status_code == 422


class TestFile:
    @pytest.fixture
    def told(self, tmp_path: Path) -> dict[str, object]:
        return {**NEW, "setup_file": tmp_path / "prgate.env"}

    def test_the_settings_go_into_a_file_that_its_owner_alone_reads(self, site: Site, tmp_path: Path) -> None:
        client = site.browser()
        answer = client.get(go_to_github(site, client))
        file = tmp_path / "prgate.env"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert as_settings(file.read_text()).github_app_id == "99"
        assert "PRIVATE KEY" not in answer.text
        assert str(file) in answer.text

    def test_a_file_that_is_there_is_kept_and_the_settings_are_shown(
        self, site: Site, tmp_path: Path
    ) -> None:
        file = tmp_path / "prgate.env"
        file.write_text("mine")
        answer = site.browser().get(go_to_github(site, site.browser()))
        assert file.read_text() == "mine"
        assert "could not be written" in answer.text
        assert "PRGATE_GITHUB_APP_ID=99" in answer.text


class TestConfigured:
    @pytest.fixture
    def told(self) -> dict[str, object]:
        return {}

    def test_a_service_that_has_an_identity_offers_no_set_up(self, site: Site) -> None:
        assert site.service.setup is None
        assert site.browser().get("/setup").status_code == 404
        assert site.browser().get("/setup/callback").status_code == 404


def test_what_github_says_must_be_an_app() -> None:
    pem = "-----BEGIN RSA PRIVATE KEY-----\n" + "A" * 200 + "\n-----END RSA PRIVATE KEY-----\n"
    made = {"id": 7, "client_id": "Iv1.x", "client_secret": "s", "webhook_secret": "w", "pem": pem}
    assert "PRGATE_GITHUB_APP_ID=7\n" in settings_file(made, load_settings())
    for wrong in (
        {},
        {**made, "pem": None},
        {**made, "pem": "x\nPRGATE_LANE_KEYS=stolen"},
        {**made, "webhook_secret": "a\nPRGATE_ALLOW_UNSANDBOXED=1"},
        {**made, "client_secret": None},
    ):
        with pytest.raises(NoApp):
            settings_file(wrong, load_settings())


def test_the_manifest_to_paste_is_the_one_that_set_up_sends() -> None:
    pasted = json.loads((ROOT / "deploy/app-manifest.json").read_text())
    assert pasted == manifest("https://YOUR-HOST")
    assert urlsplit(pasted["callback_urls"][0]).path == "/auth/callback"
