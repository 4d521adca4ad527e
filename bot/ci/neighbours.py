"""What GitHub itself knows around a red head: other red pull requests, issues about CI, commit times."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any, Protocol

from bot.ci.providers.reads import GitHubReads, Sighting, UnreadableError
from bot.ci.snapshot import Job, KnownIssue, OtherPull, SnapshotFile
from bot.facts import PullFacts

MOST_OTHERS = 8
MOST_FILES = 300
MOST_COMMITS = 250
MOST_ISSUES = 100
MOST_ASKED = 40  # commits whose pull request is asked for


class Notes(Protocol):
    """Takes what a reader must know."""

    def note(self, says: str) -> None:
        """Remember a sentence."""


class Neighbours:
    """Reads other pull requests around one. `with_logs` fills in what their red jobs say."""

    def __init__(
        self, github: GitHubReads, facts: PullFacts, with_logs: Callable[[Iterable[Sighting]], Iterator[Job]]
    ) -> None:
        self.github = github
        self.facts = facts
        self.with_logs = with_logs
        self._pulls_of: dict[str, int | None] = {}

    def around(self, red: Sequence[Sighting], found: Iterable[Sighting]) -> Iterator[OtherPull]:
        """Yield the other pull requests among `found`, those first whose red jobs are red here too."""
        names = {one.job.name for one in red}
        groups: dict[int, list[Sighting]] = {}
        for one in found:
            number = None if one.replaced or one.sha == self.facts.target.head_sha else self.number_of(one)
            if number is not None and number != self.facts.target.number:
                groups.setdefault(number, []).append(one)

        def unlike(number: int) -> bool:
            return not any(one.job.is_failure and one.job.name in names for one in groups[number])

        own = self.commits_of(self.facts.target.number) if groups else None
        for number in sorted(groups, key=unlike)[:MOST_OTHERS]:
            yield self.other(number, groups[number], own)

    def number_of(self, one: Sighting) -> int | None:
        """Return whose build it was; a fork's run does not say it, so GitHub is asked for the commit."""
        if one.pull is not None:
            return one.pull
        if one.sha not in self._pulls_of:
            self._pulls_of[one.sha] = self.ask_number(one.sha)
        return self._pulls_of[one.sha]

    def named(self, found: Iterable[Sighting]) -> list[Sighting]:
        """Return those whose pull request GitHub had to be asked for, with its number."""
        return [replace(one, pull=self._pulls_of[one.sha]) for one in found if self._pulls_of.get(one.sha)]

    def ask_number(self, sha: str) -> int | None:
        """Ask GitHub whose head a commit is, a limited number of times."""
        return None if len(self._pulls_of) >= MOST_ASKED else pull_of(self.github, sha)

    def other(self, number: int, found: Sequence[Sighting], own: frozenset[str] | None) -> OtherPull:
        """Return one other pull request with the red jobs of its newest build."""
        sha = found[0].sha
        try:
            pull = self.github.get(f"/pulls/{number}") or {}
            files = list(islice(self.github.pages(f"/pulls/{number}/files"), MOST_FILES)) if pull else None
        except UnreadableError:
            pull, files = {}, None
        return OtherPull(
            number=number,
            author=(pull.get("user") or {}).get("login"),
            head_sha=sha,
            ran_at=found[0].created_at,
            stacked_on_this=self.is_stacked(number, pull, own),
            changed_files=None
            if files is None or len(files) >= MOST_FILES
            else tuple(SnapshotFile(path=one["filename"]) for one in files),
            jobs=tuple(self.with_logs(one for one in found if one.sha == sha)),
        )

    def is_stacked(self, number: int, pull: Mapping[str, Any], own: frozenset[str] | None) -> bool | None:
        """Say whether they share commits, or the other goes into another branch; None: not known."""
        base_ref = (pull.get("base") or {}).get("ref")
        if base_ref is None or own is None:
            return None
        if base_ref != self.facts.base_ref:
            return True
        theirs = self.commits_of(number)
        return None if theirs is None else bool(own & theirs)

    def commits_of(self, number: int) -> frozenset[str] | None:
        """Return the commits of a pull request; None where they cannot be read to their end."""
        try:
            found = list(islice(self.github.pages(f"/pulls/{number}/commits"), MOST_COMMITS))
        except UnreadableError:
            return None
        if not found or len(found) >= MOST_COMMITS:
            return None
        return frozenset(str(one["sha"]) for one in found)


def pull_of(github: GitHubReads, sha: str) -> int | None:
    """Return whose head a commit is; None where it is nobody's, several people's or unreadable."""
    try:
        pulls = [one for one in github.get(f"/commits/{sha}/pulls") or () if one]
    except UnreadableError:
        return None
    numbers = [int(pull["number"]) for pull in pulls if (pull.get("head") or {}).get("sha") == sha]
    return numbers[0] if len(numbers) == 1 else None


def known_issues(github: GitHubReads, notes: Notes, labels: Sequence[str]) -> tuple[KnownIssue, ...]:
    """Return the issues that carry a label for failures of CI, the latest of each label first."""
    found: dict[int, KnownIssue] = {}
    try:
        for label in labels:
            asked = {"labels": label, "state": "all", "sort": "updated"}
            for one in islice(github.pages("/issues", asked), MOST_ISSUES):
                if not one.get("pull_request"):
                    found.setdefault(one["number"], issue_part(one))
    except UnreadableError as error:
        notes.note(f"issues could not be read ({error.status})")
    return tuple(found.values())


def issue_part(one: Mapping[str, Any]) -> KnownIssue:
    """Return an issue as the snapshot holds it."""
    labels = [label["name"] for label in one.get("labels") or () if isinstance(label, dict)]
    return KnownIssue.model_validate({**one, "url": one.get("html_url"), "labels": labels})


def commit_time(github: GitHubReads, sha: str) -> datetime | None:
    """Return when a commit was made; None where GitHub does not say."""
    try:
        found = github.get(f"/commits/{sha}") or {}
    except UnreadableError:
        return None
    date = ((found.get("commit") or {}).get("committer") or {}).get("date")
    return Job.model_validate({"started_at": date}).started_at
