"""More of the stand-in GitHub: merges, rules, suites, artifacts, attempts, faults, and its page."""

import io
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import httpx
import jwt
import pytest
from github import Auth, Github, GithubException

from bot.demo.github import StandIn
from bot.demo.github.state import Artifact, CheckRun, WorkflowRun, now
from bot.demo.recorded import Recording


@pytest.fixture
def opened(github: StandIn, recording: Recording) -> int:
    fix = recording.fix
    github.hub.open_pull(fix.number, fix.branch, fix.author, title=fix.title, body=fix.body)
    return fix.number


@pytest.fixture
def account(github: StandIn) -> Github:
    """PyGithub as a maintainer with a token."""
    github.state.user("maintainer-01").permission = "admin"
    github.state.accounts["token-1"] = "maintainer-01"
    return Github(auth=Auth.Token("token-1"), base_url=f"{github.url}/api/v3", retry=None)


class Receiver:
    """A receiver that answers `code` and keeps the ids of what it was sent."""

    def __init__(self) -> None:
        outer = self
        self.code = 202
        self.ids: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                outer.ids.append(self.headers["X-GitHub-Delivery"])
                self.send_response(outer.code)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver(github: StandIn) -> Iterator[Receiver]:
    made = Receiver()
    github.hub.hooks.url = f"http://127.0.0.1:{made.server.server_port}/"
    yield made
    made.server.shutdown()
    made.server.server_close()


def app_token(**claims: object) -> str:
    moment = int(now().timestamp())
    told = {"iss": "99", "iat": moment, "exp": moment + 60, **claims}
    return jwt.encode(told, "k" * 32, algorithm="HS256")


def test_a_merge_moves_main_and_closes_the_pull_request(
    github: StandIn, account: Github, recording: Recording, opened: int
) -> None:
    repo = account.get_repo(recording.repository)
    before = github.hub.git.resolve("main")
    done = repo.get_pull(opened).merge()
    assert done.merged
    assert github.hub.git.resolve("main") == done.sha != before
    pull = repo.get_pull(opened)
    assert (pull.state, pull.merged, pull.merge_commit_sha) == ("closed", True, done.sha)
    commit = repo.get_commit(done.sha)
    assert [parent.sha for parent in commit.parents] == [before, recording.fix.head_sha]
    assert [one.event for one in github.state.deliveries[-2:]] == ["push", "pull_request"]
    with pytest.raises(GithubException, match="405"):
        pull.merge()


def test_required_checks_are_found_in_rules_or_in_protection_or_hidden(
    github: StandIn, account: Github, recording: Recording
) -> None:
    repo = account.get_repo(recording.repository)
    github.state.required = ("lint",)
    github.state.protected = ("unit",)
    rules = f"{github.url}/api/v3/repos/{recording.repository}/rules/branches/main"
    headers = {"Authorization": "Bearer token-1"}
    (rule,) = httpx.get(rules, headers=headers).json()
    assert rule["parameters"]["required_status_checks"][0]["context"] == "lint"
    assert repo.get_branch("main").get_required_status_checks().contexts == ["unit"]
    github.state.required, github.state.protected = None, ()
    assert httpx.get(rules, headers=headers).status_code == 403
    with pytest.raises(GithubException, match="404"):
        repo.get_branch("main").get_protection()


def test_lists_tell_their_length(github: StandIn, account: Github, recording: Recording, opened: int) -> None:
    for number in range(45):
        github.hub.comment(opened, "owner-02", f"comment {number}")
    found = account.get_repo(recording.repository).get_pull(opened).get_issue_comments()
    assert found.totalCount == 45
    assert next(iter(found.reversed)).body == "comment 44"


def test_check_runs_of_an_app_are_one_suite(
    github: StandIn, account: Github, recording: Recording, opened: int
) -> None:
    sha, moment = recording.fix.head_sha, now()
    for number, ended in ((1, "success"), (2, "failure")):
        run = CheckRun(number, f"c{number}", sha, "completed", ended, "", None, "", "", "lab", moment, moment)
        github.hub.save_check(run, "lab[bot]", "completed")
    (suite,) = account.get_repo(recording.repository).get_commit(sha).get_check_suites()
    assert (suite.status, suite.conclusion, suite.app.slug) == ("completed", "failure", "lab")


def test_an_artifact_is_a_redirect_to_an_archive(
    github: StandIn, account: Github, recording: Recording
) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("junit.xml", "<testsuites/>")
    run = WorkflowRun(5, "ci", "a" * 40, "main", "push", "completed", "success", now())
    run.artifacts.append(Artifact(6, "report", now(), made.getvalue()))
    run.artifacts.append(Artifact(7, "old", now(), None))
    github.state.workflow_runs[5] = run
    report, old = account.get_repo(recording.repository).get_workflow_run(5).get_artifacts()
    assert (report.name, report.expired, old.expired) == ("report", False, True)
    headers = {"Authorization": "Bearer token-1"}
    answer = httpx.get(report.archive_download_url, headers=headers)
    assert answer.status_code == 302
    assert httpx.get(answer.headers["Location"]).content == made.getvalue()
    assert httpx.get(old.archive_download_url, headers=headers).status_code == 410


def test_a_remark_on_a_line_is_told(
    github: StandIn, account: Github, recording: Recording, opened: int
) -> None:
    repo = account.get_repo(recording.repository)
    path = next(iter(repo.get_pull(opened).get_files())).filename
    github.hub.remark(opened, "owner-02", path, 3, "why?")
    (remark,) = repo.get_pull(opened).get_review_comments()
    assert (remark.user.login, remark.path, remark.body) == ("owner-02", path, "why?")
    assert github.state.deliveries[-1].event == "pull_request_review_comment"


def test_every_attempt_of_a_delivery_stands_in_the_apps_list(
    github: StandIn, receiver: Receiver, recording: Recording, opened: int
) -> None:
    receiver.code = 500
    github.hub.comment(opened, "owner-02", "hello")
    assert github.hub.hooks.drain()
    receiver.code = 202
    api, headers = f"{github.url}/api/v3/app/hook/deliveries", {"Authorization": f"Bearer {app_token()}"}
    (failed,) = (one for one in httpx.get(api, headers=headers).json() if one["event"] == "issue_comment")
    assert httpx.post(f"{api}/{failed['id']}/attempts", headers=headers).status_code == 202
    assert github.hub.hooks.drain()
    tries = [one for one in httpx.get(api, headers=headers).json() if one["guid"] == failed["guid"]]
    assert [(one["status_code"], one["redelivery"]) for one in tries] == [(202, True), (500, False)]
    sent = httpx.get(f"{api}/{tries[0]['id']}", headers=headers).json()["request"]
    assert sent["payload"]["comment"]["body"] == "hello"


def test_a_token_that_is_not_the_apps_or_has_ended_is_refused(github: StandIn) -> None:
    url = f"{github.url}/api/v3/app"
    codes = [
        httpx.get(url, headers={"Authorization": f"Bearer {token}"}).status_code
        for token in (app_token(), app_token(iss="98"), app_token(exp=1), "a.b.c")
    ]
    assert codes == [200, 401, 401, 401]
    github.state.accounts["token-1"] = "stranger-01"
    asked = f"{url}/installations/4242/access_tokens"
    assert httpx.post(asked, headers={"Authorization": "Bearer token-1"}).status_code == 401


def test_deliveries_can_come_twice_and_in_another_order(
    github: StandIn, receiver: Receiver, opened: int
) -> None:
    assert github.hub.hooks.drain()
    receiver.ids.clear()
    start = len(github.state.deliveries)
    github.faults.duplicate_deliveries = github.faults.shuffle_deliveries = True
    for number in range(20):
        github.hub.comment(opened, "owner-02", f"{number}")
    assert github.hub.hooks.drain()
    sent = [one.guid for one in github.state.deliveries[start:] for _ in range(2)]
    assert sorted(receiver.ids) == sorted(sent)
    assert receiver.ids != sent


def test_it_can_be_down_for_a_while(github: StandIn) -> None:
    github.faults.be_down(0.5)
    assert httpx.get(f"{github.url}/api/v3/rate_limit").status_code == 503
    github.faults.be_down(0)
    assert httpx.get(f"{github.url}/api/v3/rate_limit").status_code == 200


def test_it_counts_what_it_is_asked_and_told(github: StandIn, account: Github, recording: Recording) -> None:
    github.hub.open_issue(900, "x", "y", "owner-02", ())
    before = httpx.get(f"{github.url}/_standin/stats").json()
    account.get_repo(recording.repository).get_issue(900).create_comment("hello")
    after = httpx.get(f"{github.url}/_standin/stats").json()
    assert (after["reads"] - before["reads"], after["writes"] - before["writes"]) == (2, 1)


def test_a_watched_page_reads_itself_again_and_holds_no_box(
    github: StandIn, recording: Recording, opened: int
) -> None:
    page = f"{github.url}/{recording.repository}/pull/{opened}"
    sent = httpx.post(f"{page}/comment", data={"user": "owner-02", "body": "hello"})
    assert (sent.status_code, sent.headers["Location"]) == (
        303,
        f"/{recording.repository}/pull/{opened}?watch=1#end",
    )
    watched, plain = httpx.get(f"{page}?watch=1").text, httpx.get(page).text
    assert 'http-equiv="refresh"' in watched
    assert "<textarea" not in watched
    assert 'http-equiv="refresh"' not in plain
    assert "<textarea" in plain
    assert "<p>hello</p>" in watched
