"""The stand-in Buildkite: what it shows to whom, retries, limits, and webhooks that the service believes."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import httpx
import pytest

from bot.buildkite_hook import commit_of, is_genuine
from bot.demo.buildkite.organization import Hook
from tests.bot.ci_providers.world import BUILDKITE_TOKEN, FAILED, PASSED, Ci, bk_job

TOKEN = {"Authorization": f"Bearer {BUILDKITE_TOKEN}"}


def builds_url(ci: Ci) -> str:
    return f"{ci.buildkite.url}/v2/organizations/omni/pipelines/omni/builds"


def test_a_reader_without_a_token_sees_builds_and_no_jobs(ci: Ci) -> None:
    ci.build(10, "feature", bk_job(), branch="feature", pull=1)
    (build,) = httpx.get(builds_url(ci)).json()
    assert (build["number"], build["state"], build["jobs"]) == (10, "failed", [])
    (build,) = httpx.get(builds_url(ci), headers=TOKEN).json()
    assert [job["name"] for job in build["jobs"]] == ["Unit"]
    assert httpx.get(build["jobs"][0]["raw_log_url"]).status_code == 401
    assert httpx.get(build["jobs"][0]["raw_log_url"], headers=TOKEN).text == FAILED
    assert httpx.get(build["jobs"][0]["log_url"], headers=TOKEN).json()["content"] == FAILED


def test_builds_are_found_by_commit_branch_state_and_time(ci: Ci) -> None:
    ci.build(10, "feature", bk_job(), branch="feature", pull=1, hours=5)
    ci.build(11, "base", bk_job("passed", PASSED), hours=40)

    def numbers(**asked: str) -> list[int]:
        return [one["number"] for one in httpx.get(builds_url(ci), params=asked, headers=TOKEN).json()]

    assert numbers() == [10, 11]
    assert numbers(commit=ci.sha("base")) == [11]
    assert numbers(branch="feature") == [10]
    assert numbers(state="failed") == [10]
    assert numbers(state="finished") == [10, 11]
    assert numbers(created_from="2026-09-19T00:00:00+00:00") == [10]
    assert numbers(per_page="1", page="2") == [11]


def test_jobs_are_listed_by_state_and_cursor(ci: Ci) -> None:
    ci.build(10, "feature", *(bk_job(name=f"Shard {n}") for n in range(3)), bk_job("passed", PASSED))
    asked: dict[str, str] = {"state[]": "failed", "per_page": "2"}
    page = httpx.get(f"{builds_url(ci)}/10/jobs", params=asked, headers=TOKEN).json()
    rest = httpx.get(page["links"]["next"], headers=TOKEN).json()
    assert [job["name"] for job in (*page["items"], *rest["items"])] == ["Shard 0", "Shard 1", "Shard 2"]
    assert rest["links"]["next"] is None


def test_a_job_is_retried_once(ci: Ci) -> None:
    build = ci.build(10, "feature", bk_job(), branch="feature", pull=1)
    url = f"{builds_url(ci)}/10/jobs/{build.jobs[0].id}/retry"
    fresh = httpx.put(url, headers=TOKEN).json()
    assert (fresh["state"], fresh["retries_count"]) == ("scheduled", 1)
    assert httpx.put(url, headers=TOKEN).status_code == 422
    assert build.state == "running"
    plain = httpx.get(f"{builds_url(ci)}/10", headers=TOKEN).json()
    assert [job["id"] for job in plain["jobs"]] == [fresh["id"]]


def test_beyond_its_limit_it_says_so_in_a_short_document(ci: Ci) -> None:
    ci.buildkite.limit(1)
    answer = httpx.get(builds_url(ci), headers=TOKEN)
    assert answer.status_code == 429
    assert "rate limit" in answer.json()["message"]
    assert httpx.get(builds_url(ci), headers=TOKEN).status_code == 200


class Receiver:
    """A small server that keeps what it is sent."""

    def __init__(self) -> None:
        received: list[tuple[dict[str, str], bytes]] = []
        self.received = received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(202)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_its_webhooks_are_signed_as_the_service_wants_them(ci: Ci, receiver: Receiver) -> None:
    ci.buildkite.hook = Hook(f"http://127.0.0.1:{receiver.server.server_port}/", "secret")
    ci.buildkite.repository = "https://github.com/omni/omni.git"
    build = ci.build(10, "feature", bk_job(), branch="feature", pull=1)
    fresh = ci.buildkite.retry(build, build.jobs[0])
    assert fresh is not None
    ci.buildkite.finish(build, fresh, "passed", PASSED)
    events = [headers["x-buildkite-event"] for headers, _ in receiver.received]
    assert events == ["build.finished", "job.scheduled", "job.finished", "build.finished"]
    now = datetime.now(UTC)
    for headers, body in receiver.received:
        assert is_genuine("secret", body, headers, now)
        assert not is_genuine("other", body, headers, now)
        assert not is_genuine("secret", body + b" ", headers, now)
        assert not is_genuine("secret", body, headers, now + timedelta(hours=1))
        assert commit_of(json.loads(body)) == ("omni/omni", ci.sha("feature"))
        assert "jobs" not in json.loads(body)["build"]
    assert ci.buildkite.hook.codes == [202] * 4
