"""The stand-in GitHub, asked by the real client over HTTP."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
from github import Auth, Github, GithubException

from bot.demo.github import StandIn
from bot.demo.recorded import Recording
from bot.demo.target import TargetRepository
from bot.dispatch import RetryLater
from bot.github import Credentials, RepoClient, connect, identity, installation_of


@pytest.fixture
def client(github: StandIn, recording: Recording, private_key: str) -> RepoClient:
    credentials = Credentials(f"{github.url}/api/v3", app_id="99", private_key=private_key)
    installation = installation_of(credentials, recording.repository)
    return RepoClient(connect(credentials, installation), recording.repository, identity(credentials))


@pytest.fixture
def opened(github: StandIn, recording: Recording) -> int:
    fix = recording.fix
    github.hub.open_pull(fix.number, fix.branch, fix.author, title=fix.title, body=fix.body)
    return fix.number


def test_an_app_is_known_by_its_slug(client: RepoClient) -> None:
    assert client.who.login == "prgate[bot]"
    assert client.who.handle == "prgate"


def test_pygithubs_own_objects_read_a_pull_request(
    github: StandIn, opened: int, recording: Recording
) -> None:
    github.state.accounts["token-1"] = "owner-01"
    pygithub = Github(auth=Auth.Token("token-1"), base_url=f"{github.url}/api/v3")
    pull = pygithub.get_repo(recording.repository).get_pull(opened)
    assert pull.head.sha == recording.fix.head_sha
    assert pull.changed_files == len(list(pull.get_files()))
    assert {file.filename for file in pull.get_files()} >= {
        "omni_lite/diffusion/models/qwen_image/qwen_image_transformer.py"
    }
    comment = pull.create_issue_comment("hello")
    assert comment.user.login == "owner-01"
    assert [item.body for item in pull.get_issue_comments()] == ["hello"]


def test_files_at_a_commit_come_from_git(client: RepoClient, target: TargetRepository) -> None:
    found = client.text_at(".github/prgate.toml", target.main)
    assert found is not None
    assert "[perf]" in found[1]
    assert client.text_at("missing", target.main) is None
    names = {entry["name"] for entry in client.folder("docs/design/module", target.main)}
    assert "benchmarking.md" in names
    assert len(client.tree(target.main)) > 20


def test_a_comparison_names_the_merge_base(
    client: RepoClient, target: TargetRepository, recording: Recording
) -> None:
    compared = client.get(f"/compare/{target.main}...{recording.culprit.head_sha}")
    assert compared["merge_base_commit"]["sha"] == target.parent
    assert compared["status"] == "diverged"


def test_lists_are_paged_to_their_end(client: RepoClient, github: StandIn, opened: int) -> None:
    for number in range(230):
        github.hub.comment(opened, "owner-02", f"comment {number}")
    assert len(list(client.pages(f"/issues/{opened}/comments"))) == 230


def test_an_unchanged_answer_is_not_sent_again(client: RepoClient, github: StandIn, opened: int) -> None:
    first = client.pull(opened)
    assert client.pull(opened) == first
    assert github.state.requests[-1].status == 304


def test_asking_the_author_for_a_review_is_refused(client: RepoClient, opened: int) -> None:
    path = f"/pulls/{opened}/requested_reviewers"
    for login in ("author-01", "nobody-at-all"):
        with pytest.raises(Exception, match="422"):
            client.write("POST", path, {"reviewers": [login]})
    client.write("POST", path, {"reviewers": ["owner-02"]})
    assert [user["login"] for user in client.pull(opened)["requested_reviewers"]] == ["owner-02"]


def test_a_comment_can_be_created_although_the_answer_is_lost(
    client: RepoClient, github: StandIn, opened: int
) -> None:
    github.faults.fail("POST", "/comments$", 502, after=True)
    with pytest.raises(Exception, match="502"):
        client.write("POST", f"/issues/{opened}/comments", {"body": "hello"})
    assert [comment.body for comment in github.bot_comments(opened)] == ["hello"]


def test_a_limit_names_its_time(client: RepoClient, github: StandIn, opened: int) -> None:
    github.faults.limit(7)
    with pytest.raises(RetryLater):
        client.pull(opened)
    assert client.pull(opened)["number"] == opened


def test_an_unknown_token_is_refused(github: StandIn, recording: Recording) -> None:
    pygithub = Github(auth=Auth.Token("wrong"), base_url=f"{github.url}/api/v3")
    with pytest.raises(GithubException, match="401"):
        pygithub.get_repo(recording.repository)


class Receiver:
    """A small server that keeps what it is sent."""

    def __init__(self) -> None:
        received = self.received = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.append((dict(self.headers), body))
                self.send_response(202)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()

    def events(self) -> list[str]:
        return [headers["X-GitHub-Event"] for headers, _ in self.received]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


@pytest.fixture
def sending(github: StandIn, receiver: Receiver) -> StandIn:
    github.hub.hooks.url = f"http://127.0.0.1:{receiver.server.server_port}/"
    return github


def test_deliveries_are_signed_and_shaped_like_githubs(
    sending: StandIn, receiver: Receiver, opened: int
) -> None:
    sending.hub.comment(opened, "owner-02", "@prgate bench")
    sha = sending.state.pull(opened).head_sha
    sending.hub.set_status(sha, "buildkite/omni-lite", "failure", "owner-10")
    sending.hub.commit("gate-short-sequences", {"new.txt": "text\n"}, "Add a file", "author-01")
    assert sending.hub.hooks.drain()
    assert receiver.events() == ["pull_request", "issue_comment", "status", "push", "pull_request"]
    for headers, body in receiver.received:
        signature = hmac.new(b"standin-secret", body, hashlib.sha256).hexdigest()
        assert headers["X-Hub-Signature-256"] == f"sha256={signature}"
    comment, status, moved = (json.loads(receiver.received[n][1]) for n in (1, 2, 4))
    assert "head" not in comment["issue"]
    assert "number" not in status
    assert moved["action"] == "synchronize"
    assert moved["pull_request"]["head"]["sha"] == moved["after"]


def test_a_redelivery_keeps_its_id(sending: StandIn, receiver: Receiver, opened: int) -> None:
    assert sending.hub.hooks.drain()
    sending.hub.hooks.redeliver(sending.state.deliveries[0])
    assert sending.hub.hooks.drain()
    ids = [headers["X-GitHub-Delivery"] for headers, _ in receiver.received]
    assert len(ids) == 2
    assert len(set(ids)) == 1


def test_a_comment_typed_on_the_page_goes_through_the_webhook(
    sending: StandIn, receiver: Receiver, opened: int
) -> None:
    page = f"{sending.url}/omni-lite/omni-lite/pull/{opened}"
    answer = httpx.post(
        f"{page}/comment", data={"user": "owner-02", "body": "@prgate why"}, follow_redirects=True
    )
    assert answer.status_code == 200
    assert "@prgate why" in answer.text
    assert sending.hub.hooks.drain()
    assert receiver.events()[-1] == "issue_comment"


def test_hostile_html_in_a_comment_is_text(github: StandIn, opened: int) -> None:
    github.hub.comment(
        opened, "stranger-01", "<script>alert(1)</script>\n\n<details><summary>x</summary>\n\ny</details>"
    )
    html = httpx.get(f"{github.url}/omni-lite/omni-lite/pull/{opened}").text
    assert "<script>" not in html
    assert "<details><summary>x</summary>" in html


def test_its_state_outlives_it(target: TargetRepository, recording: Recording, tmp_path: Path) -> None:
    file = tmp_path / "standin.state"
    for _ in range(2):
        with StandIn(target.path, recording.repository, port=0, state_file=file) as server:
            if server.state.pull(1) is None:
                server.hub.open_pull(1, recording.fix.branch, "author-01")
            else:
                assert server.state.pull(1).head_sha == recording.fix.head_sha
