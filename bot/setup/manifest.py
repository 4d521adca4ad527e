"""The App that the service needs, as GitHub's manifest, and the settings in what GitHub gives back. Pure."""

import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from bot.settings import Settings, secret_list

NAME = "prgate"
PERMISSIONS: Mapping[str, str] = {
    "actions": "write",
    "checks": "write",
    "contents": "read",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
    "statuses": "write",
}
EVENTS = (
    "check_run",
    "check_suite",
    "issue_comment",
    "issues",
    "merge_group",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "push",
    "status",
    "workflow_run",
)
PLAIN = re.compile(r"[\w.:-]{1,200}")
PEM = re.compile(
    r"-----BEGIN [A-Z ]{1,30}KEY-----\n[A-Za-z0-9+/=\n]{100,8000}-----END [A-Z ]{1,30}KEY-----\n?"
)
LOCAL = ("127.0.0.1", "localhost", "::1")


class NoApp(ValueError):  # noqa: N818 - it is told to who sets up
    """GitHub's answer is no App's; the text says what is wrong with it."""


def manifest(public_url: str) -> dict[str, Any]:
    """Return the App at `public_url`: what it may do, what it is told, and where people sign in."""
    return {
        "name": NAME,
        "url": public_url,
        "public": False,
        "hook_attributes": {"url": f"{public_url}/webhooks/github", "active": True},
        "callback_urls": [f"{public_url}/auth/callback"],
        "default_permissions": dict(PERMISSIONS),
        "default_events": list(EVENTS),
    }


def is_local(public_url: str) -> bool:
    """Say whether GitHub cannot reach an address: it is this machine's own."""
    return urlsplit(public_url).hostname in LOCAL


def settings_file(made: Mapping[str, Any], settings: Settings) -> str:
    """Return the lines to start the service with; keys of its own that are not set yet are made up.

    `made` is GitHub's answer to the conversion. NoApp where it lacks something.
    """
    lines = [
        "# Settings of prgate's GitHub App. Keep this file as you keep a password.",
        *(f"PRGATE_{name}={value}" for name, value in of_app(made)),
        *(f"PRGATE_{name}={value}" for name, value in own_keys(settings)),
        f"PRGATE_PUBLIC_URL={settings.public_url}",
        f"PRGATE_GITHUB_API_URL={settings.github_api_url}",
        f"PRGATE_GITHUB_WEB_URL={settings.github_web_url}",
    ]
    return "\n".join(lines) + "\n"


def of_app(made: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the settings in GitHub's answer."""
    yield "GITHUB_APP_ID", plain(made, "id")
    yield "GITHUB_CLIENT_ID", plain(made, "client_id")
    yield "GITHUB_CLIENT_SECRET", plain(made, "client_secret")
    yield "WEBHOOK_SECRETS", plain(made, "webhook_secret")
    pem = made.get("pem")
    if not isinstance(pem, str) or not PEM.fullmatch(pem):
        raise NoApp("GitHub's answer holds no private key")
    escaped = pem.strip().replace("\n", "\\n")
    yield "GITHUB_PRIVATE_KEY", f'"{escaped}"'


def plain(made: Mapping[str, Any], name: str) -> str:
    """Return a value that a line of settings can hold as it is. NoApp where it is none."""
    value = str(made.get(name) or "")
    if not PLAIN.fullmatch(value):
        raise NoApp(f"GitHub's answer holds no {name} that can be used")
    return value


def own_keys(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the service's own keys: those that it has, else new ones."""
    yield "SERVICE_KEY", settings.service_key.get_secret_value() or secrets.token_urlsafe(32)
    yield "LANE_KEYS", ",".join(secret_list(settings.lane_keys)) or secrets.token_urlsafe(32)
