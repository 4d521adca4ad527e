"""Addresses that lead elsewhere, archives and XML that grow: refused, or read within their limits.

Hosts are allowed by name, by the operator. An allowed name may lead to a private address (GitHub Enterprise
does); what a stranger can write, an address in a check or a redirect, names no host that is not on the list.
"""

import io
import time
import zipfile

import httpx
import pytest

from bot.ci.parsers import junit
from bot.ci.providers.artifacts import MOST_MEMBERS, junit_of
from bot.ci.providers.fetch import Fetcher, origin_of, origins

ALLOWED = origins(["https://api.github.com", "http://127.0.0.1:8080"], ["logs.example.org"])
CPU_LIMIT_S = 20.0

ELSEWHERE = {
    "another host": "https://evil.example/log",
    "the metadata service": "http://169.254.169.254/latest/meta-data/",
    "another port": "http://127.0.0.1:6379/",
    "another scheme": "http://logs.example.org/log",
    "a longer name": "https://logs.example.org.evil.example/log",
    "a name that ends alike": "https://evil-logs.example.org/log",
    "a name before an @": "https://logs.example.org@evil.example/log",
    "a password before an @": "https://logs.example.org:443@evil.example/log",
    "a backslash": "https://evil.example\\@logs.example.org/log",
    "a fragment": "https://evil.example#@logs.example.org/log",
    "a question mark": "https://evil.example?@logs.example.org/log",
    "a decimal address": "http://2130706433:8080/log",
    "a short address": "http://127.1:8080/log",
    "an octal address": "http://0177.0.0.1:8080/log",
    "an address in IPv6": "http://[::ffff:127.0.0.1]:8080/log",
    "this host's name": "http://localhost:8080/log",
    "a dot at the end": "https://evil.example./log",
    "a line end": "https://logs.example.org\r\nHost: evil.example/log",
    "a tab in the scheme": "ht\ttps://evil.example/log",
    "a file": "file:///etc/passwd",
    "no scheme": "//evil.example/log",
    "data": "data:text/plain,x",
    "letters that look alike": "https://l\u043egs.example.org/log",
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_an_address_elsewhere_is_not_asked(what: str) -> None:
    url = ELSEWHERE[what]
    assert origin_of(url) not in ALLOWED
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, text="secret")

    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        fetcher = Fetcher(ALLOWED, client)
        assert fetcher.text(url, {"Authorization": "Bearer token"}) is None
        assert len(fetcher.notes) == 1
    assert asked == []


@pytest.mark.parametrize("what", ELSEWHERE)
def test_a_redirect_elsewhere_is_not_followed(what: str) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(302, headers=[(b"Location", ELSEWHERE[what].encode())])

    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        assert Fetcher(ALLOWED, client).text("https://logs.example.org/log", {}) is None
    assert all(origin_of(url) in ALLOWED for url in asked)


def archive(members: dict[str, bytes], *, level: int = 9) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return packed.getvalue()


GOOD = b'<testsuite><testcase name="a"/></testsuite>'
LONG = b"<testsuite>" + b" " * 64 * 1024**2 + b"</testsuite>"
ARCHIVES: dict[str, bytes] = {
    "one member that grows a thousandfold": archive({"report.xml": LONG}),
    "many members that grow": archive({f"{n}.xml": LONG[: 2 * 1024**2] for n in range(200)}),
    "ten thousand members": archive({f"{n}.xml": GOOD for n in range(10_000)}),
    "an archive in an archive": archive({"a.xml": archive({"b.xml": LONG})}),
    "half an archive": archive({"a.xml": GOOD})[:-40],
    "no archive": b"PK\x03\x04" + b"\0" * 1_000,
    "a directory that lies": archive({"a.xml": GOOD}).replace(b"PK\x01\x02", b"PK\x01\x03"),
    "sizes that lie": archive({"a.xml": GOOD}).replace(len(GOOD).to_bytes(4, "little"), b"\xff\xff\xff\x7f"),
}


@pytest.mark.parametrize("what", ARCHIVES)
def test_an_archive_is_read_within_limits(what: str) -> None:
    began = time.process_time()
    found = junit_of(ARCHIVES[what])
    assert found is None or len(found) <= MOST_MEMBERS * 2 * 1024**2 + 100
    assert time.process_time() - began < CPU_LIMIT_S


@pytest.mark.parametrize(
    "name", ["../../escaped.xml", "/tmp/escaped.xml", "..\\escaped.xml", "a/\0b.xml", "C:/x.xml"]
)
def test_a_members_path_is_a_name_and_nothing_is_written(
    name: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("deep") / "er"
    folder.mkdir()
    monkeypatch.chdir(folder)
    found = junit_of(archive({name: GOOD}))
    assert found is None or GOOD.decode() in found
    assert [path for path in folder.parent.rglob("*") if path.is_file()] == []


ONE = '<testsuite><testcase name="&a;"/></testsuite>'
ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
DOCUMENTS: dict[str, str] = {
    "a thousand million laughs": f'<!DOCTYPE a [<!ENTITY e0 "ha">{ENTITIES}]><testsuite name="&e11;"/>',
    "one long entity many times": f'<!DOCTYPE a [<!ENTITY a "{"x" * 100_000}">]><a>{"&a;" * 50_000}</a>',
    "a file": f'<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]>{ONE}',
    "an address": '<!DOCTYPE a SYSTEM "http://127.0.0.1:9/x.dtd"><testsuite><testcase name="a"/></testsuite>',
    "a parameter entity": '<!DOCTYPE a [<!ENTITY % p SYSTEM "http://127.0.0.1:9/x"> %p;]><testsuite/>',
    "deep nesting": "<testsuite>" + "<a>" * 200_000,
    "deep nesting, closed": "<a>" * 100_000 + "</a>" * 100_000,
    "many attributes": "<testsuite " + " ".join(f'a{n}=""' for n in range(100_000)) + "/>",
    "many cases": "<testsuite>" + '<testcase name="x"/>' * 205_000 + "</testsuite>",
    "another encoding": '<?xml version="1.0" encoding="utf-7"?><testsuite>+ADw-script+AD4-</testsuite>',
}


@pytest.mark.parametrize("what", DOCUMENTS)
def test_a_hostile_report_says_nothing_soon(what: str) -> None:
    began = time.process_time()
    found = junit.parse(DOCUMENTS[what])
    assert time.process_time() - began < CPU_LIMIT_S
    assert found.failures == ()
    assert not any("root:" in name for name in found.passed)
