"""Pages of a list: each row once, in order, whatever the token says."""

import base64
import json
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine
from starlette.testclient import TestClient

from bot.dashboard.keyset import Key, after, make_token, read_token
from bot.db.models import Pull
from bot.db.nightly import Nightly

KEYS = (Key(Pull.score, int, down=True), Key(Pull.created_at, datetime), Key(Pull.number, int))


def walk(client: TestClient, path: str) -> list[dict[str, object]]:
    """Return the items of all pages, in order."""
    items: list[dict[str, object]] = []
    token = ""
    for _ in range(200):
        page = client.get(f"{path}&after={token}").json()
        items += page["items"]
        token = page["next"]
        if not token:
            return items
    raise AssertionError("there is no last page")


@pytest.mark.parametrize("sort", ["urgent", "oldest", "newest", "updated"])
def test_the_queues_pages_hold_each_pull_request_once_in_every_order(filled: TestClient, sort: str) -> None:
    whole = walk(filled, f"/queue.json?sort={sort}&limit=100")
    paged = walk(filled, f"/queue.json?sort={sort}&limit=7")
    assert paged == whole
    assert len({item["number"] for item in paged}) == 120
    ordered = {
        "urgent": [(-int(str(item["score"])), item["opened_at"]) for item in paged],
        "oldest": [item["opened_at"] for item in paged],
        "newest": [item["opened_at"] for item in reversed(paged)],
        "updated": [item["updated_at"] for item in reversed(paged)],
    }[sort]
    assert ordered == sorted(ordered)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("path", "many"),
    [("/red.json?limit=9", 60), ("/perf.json?limit=3", 4), ("/perf/series/2.json?limit=60", 365)],
)
def test_other_lists_do_too(filled: TestClient, path: str, many: int) -> None:
    items = walk(filled, path)
    assert len(items) == len({json.dumps(item, sort_keys=True) for item in items}) == many


def test_a_page_begins_behind_a_row_that_is_gone(filled: TestClient, year: Engine) -> None:
    first = filled.get("/queue.json?sort=oldest&limit=1").json()
    gone = make_token([datetime.fromisoformat(first["items"][0]["opened_at"]), 1, 10**6])
    rest = filled.get("/queue.json", params={"sort": "oldest", "after": gone, "limit": 1}).json()
    assert rest["items"][0]["number"] != first["items"][0]["number"]


def test_a_token_holds_the_values_of_its_row() -> None:
    moment = datetime(2026, 9, 1, 3, 4, 5, 678, tzinfo=UTC)
    assert read_token(make_token([7, moment, 3]), KEYS) == [7, moment, 3]
    nights = (Key(Nightly.night, date, down=True), Key(Nightly.sha, str))
    assert read_token(make_token([date(2026, 9, 1), "ab"]), nights) == [date(2026, 9, 1), "ab"]


BAD = [
    [1, "2026-09-01T00:00:00", 3],
    [1, "x", 3],
    [True, "2026-09-01T00:00:00+00:00", 3],
    [2**63, "2026-09-01T00:00:00+00:00", 3],
    [1, 2],
    {},
    7,
    None,
]


@pytest.mark.parametrize("values", BAD)
def test_a_token_of_another_list_is_no_token(values: object) -> None:
    token = base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")
    assert read_token(token, KEYS) is None
    assert after(KEYS, token) is None


@given(st.text(max_size=80) | st.binary(max_size=60).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_no_text_breaks_the_reading_of_tokens(token: str) -> None:
    found = read_token(token, KEYS)
    assert found is None or len(found) == 3
