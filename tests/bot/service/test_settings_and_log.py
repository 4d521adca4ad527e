"""Settings say what is missing in one line; logs are JSON, bound to ids, and hold no secret."""

import io
import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.errors import ConfigurationError
from bot.log import MASK, Redactor, bound, configure, get_logger
from bot.settings import load_settings, missing, require

KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIcanarycanary\ncanary==\n-----END RSA PRIVATE KEY-----\n"


def test_what_is_missing_is_said_in_one_line() -> None:
    settings = load_settings({"broker_url": "redis://x", "github_app_id": "1"})
    assert missing(settings, "serve") == ("PRGATE_WEBHOOK_SECRETS", "PRGATE_SERVICE_KEY")
    assert missing(settings, "worker")[0].startswith("PRGATE_GITHUB_TOKEN")
    with pytest.raises(ConfigurationError, match=r"please set PRGATE_WEBHOOK_SECRETS, PRGATE_SERVICE_KEY$"):
        require(settings, "serve")
    require(load_settings({"broker_url": "redis://x"}), "beat")


def test_a_service_that_knows_nothing_of_github_yet_starts_and_offers_to_set_it_up() -> None:
    require(load_settings({"broker_url": "redis://x"}), "serve")
    with pytest.raises(ConfigurationError, match=r"please set PRGATE_BROKER_URL$"):
        require(load_settings(), "serve")
    half = load_settings({"broker_url": "redis://x", "webhook_secrets": "abcdefgh"})
    with pytest.raises(ConfigurationError, match=r"please set PRGATE_SERVICE_KEY$"):
        require(half, "serve")


def test_pages_behind_a_sign_in_need_one() -> None:
    told = {"broker_url": "x", "github_token": "t", "dashboard_access": "sign-in"}
    with pytest.raises(ConfigurationError, match="PRGATE_GITHUB_CLIENT_ID"):
        require(load_settings(told), "beat")


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("attempts", "many", "PRGATE_ATTEMPTS"),
        ("lease_s", "-1", "PRGATE_LEASE_S"),
        ("github_api_url", "ftp://x", "PRGATE_GITHUB_API_URL"),
    ],
)
def test_a_value_that_cannot_be_is_named(
    field: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(says, value)
    with pytest.raises(ConfigurationError, match=says):
        load_settings()


def test_settings_that_defeat_each_other_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="HEARTBEAT"):
        require(load_settings({"broker_url": "x", "heartbeat_s": 40}), "beat")
    with pytest.raises(ConfigurationError, match="VISIBILITY"):
        require(load_settings({"broker_url": "x", "visibility_s": 100}), "beat")


def test_the_private_key_comes_from_its_variable_or_its_file(tmp_path: Path) -> None:
    inline = load_settings({"github_private_key": KEY.replace("\n", "\\n")})
    assert inline.private_key == KEY
    file = tmp_path / "key.pem"
    file.write_text(KEY)
    assert load_settings({"github_private_key_path": file}).private_key == KEY
    with pytest.raises(ConfigurationError, match="cannot read"):
        _ = load_settings({"github_private_key_path": tmp_path / "none.pem"}).private_key


def test_secrets_show_neither_in_a_settings_text_nor_its_errors() -> None:
    told = {
        "database_url": "postgresql://me:canary-one@host/db",
        "broker_url": "redis://:canary-two@host",
        "webhook_secrets": "canary-three,canary-four",
        "service_key": "canary-five",
        "github_private_key": KEY,
    }
    settings = load_settings(told)
    assert "canary" not in repr(settings)
    assert {"canary-one", "canary-two", "canary-three", "canary-four", "canary-five"} <= set(
        settings.secrets()
    )


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    configure("INFO", ["canary-secret", KEY])
    yield stream
    logging.captureWarnings(False)
    root.handlers, root.level = handlers, level


def test_a_line_is_json_bound_to_its_ids_and_cannot_be_forged(written: io.StringIO) -> None:
    with bound(delivery="d1", pull=7):
        get_logger("prgate.test").info("looked", title='evil\n{"event": "forged"}\x1b[31m')
        logging.getLogger("some.library").warning("it said %s", "so")
    first, second = (json.loads(line) for line in written.getvalue().splitlines())
    assert (first["event"], first["delivery"], first["pull"], first["level"]) == ("looked", "d1", 7, "info")
    assert first["title"].startswith("evil\n")
    assert (second["event"], second["delivery"], second["logger"]) == ("it said so", "d1", "some.library")
    assert "\x1b" not in written.getvalue()


def test_secrets_are_masked_wherever_they_come_from(written: io.StringIO) -> None:
    log = get_logger("prgate.test")
    log.info("canary-secret in the text", deep={"a": ["Bearer abcdefgh12345"]}, url="https://me:pass@host/")
    log.info("tokens", github="ghs_" + "a" * 36, fine="github_pat_" + "b" * 40)
    try:
        raise ValueError(f"the key was {KEY}")
    except ValueError:
        log.exception("failed")
    text = written.getvalue()
    for secret in ("canary", "abcdefgh12345", "pass", "aaaaaaaa", "bbbbbbbb", "MIIcanary"):
        assert secret not in text.replace("passlib", "")
    assert text.count(MASK) >= 6


@given(st.text(min_size=6, max_size=60), st.text(max_size=50), st.text(max_size=50))
def test_no_secret_survives_whatever_surrounds_it(secret: str, before: str, after: str) -> None:
    line = Redactor([secret])(None, "info", {"event": before + secret + after})
    assert secret not in json.loads(line.replace(MASK, ""))["event"] or secret in before + after
