"""Issues that track a failure: the same test and the same words, opened before the head, not fixed by it."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from bot.ci.evidence import Evidence, quote
from bot.ci.names import cousin
from bot.ci.rules.text import fixed_issues
from bot.ci.scene import Case, Scene
from bot.ci.signature import normalise
from bot.ci.snapshot import KnownIssue

Match = Literal["signature", "test", "code"]
DISABLED = re.compile(r"^\s{0,4}DISABLED (\w{1,200}) \((?:[\w.]{0,200}\.)?(\w{1,200})\)")
UNSTABLE = re.compile(r"^\s{0,4}UNSTABLE (\S.{0,400})$")
PLATFORMS = re.compile(r"^\s{0,4}Platforms?: ?(.{1,200})$", re.M | re.I)
CODE = re.compile(r"\b(?:LNK\d{4}|[A-Z]{2,8}-?\d{3,6}|E[A-Z]{4,20})\b")
MINIMUM_WORDS = 8
QUOTED_HEAD = 120
QUOTED_MINIMUM = 24
QUOTE_START = re.compile(r"[:`] {0,2}")
TEXT_LIMIT = 60_000


@dataclass(frozen=True, slots=True)
class Tracked:
    """An issue that tracks a failure, and how it was recognised."""

    issue: KnownIssue
    match: Match
    quarantine: bool = False


def tracked_by(case: Case, scene: Scene) -> tuple[Tracked, ...]:
    """Return the issues that may track a failure, the surest first."""
    pr = scene.snapshot.pr
    fixed = fixed_issues(pr.title, pr.body)
    found = []
    for issue in scene.snapshot.known_issues:
        late = not issue.created_at or not pr.head_committed_at or issue.created_at > pr.head_committed_at
        if late or issue.number in fixed:
            continue
        tracked = quarantined(case, issue) or mentioned(case, issue)
        if tracked:
            found.append(tracked)
    rank = {"signature": 0, "test": 1, "code": 2}
    return tuple(sorted(found, key=lambda one: (rank[one.match], one.issue.number or 0)))


def quarantined(case: Case, issue: KnownIssue) -> Tracked | None:
    """Recognise `DISABLED test (Class)` and `UNSTABLE job` issues.

    A quarantined job counts by its exact name only, and for the error that the issue quotes.
    """
    disabled = DISABLED.match(issue.title[:600])
    if disabled and case.failure.test:
        tail = re.split(r"::|\.", case.failure.test.partition("[")[0])
        named = tail[-1] == disabled.group(1) and (len(tail) < 2 or disabled.group(2) in tail)
        if named and on_platform(case, issue):
            return Tracked(issue, "signature" if says_signature(case, issue) else "test", quarantine=True)
    unstable = UNSTABLE.match(issue.title[:600])
    if unstable and unstable.group(1).strip() == case.job.name and says_signature(case, issue):
        return Tracked(issue, "signature", quarantine=True)
    return None


def on_platform(case: Case, issue: KnownIssue) -> bool:
    """Say whether a quarantine's list of platforms holds the job's."""
    listed = PLATFORMS.search(issue.body[:TEXT_LIMIT])
    if listed is None:
        return True
    names = listed.group(1).lower()
    platform = (case.job.platform or "").lower()
    if platform in ("rocm", "xpu", "npu"):
        return platform in names
    lower = case.job.name.lower()
    for word, listed_as in (("win", "win"), ("mac", "mac")):
        if re.search(rf"\b{word}", lower):
            return listed_as in names
    return True


def mentioned(case: Case, issue: KnownIssue) -> Tracked | None:
    """Recognise an issue by the test's name, its error's words, or an error code."""
    text = f"{issue.title}\n{issue.body[:TEXT_LIMIT]}"
    test = case.failure.test
    if test:
        name = test.rpartition("::")[2].partition("[")[0] if "::" in test else test.rpartition(" > ")[2]
        if (
            len(name) < 5
            or name[:200] not in text
            or not re.search(rf"(?<![\w]){re.escape(name[:200])}(?![\w])", text)
        ):
            return None
        return Tracked(issue, "signature" if says_signature(case, issue) else "test")
    if says_signature(case, issue) and names_job(case, text):
        return Tracked(issue, "signature")
    codes = set(CODE.findall(f"{case.failure.exception or ''} {case.failure.message}"[:2_000]))
    return Tracked(issue, "code") if codes & set(CODE.findall(text)) else None


def names_job(case: Case, text: str) -> bool:
    """Say whether an issue names the job or its step."""
    plain = cousin(text[:2_000].replace("\n", " "))
    name = cousin(case.job.name)
    return case.job.name in text or (len(name) >= MINIMUM_WORDS and name in plain)


def says_signature(case: Case, issue: KnownIssue) -> bool:
    """Say whether an issue quotes the failure's message; a generic one is never recognised."""
    signature = case.failure.signature
    if signature is None or signature.is_generic:
        return False
    message = normalise(signature.message)
    if len(message) < MINIMUM_WORDS:
        message = f"{signature.short_class}: {message}"
    if len(message) < MINIMUM_WORDS:
        return False
    lines = normal_lines(f"{issue.title}\n{issue.body[:TEXT_LIMIT]}")
    return any(message[:QUOTED_HEAD] in line or quotes_head(line, message) for line in lines)


def quotes_head(line: str, message: str) -> bool:
    """Say whether a line of an issue ends with the first words of a message: people cut what they quote."""
    for start in {0, *(found.end() for found in QUOTE_START.finditer(line))}:
        quoted = line[start:].strip("`'\" ").removesuffix("...").rstrip()
        if len(quoted) >= QUOTED_MINIMUM and message.startswith(quoted):
            return True
    return False


@lru_cache(maxsize=512)
def normal_lines(text: str) -> tuple[str, ...]:
    """Return a text's lines, each masked as messages are."""
    return tuple(normalise(line) for line in text.split("\n")[:2_000])


def known_issue(case: Case, tracked: tuple[Tracked, ...]) -> Evidence | None:
    """An open issue from before the head tracks this test with this error."""
    for one in tracked:
        if one.issue.state == "open" and one.match == "signature":
            what = "quarantines" if one.quarantine else "tracks"
            says = f"Open issue #{one.issue.number} {what} this failure: {quote(one.issue.title)}."
            return Evidence("known_issue", "strong", says, one.issue.url)
    return None


def known_test(case: Case, tracked: tuple[Tracked, ...]) -> Evidence | None:
    """An issue names this test, but not this error; it supports other evidence only."""
    for one in sorted(tracked, key=lambda one: one.issue.state != "open"):
        if one.match in ("test", "signature", "code"):
            says = (
                f"{one.issue.state.capitalize() or 'An'} issue #{one.issue.number} speaks of it: "
                f"{quote(one.issue.title)}."
            )
            return Evidence(
                "known_test", "medium" if one.issue.state == "open" else "weak", says, one.issue.url
            )
    return None
