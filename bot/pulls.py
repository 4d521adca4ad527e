"""Reads a pull request as it stands now: GitHub's JSON -> `PullFacts`. Never trusts an event's copy."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from bot.actions import Mode, Target
from bot.facts import CommentView, FileChange, IssueLink, PullFacts, ReviewView
from bot.github import RepoClient

CLOSES = re.compile(
    r"\b(?:fix(?:es|ed)?|close[sd]?|resolve[sd]?)\s*:?\s+(?:[\w.-]+/[\w.-]+)?#(\d{1,9})\b", re.I
)
IN_TITLE = re.compile(r"\(#(\d{1,9})\)")
MOST_LINKED = 5
READ_BODY = 65_536
MOST_COMMENTS = 1_000


def read_pull(client: RepoClient, repo_id: int, number: int, installation_id: int | None) -> PullFacts | None:
    """Return the pull request with its files, comments, reviews and linked issues; None where it is gone."""
    pull = client.pull(number)
    if pull is None:
        return None
    files = read_files(client, pull)
    return PullFacts(
        target=Target(repo_id, client.full_name, number, pull["head"]["sha"], installation_id, Mode.COMMENT),
        title=pull.get("title") or "",
        body=(pull.get("body") or "")[:READ_BODY],
        author=login_of(pull),
        author_association=pull.get("author_association") or "NONE",
        state="open" if pull.get("state") == "open" else "closed",
        merged=bool(pull.get("merged")),
        draft=bool(pull.get("draft")),
        labels=tuple(label["name"] for label in pull.get("labels") or ()),
        base_ref=pull["base"]["ref"],
        base_sha=pull["base"]["sha"],
        created_at=when(pull.get("created_at")),
        updated_at=when(pull.get("updated_at")),
        commits=pull.get("commits") or 0,
        mergeable=pull.get("mergeable"),
        files=files,
        files_complete=len(files) >= (pull.get("changed_files") or len(files)),
        linked_issues=tuple(read_linked(client, pull)),
        requested_reviewers=requested(pull),
        reviews=tuple(review_view(item) for item in client.pages(f"/pulls/{number}/reviews")),
        comments=tuple(read_comments(client, number)),
        bot_login=client.who.login,
        handles=(client.who.handle,),
    )


def read_files(client: RepoClient, pull: Mapping[str, Any]) -> tuple[FileChange, ...]:
    """Return the changed files (GitHub lists at most 3,000): they follow from base and head."""
    number = pull["number"]

    def read() -> tuple[FileChange, ...]:
        return tuple(file_change(item) for item in client.pages(f"/pulls/{number}/files"))

    found: tuple[FileChange, ...] = client.lasting(
        f"files:{number}", pull["base"]["sha"], pull["head"]["sha"], read=read
    )
    return found


def head_of(client: RepoClient, number: int) -> tuple[str, bool] | None:
    """Return the pull request's head now and whether it is open; None where it is gone."""
    pull = client.pull(number)
    return (pull["head"]["sha"], pull.get("state") == "open") if pull else None


def when(stamp: str | None) -> datetime:
    """Return GitHub's time as an aware UTC one; the epoch where there is none."""
    if not stamp:
        return datetime.fromtimestamp(0, UTC)
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).astimezone(UTC)


def login_of(item: Mapping[str, Any]) -> str:
    """Return who wrote it; a deleted account is `ghost`."""
    return str((item.get("user") or {}).get("login") or "ghost")


def file_change(item: Mapping[str, Any]) -> FileChange:
    """Return one changed file."""
    return FileChange(
        path=item["filename"],
        status=item.get("status") or "modified",
        additions=item.get("additions") or 0,
        deletions=item.get("deletions") or 0,
        previous_path=item.get("previous_filename"),
        patch=item.get("patch"),
    )


def requested(pull: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the people and teams (`team:slug`) whose review is requested now."""
    people = [person["login"] for person in pull.get("requested_reviewers") or ()]
    return (*people, *(f"team:{team['slug']}" for team in pull.get("requested_teams") or ()))


def read_linked(client: RepoClient, pull: Mapping[str, Any]) -> Iterable[IssueLink]:
    """Yield the issues that the description closes or the title names, with their labels."""
    found = CLOSES.findall((pull.get("body") or "")[:READ_BODY]) + IN_TITLE.findall(pull.get("title") or "")
    for number in list(dict.fromkeys(int(one) for one in found))[:MOST_LINKED]:
        issue = client.get(f"/issues/{number}")
        if issue and not issue.get("pull_request"):
            labels = tuple(label["name"] for label in issue.get("labels") or ())
            yield IssueLink(number, issue.get("title") or "", labels, issue.get("state") == "open")


def read_comments(client: RepoClient, number: int) -> list[CommentView]:
    """Return the conversation's comments, oldest first (at most `MOST_COMMENTS`)."""
    found = []
    for item in client.pages(f"/issues/{number}/comments"):
        found.append(comment_view(item, client.who.login))
        if len(found) >= MOST_COMMENTS:
            break
    return found


def comment_view(item: Mapping[str, Any], own_login: str) -> CommentView:
    """Return one comment; `ours` is decided by its author alone, since anybody can paste a marker."""
    author = login_of(item)
    return CommentView(
        comment_id=item["id"],
        author=author,
        body=item.get("body") or "",
        created_at=when(item.get("created_at")),
        association=item.get("author_association") or "NONE",
        ours=author.casefold() == own_login.casefold(),
        url=item.get("html_url"),
    )


def review_view(item: Mapping[str, Any]) -> ReviewView:
    """Return one submitted review."""
    submitted = item.get("submitted_at")
    return ReviewView(
        author=login_of(item),
        state=(item.get("state") or "").upper(),
        commit_sha=item.get("commit_id"),
        submitted_at=when(submitted) if submitted else None,
        body=item.get("body") or "",
    )


def merge_base(client: RepoClient, base: str, head: str) -> str | None:
    """Return the commit that base and head share; None where GitHub does not know."""
    found = client.lasting("compare", base, head, read=lambda: client.get(f"/compare/{base}...{head}"))
    return str(found["merge_base_commit"]["sha"]) if found else None
