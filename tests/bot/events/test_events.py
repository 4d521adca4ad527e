"""Payloads as GitHub sends them -> typed events -> the jobs they ask for."""

from typing import Any

import pytest

from bot.dispatch import jobs_for
from bot.events import CommentEvent, Event, MalformedPayload, PullRequestEvent, ReviewEvent, ShaEvent, parse

REPO = {
    "id": 7,
    "full_name": "org/name",
    "default_branch": "main",
    "private": False,
    "owner": {"login": "org"},
}
PERSON = {"login": "author-01", "type": "User"}
BASE: dict[str, Any] = {"repository": REPO, "sender": PERSON, "installation": {"id": 99}}
PULL = {"number": 1, "draft": False, "user": PERSON, "head": {"sha": "a" * 40}, "base": {"sha": "b" * 40}}


def pull_request(action: str) -> dict[str, Any]:
    return {**BASE, "action": action, "number": 1, "pull_request": PULL}


def issue_comment(body: str, action: str = "created", **comment: Any) -> dict[str, Any]:
    issue = {"number": 1, "pull_request": {"url": "…"}}
    return {
        **BASE,
        "action": action,
        "issue": issue,
        "comment": {"id": 5, "body": body, "user": PERSON, "performed_via_github_app": None, **comment},
    }


def verbs(event: Event, **options: Any) -> list[str]:
    return [job.verb for job in jobs_for(event, **options)]


def test_a_pull_request_is_looked_at_from_all_four_sides() -> None:
    event = parse("pull_request", pull_request("opened"))
    assert isinstance(event, PullRequestEvent)
    assert (event.number, event.sha, event.installation_id) == (1, "a" * 40, 99)
    jobs = jobs_for(event)
    assert [job.verb for job in jobs] == ["route", "triage", "ci", "perf"]
    assert {job.dedupe_key for job in jobs} == {"route:7:1", "triage:7:1", "ci:7:1", "perf:7:1"}
    assert verbs(parse("pull_request", pull_request("closed"))) == ["closed"]
    assert verbs(parse("pull_request", pull_request("milestoned"))) == []


def test_a_comment_with_a_mention_is_a_command_once_and_an_edit_is_another_look() -> None:
    created = jobs_for(parse("issue_comment", issue_comment("@prgate bench")))
    again = jobs_for(parse("issue_comment", issue_comment("@prgate bench")))
    edited = jobs_for(parse("issue_comment", issue_comment("@prgate bench\n@prgate why", "edited")))
    assert [job.verb for job in created] == ["command", "route"]
    assert created[0].subject == "issue:5"
    assert created[0].dedupe_key == again[0].dedupe_key == "command:issue:5"
    assert edited[0].subject == "issue:5"
    assert edited[0].dedupe_key not in (None, "command:issue:5")


def test_a_comment_without_a_mention_only_asks_for_a_look_at_the_routing() -> None:
    assert verbs(parse("issue_comment", issue_comment("LGTM"))) == ["route"]


def test_a_claim_about_a_red_check_is_a_reason_to_look_at_ci_again() -> None:
    assert verbs(parse("issue_comment", issue_comment("That failure is unrelated."))) == ["route", "ci"]


@pytest.mark.parametrize(
    "comment",
    [{"user": {"login": "other[bot]", "type": "Bot"}}, {"performed_via_github_app": {"slug": "other"}}],
)
def test_bots_give_no_commands(comment: dict[str, Any]) -> None:
    assert verbs(parse("issue_comment", issue_comment("@prgate bench", **comment))) == []


def test_what_we_do_ourselves_asks_for_nothing() -> None:
    event = parse("issue_comment", issue_comment("@prgate bench"))
    assert verbs(event, own_logins={"author-01"}) == []
    status = {**BASE, "sha": "c" * 40, "context": "prgate/perf", "state": "success"}
    assert verbs(parse("status", status)) == []


def test_a_comment_on_a_plain_issue_is_nobodys_business() -> None:
    payload = issue_comment("@prgate bench")
    payload["issue"] = {"number": 1}
    assert jobs_for(parse("issue_comment", payload)) == []


def test_reviews_and_remarks_on_the_diff_carry_commands_too() -> None:
    review = {"id": 8, "body": "@prgate bench", "state": "approved", "user": PERSON}
    event = parse(
        "pull_request_review", {**BASE, "action": "submitted", "pull_request": PULL, "review": review}
    )
    assert isinstance(event, ReviewEvent)
    assert event.state == "APPROVED"
    assert [job.verb for job in jobs_for(event)] == ["command", "route", "triage"]
    remark = {"id": 9, "body": "@prgate why", "user": PERSON}
    remarked = {**BASE, "action": "created", "pull_request": PULL, "comment": remark}
    diff = parse("pull_request_review_comment", remarked)
    assert isinstance(diff, CommentEvent)
    assert jobs_for(diff)[0].subject == "diff:9"


SHA_EVENTS = {
    "status": {"sha": "c" * 40, "context": "buildkite/name", "state": "failure"},
    "check_run": {
        "check_run": {"head_sha": "c" * 40, "name": "test", "status": "completed", "pull_requests": []}
    },
    "check_suite": {"check_suite": {"head_sha": "c" * 40, "status": "completed", "app": {"slug": "x"}}},
    "workflow_run": {"workflow_run": {"head_sha": "c" * 40, "name": "ci", "status": "completed"}},
}


@pytest.mark.parametrize("name", SHA_EVENTS)
def test_events_about_a_commit_are_expanded_to_its_pull_requests(name: str) -> None:
    event = parse(name, {**BASE, "action": "completed", **SHA_EVENTS[name]})
    assert isinstance(event, ShaEvent)
    (job,) = jobs_for(event)
    assert (job.verb, job.number, job.subject) == ("expand", None, "sha:" + "c" * 40)


def test_a_push_to_a_branch_and_a_changed_issue_are_expanded() -> None:
    push = {**BASE, "ref": "refs/heads/main", "after": "d" * 40, "deleted": False}
    assert jobs_for(parse("push", push))[0].subject == "branch:main"
    assert jobs_for(parse("push", {**push, "ref": "refs/tags/v1"})) == []
    assert jobs_for(parse("push", {**push, "deleted": True})) == []
    labelled = {**BASE, "action": "labeled", "issue": {"number": 7780}}
    assert jobs_for(parse("issues", labelled))[0].subject == "issue:7780"
    assert jobs_for(parse("issues", {**labelled, "action": "pinned"})) == []


def test_a_merge_group_is_answered_on_its_own_commit() -> None:
    group = {"head_sha": "e" * 40, "head_ref": "refs/heads/gh-readonly-queue/main/pr-1-abc"}
    event = parse("merge_group", {**BASE, "action": "checks_requested", "merge_group": group})
    assert jobs_for(event)[0].subject == f"group:{'e' * 40}:refs/heads/gh-readonly-queue/main/pr-1-abc"


def test_installations_bring_and_take_repositories() -> None:
    payload = {"action": "created", "installation": {"id": 99}, "sender": PERSON, "repositories": [REPO]}
    (job,) = jobs_for(parse("installation", payload))
    assert (job.verb, job.repo_id, job.subject) == ("installed", 7, "added:99:org/name")
    gone = {**payload, "action": "removed", "repositories_removed": [REPO], "repositories_added": []}
    (job,) = jobs_for(parse("installation_repositories", gone))
    assert job.subject == "removed:99:org/name"


def test_an_unknown_event_is_nothing_and_new_keys_do_not_matter() -> None:
    assert jobs_for(parse("sponsorship", {"action": "created", "repository": "strange"})) == []
    payload = pull_request("opened")
    payload["pull_request"] = {**PULL, "invented_next_year": {"deep": [1]}}
    assert parse("pull_request", payload).number == 1


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("pull_request", {}),
        ("pull_request", {**BASE, "action": "opened", "pull_request": {"number": "x"}}),
        ("pull_request", {**BASE, "action": "opened", "pull_request": None}),
        ("issue_comment", {**BASE, "action": "created", "issue": []}),
        ("status", {**BASE, "repository": {"id": -1, "full_name": "org/name"}, "sha": "c"}),
        ("status", {**BASE, "repository": {"id": 7, "full_name": "../../etc"}, "sha": "c"}),
        ("push", {**BASE, "ref": None}),
        ("push", {**BASE, "repository": {**REPO, "id": 2**63}, "ref": "refs/heads/main"}),
        ("push", {**BASE, "installation": {"id": 2**63}, "ref": "refs/heads/main"}),
        ("issues", {**BASE, "issue": {"number": 2**31}}),
        ("pull_request", {**BASE, "action": "opened", "pull_request": {**PULL, "number": 2**31}}),
        ("pull_request_review", {**BASE, "pull_request": PULL, "review": {"id": 2**63}}),
        ("installation", {"action": "created", "installation": {"id": 1}, "repositories": [{"id": 0}]}),
    ],
)
def test_a_broken_payload_is_refused_in_one_line_without_echoing_it(
    name: str, payload: dict[str, Any]
) -> None:
    with pytest.raises(MalformedPayload) as refused:
        parse(name, payload)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith(f"{name}: ")
