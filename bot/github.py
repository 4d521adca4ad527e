"""The one door to GitHub: App or plain account, through PyGithub; no write is ever repeated blindly."""

import base64
import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from typing import Any, Protocol
from urllib.parse import quote, unquote

import requests
from github import Auth, Github, GithubException
from github.Requester import HTTPRequestsConnectionClass, HTTPSRequestsConnectionClass, Requester
from urllib3.util import Retry

from bot.dispatch import LeaseLost, RetryLater

# A server that fails is asked again; told, it is not (the first time may have worked), nor where it limits us
# (waiting is the job's business, not the thread's).
RETRY = Retry(
    total=3,
    backoff_factor=0.2,
    status_forcelist=(500, 502, 503, 504),
    allowed_methods=("GET", "HEAD"),
    respect_retry_after_header=False,
    raise_on_status=False,
)
UNAUTHORISED = 401
TIMEOUT_S = 30.0
PAGE = 100
MOST_PAGES = 30
CURSOR = re.compile(r'[?&]cursor=([^&>]+)[^>]*>; rel="next"')
CACHE_ENTRIES = 2_000
FULL_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
BLOB_LIMIT = 3 * 1024 * 1024


class GitHubFault(Exception):  # noqa: N818 - the fault is GitHub's
    """GitHub refused or could not be reached; `status` is 0 where there was no answer."""

    def __init__(self, status: int, says: str) -> None:
        super().__init__(f"GitHub answered {status}: {says}" if status else f"GitHub did not answer: {says}")
        self.status = status

    @property
    def passing(self) -> bool:
        """Say whether it lies with GitHub or the login, and not with what was asked: it may be over soon."""
        return self.status == 0 or self.status >= 500 or self.status == UNAUTHORISED


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to log in: an App's id and key, or else a plain account's token; `api_url` may be Enterprise's."""

    api_url: str
    app_id: str | None = None
    private_key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    @property
    def is_app(self) -> bool:
        """Say whether an App's key is there."""
        return bool(self.app_id and self.private_key)

    def app_auth(self) -> Auth.AppAuth:
        """Return the App's own authentication; ValueError without one."""
        if not (self.app_id and self.private_key):
            raise ValueError("no GitHub App is configured")
        return Auth.AppAuth(self.app_id, self.private_key)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who we are: `login` authors our comments, `handle` is what people mention."""

    login: str
    handle: str
    is_app: bool


class Cache:
    """A small least-recently-used map, shared by the threads of a process."""

    def __init__(self, entries: int = CACHE_ENTRIES) -> None:
        self._entries = entries
        self._values: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any) -> Any:
        """Return the value or None."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def drop(self, key: Any) -> None:
        """Forget a value."""
        with self._lock:
            self._values.pop(key, None)

    def put(self, key: Any, value: Any) -> None:
        """Keep a value; the oldest unused one goes."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._entries:
                self._values.popitem(last=False)


class Guard(Protocol):
    """What a write asks first; see `bot.guarding.WriteGuard`."""

    def before_write(self) -> float:
        """Wait for the installation's turn and return how many seconds there are left to write.

        RetryLater where the turn is far away, LeaseLost where another worker has the job by now.
        """

    def limited(self, until: datetime) -> None:
        """Hear that GitHub asked to wait."""


# Until when the write in hand may be sent, by `steady_s`; None: whenever.
_write_until: ContextVar[float | None] = ContextVar("write_until", default=None)


def steady_s() -> float:
    """Return a clock that nobody sets, and that runs on while this process or machine is frozen."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def time_left_s() -> float:
    """Return for how long a request may wait for the server. LeaseLost where it must not be sent any more.

    Asked just before the request is sent: a process that was frozen since it was allowed to write stops here.
    """
    until = _write_until.get()
    left = TIMEOUT_S if until is None else until - steady_s()
    if left <= 0:
        raise LeaseLost("the lease ended before the write was sent")
    return min(TIMEOUT_S, left)


class BoundedHttp(HTTPRequestsConnectionClass):
    """PyGithub's connection, which waits no longer than the write in hand may last."""

    def getresponse(self) -> Any:
        """Send the request and return its answer."""
        self.timeout = time_left_s()  # type: ignore[assignment]
        return super().getresponse()


class BoundedHttps(HTTPSRequestsConnectionClass):
    """The same over TLS."""

    def getresponse(self) -> Any:
        """Send the request and return its answer."""
        self.timeout = time_left_s()  # type: ignore[assignment]
        return super().getresponse()


Requester.injectConnectionClasses(BoundedHttp, BoundedHttps)


class Connection:
    """One installation (or account) at one server: authentication, conditional reads, faults as values.

    `guard` is asked before each write; `forget` is called where the login was refused.
    """

    def __init__(
        self,
        client: Github,
        etags: Cache,
        guard: Guard | None = None,
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client
        self._etags = etags
        self._guard = guard
        self._forget = forget

    def get(self, path: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON at `path`; None for 404. What did not change costs no quota."""
        return self.page(path, parameters)[1]

    def page(self, path: str, parameters: Mapping[str, Any] | None = None) -> tuple[Mapping[str, Any], Any]:
        """Return headers and JSON of one page; JSON None for 404."""
        key = (path, tuple(sorted((parameters or {}).items())))
        known = self._etags.get(key)
        conditional = {"If-None-Match": known[0]} if known else {}
        status, headers, data = self._send("GET", path, parameters, conditional, None)
        if status == 304 and known:
            return known[1], known[2]
        if status == 404:
            return headers, None
        if "etag" in headers:
            self._etags.put(key, (headers["etag"], headers, data))
        return headers, data

    def pages(self, path: str, parameters: Mapping[str, Any] | None = None, key: str = "") -> Iterator[Any]:
        """Yield the items of a list to its end (at most `MOST_PAGES` pages); `key` names a wrapped list."""
        for number in range(1, MOST_PAGES + 1):
            asked = {**(parameters or {}), "per_page": PAGE, "page": number}
            headers, data = self.page(path, asked)
            yield from (data or {}).get(key, ()) if key else (data or ())
            if 'rel="next"' not in headers.get("link", ""):
                return

    def cursor_pages(self, path: str, most_pages: int = MOST_PAGES) -> Iterator[Any]:
        """Yield the items of a list that GitHub pages by cursor instead of by number."""
        asked: dict[str, Any] = {"per_page": PAGE}
        for _ in range(most_pages):
            headers, data = self.page(path, asked)
            yield from data or ()
            following = CURSOR.search(headers.get("link", ""))
            if following is None:
                return
            asked["cursor"] = unquote(following[1])

    def graphql(self, query: str, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a GraphQL query found, maybe a part of it only. GitHubFault where it was refused."""
        body = {"query": query, "variables": dict(variables)}
        found = self._send("POST", self._client.requester.graphql_url, None, {}, body)[2]
        data = found.get("data") if isinstance(found, dict) else None
        return data if isinstance(data, dict) else {}

    def write(self, verb: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a write as its guard allows and return its JSON. GitHubFault where it was refused.

        It is never repeated here: the answer may be lost and the work done, so whoever asks looks first.
        """
        if self._guard is None:
            return self._send(verb, path, None, {}, body)[2]
        left_s = self._guard.before_write()
        token = _write_until.set(steady_s() + left_s)
        try:
            return self._send(verb, path, None, {}, body)[2]
        except RetryLater as wait:
            self._guard.limited(wait.at)
            raise
        finally:
            _write_until.reset(token)

    def _send(
        self,
        verb: str,
        path: str,
        parameters: Mapping[str, Any] | None,
        headers: Mapping[str, str],
        body: Mapping[str, Any] | None,
    ) -> tuple[int, Mapping[str, Any], Any]:
        requester = self._client.requester
        try:
            status, answered, text = requester.requestJson(
                verb, path, dict(parameters or {}), dict(headers), dict(body) if body is not None else None
            )
        except GithubException as error:
            self._heed(error.status)
            raise translate(error.status, error.headers or {}, str(error.data)) from error
        except (requests.RequestException, OSError) as error:
            raise GitHubFault(0, type(error).__name__) from error
        data = decode(text)
        self._heed(status)
        if status >= 400 and not (status == 404 and verb == "GET"):
            raise translate(status, answered, data.get("message", "") if isinstance(data, dict) else "")
        return status, answered, data

    def _heed(self, status: int) -> None:
        """Let go of a token that is refused: by a clock that was wrong it may look good for long."""
        if status == UNAUTHORISED:
            self._forget()


def decode(text: str) -> Any:
    """Return the JSON of an answer; None for an empty or broken one."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def translate(status: int, headers: Mapping[str, Any], says: str) -> Exception:
    """Return RetryLater for a rate limit, GitHubFault for any other refusal."""
    limited = status in (403, 429) and (
        "retry-after" in headers
        or headers.get("x-ratelimit-remaining") == "0"
        or "rate limit" in says.lower()
    )
    if status == 429 or limited:
        return RetryLater(until(headers), f"GitHub answered {status}: {says[:200]}")
    return GitHubFault(status, says[:500])


def until(headers: Mapping[str, Any]) -> datetime:
    """Return when a limited request may be sent again: Retry-After, else the reset, else a minute."""
    now = datetime.now(UTC)
    after = str(headers.get("retry-after", ""))
    if after.isdigit():
        return now + timedelta(seconds=min(int(after), 3_600) + 1)
    reset = str(headers.get("x-ratelimit-reset", ""))
    if reset.isdigit() and headers.get("x-ratelimit-remaining") == "0":
        return min(datetime.fromtimestamp(int(reset), UTC) + timedelta(seconds=1), now + timedelta(hours=2))
    return now + timedelta(seconds=60)


def open_client(credentials: Credentials, installation_id: int | None) -> Github:
    """Return PyGithub's client for an installation, for the App itself (no id), or for the account."""
    auth: Auth.Auth | None = Auth.Token(credentials.token) if credentials.token else None
    if credentials.is_app:
        app = credentials.app_auth()
        auth = app.get_installation_auth(installation_id) if installation_id else app
    return Github(
        auth=auth,
        base_url=credentials.api_url.rstrip("/"),
        user_agent=f"prgate/{version('prgate')}",
        per_page=PAGE,
        timeout=int(TIMEOUT_S),
        retry=RETRY,
        seconds_between_requests=None,
        seconds_between_writes=None,
        lazy=True,
    )


def access_token(credentials: Credentials, installation_id: int | None) -> str | None:
    """Return a token that reads the installation's repositories over git; None without credentials.

    GitHubFault where GitHub gives the App none.
    """
    auth = open_client(credentials, installation_id).requester.auth
    try:
        return auth.token if auth is not None else None
    except GithubException as error:
        raise GitHubFault(error.status, str(error.data)[:500]) from error


_clients = Cache(200)


def connect(credentials: Credentials, installation_id: int | None, guard: Guard | None = None) -> Connection:
    """Return a connection; its client (and so the installation's token) is shared in this process."""
    key = (credentials.api_url, credentials.app_id, credentials.token, installation_id)
    known: tuple[Github, Cache] | None = _clients.get(key)
    if known is None:
        known = (open_client(credentials, installation_id), Cache(500))
        _clients.put(key, known)
    return Connection(*known, guard, partial(_clients.drop, key))


_identities = Cache(20)


def identity(credentials: Credentials) -> Identity:
    """Return who we are at this server, asked once a process. GitHubFault where the login is refused."""
    key = (credentials.api_url, credentials.app_id, credentials.token)
    known = _identities.get(key)
    if known is None:
        known = ask_identity(credentials)
        _identities.put(key, known)
    found: Identity = known
    return found


def ask_identity(credentials: Credentials) -> Identity:
    """Ask GitHub who we are."""
    connection = connect(credentials, None)
    if credentials.is_app:
        slug = str((connection.get("/app") or {}).get("slug", ""))
        return Identity(f"{slug}[bot]", slug, True)
    login = str((connection.get("/user") or {}).get("login", ""))
    return Identity(login, login, False)


def installation_of(credentials: Credentials, full_name: str) -> int | None:
    """Return the App's installation on a repository; None for a plain account or where there is none."""
    if not credentials.is_app:
        return None
    found = connect(credentials, None).get(f"/repos/{full_name}/installation")
    return int(found["id"]) if found else None


_blobs = Cache()
_lasting = Cache(1_000)


class RepoClient:
    """One repository's reads and writes, as plain JSON; None stands for "not there"."""

    def __init__(self, connection: Connection, full_name: str, who: Identity) -> None:
        self.connection = connection
        self.full_name = full_name
        self.who = who
        self.root = f"/repos/{full_name}"

    def get(self, path: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON below the repository's address; None for 404."""
        return self.connection.get(f"{self.root}{path}", parameters)

    def pages(self, path: str, parameters: Mapping[str, Any] | None = None, key: str = "") -> Iterator[Any]:
        """Yield a list below the repository's address to its end."""
        return self.connection.pages(f"{self.root}{path}", parameters, key)

    def write(self, verb: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Write below the repository's address."""
        return self.connection.write(verb, f"{self.root}{path}", body)

    def pull(self, number: int) -> Any:
        """Return the pull request, or None."""
        return self.get(f"/pulls/{number}")

    def permission(self, login: str) -> str:
        """Return `admin`, `maintain`, `write`, `triage`, `read` or `none`, which a refusal is as well.

        A custom role counts as what GitHub says it is worth (`permission`), never more. GitHubFault where
        GitHub itself has a fault: then it is not known.
        """
        try:
            found = self.get(f"/collaborators/{quote(login, safe='')}/permission")
        except GitHubFault as fault:
            if fault.passing:
                raise
            return "none"
        if not found:
            return "none"
        role = found.get("role_name")
        exact = {"maintain", "triage"}
        return str(role if role in exact else found.get("permission") or "none")

    def folder(self, path: str, ref: str) -> list[Mapping[str, Any]]:
        """Return the entries of a folder at a commit; empty where there is none."""
        found = self.get(f"/contents/{quote(path)}", {"ref": ref})
        return found if isinstance(found, list) else []

    def tree(self, sha: str) -> list[Mapping[str, Any]]:
        """Return all entries below a tree; GitHub cuts very large ones."""
        found = self.get(f"/git/trees/{sha}", {"recursive": "1"}) or {}
        return list(found.get("tree", ()))

    def blob(self, sha: str) -> str:
        """Return a blob's text, kept by its sha. Invalid bytes are replaced."""
        known: str | None = _blobs.get((self.full_name, sha))
        if known is None:
            found = self.get(f"/git/blobs/{sha}")
            if found is None:
                return ""
            known = base64.b64decode(found.get("content", "")).decode("utf-8", errors="replace")
            _blobs.put((self.full_name, sha), known)
        return known

    def lasting(self, what: str, *commits: str, read: Callable[[], Any]) -> Any:
        """Return what `read` gives, kept for the process where it follows from full commit names alone."""
        if not all(FULL_SHA.fullmatch(commit) for commit in commits):
            return read()
        key = (self.full_name, what, *commits)
        known = _lasting.get(key)
        if known is None:
            known = read()
            if known is not None:  # what is not there yet may come: GitHub's copies lag
                _lasting.put(key, known)
        return known

    def text_at(self, path: str, ref: str) -> tuple[str, str] | None:
        """Return blob sha and text of a file at a commit; None where it is missing, a folder or too large."""
        found = self.lasting(
            f"file:{path}", ref, read=lambda: self.get(f"/contents/{quote(path)}", {"ref": ref})
        )
        if not isinstance(found, dict) or found.get("type") != "file" or found.get("size", 0) > BLOB_LIMIT:
            return None
        return found["sha"], self.blob(found["sha"])
