"""`command`: a comment that speaks to the bot. Seen (a reaction), allowed or refused, done, answered."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from bot import commands, heads, permissions, rerunning, store
from bot.actions import Action, Mode, React, Record, Target, UpsertComment
from bot.bisecting import wanted
from bot.clients import Clients
from bot.commands import VERBS, Command, Said, Unread
from bot.comments import answer, help_text, misunderstanding, refusal
from bot.dispatch import Handler, JobSpec
from bot.escape import code
from bot.facts import CommentView
from bot.gathering import Look, look_at
from bot.github import RepoClient
from bot.handlers.commands import ANSWERS
from bot.handlers.commands.bench import split_revision
from bot.handlers.commands.shared import CommandFacts, Reply, says
from bot.handlers.perf import read_runs
from bot.markdown import READ_LIMIT
from bot.pulls import comment_view, merge_base, when
from bot.review import review
from bot.review_note import review_request

Kind = Literal["issue", "diff", "review"]
KINDS = ("route", "priority", "override", "ci", "perf", "ask", "skip", "retry")
# What runs this very head on our machines, and so needs a word about it.
RUNS = frozenset({"bench", "bisect", "more", "settle"})
REVISION = re.compile(r"(?!-)(?!.*\.\.)[\w./-]{1,250}")
ON_CLOSED = frozenset({"help", "why"})
WHEN_PAUSED = frozenset({"help", "resume"})


@dataclass(frozen=True, slots=True)
class Spoken:
    """The comment of a job, and by whom and from where it came."""

    view: CommentView
    by_bot: bool


def gather(spec: JobSpec, clients: Clients) -> CommandFacts | None:
    """Read the comment again, parse it, and read what its commands need. None where it says nothing to us."""
    kind, _, number = spec.subject.partition(":")
    if spec.number is None or not number.isdigit():
        return None
    spoken = read_comment(clients.github, kind, spec.number, int(number))
    if spoken is None or spoken.by_bot or spoken.view.ours:
        return None
    look = look_at(spec, clients, KINDS)
    if look is None or is_known_bot(spoken.view.author, look):
        return None
    done = commands_done(spec, int(number), clients)
    own = (*look.own_bodies, help_text(look.frame))
    said = tuple(
        one for one in commands.parse(spoken.view.body, look.facts.handles, own) if name_of(one) not in done
    )
    if not said:
        return None
    facts = CommandFacts(
        look=look,
        comment_id=int(number),
        kind=kind,
        author=spoken.view.author,
        level=permissions.level(clients, spoken.view.author),
        said=said,
        done=done,
    )
    return enrich(facts, spoken.view, spec, clients)


def read_comment(client: RepoClient, kind: str, pull: int, comment_id: int) -> Spoken | None:
    """Return the comment as it is now; None where it was deleted."""
    paths = {
        "issue": f"/issues/comments/{comment_id}",
        "diff": f"/pulls/comments/{comment_id}",
        "review": f"/pulls/{pull}/reviews/{comment_id}",
    }
    item = client.get(paths[kind]) if kind in paths else None
    if item is None:
        return None
    stamped = {**item, "created_at": item.get("created_at") or item.get("submitted_at")}
    by_bot = (item.get("user") or {}).get("type") == "Bot" or bool(item.get("performed_via_github_app"))
    return Spoken(comment_view(stamped, client.who.login), by_bot)


def is_known_bot(login: str, look: Look) -> bool:
    """Say whether the repository lists a plain account as a robot: it gives no commands."""
    bots = {name.casefold().removeprefix("@") for name in look.config.routing.bots}
    return login.casefold() in bots


def commands_done(spec: JobSpec, comment_id: int, clients: Clients) -> tuple[str, ...]:
    """Return the commands that this comment gave already: an edit only adds."""
    assert spec.number is not None
    with clients.sessions() as session:
        value = store.latest_value(session, spec.repo_id, spec.number, row_kind(comment_id))
    return tuple(value.get("commands", ()))


def row_kind(comment_id: int) -> str:
    """Return the kind under which a comment's commands are kept."""
    return f"cmd:{comment_id}"


def name_of(said: Said) -> str:
    """Return a command (or what was not understood or read) as text, to know it again."""
    if isinstance(said, Unread):
        return f"?? {said.line}"
    return f"{said.verb} {said.text}".strip() if isinstance(said, Command) else f"? {said.said}"


def enrich(facts: CommandFacts, spoken: CommentView, spec: JobSpec, clients: Clients) -> CommandFacts:
    """Read what the given commands need beyond the pull request itself, and only if they may be given."""
    given = {one.verb: one for one in facts.said if isinstance(one, Command) and allowed(one, facts)}
    if facts.look.facts.state != "open":
        return facts
    if given.keys() & {"more", "cancel"}:
        facts = replace(facts, runs=read_runs(spec, clients))
    if given.keys() & RUNS:
        facts = with_head(facts, spoken, clients)
    facts = replace(facts, revisions=resolved(revisions_in(given), clients.github))
    if "retry" in given:
        facts = replace(facts, red_jobs=rerunning.red_jobs(facts.look, clients))
    return with_review(facts) if "review" in given else facts


def with_head(facts: CommandFacts, spoken: CommentView, clients: Clients) -> CommandFacts:
    """Add the merge base, and whether the head was there when the comment was written."""
    target = facts.look.facts.target
    with clients.sessions() as session:
        head = heads.arrival(session, target.repo_id, target.number, target.head_sha)
    committed = None if head.known else commit_date(clients.github, target.head_sha)
    base = merge_base(clients.github, facts.look.facts.base_sha, target.head_sha)
    there = heads.was_there(head, committed, spoken.created_at)
    return replace(facts, head_was_there=there, merge_base_sha=base)


def commit_date(client: RepoClient, sha: str) -> datetime | None:
    """Return the date that a commit claims."""
    found = client.get(f"/commits/{sha}")
    stamp = (((found or {}).get("commit") or {}).get("committer") or {}).get("date")
    return when(stamp) if stamp else None


def revisions_in(given: Mapping[str, Command]) -> tuple[str, ...]:
    """Return the revisions that commands name."""
    third = split_revision(given["bench"].words)[1] if "bench" in given else None
    ends = wanted(given["bisect"].words).revisions if "bisect" in given else ()
    return (*((third,) if third else ()), *ends)


def resolved(revisions: Sequence[str], client: RepoClient) -> dict[str, str]:
    """Return the commits of named revisions; those that are none are left out."""
    found = {one: client.get(f"/commits/{one}") for one in revisions if REVISION.fullmatch(one)}
    return {one: str(commit["sha"]) for one, commit in found.items() if commit and commit.get("sha")}


def with_review(facts: CommandFacts) -> CommandFacts:
    """Add what the automated review finds."""
    try:
        return replace(facts, review=review(review_request(facts.look.facts)))
    except ValueError as error:
        return replace(
            facts, review_problem=f"The diff could not be read: {' '.join(str(error).split())[:200]}."
        )


def asked_people(memory: Mapping[str, Any], requested: Sequence[str]) -> tuple[str, ...]:
    """Return who was asked for a review here, by us or by GitHub."""
    return (*memory.get("ask", ()), *requested)


def allowed(command: Command, facts: CommandFacts) -> bool:
    """Say whether the comment's author may give the command."""
    pull = facts.look.facts
    asked = asked_people(facts.memory("route"), pull.requested_reviewers)
    return permissions.allows(VERBS[command.verb].who, facts.author, facts.level, pull.author, asked)


def decide(facts: CommandFacts, now: datetime) -> list[Action]:
    """Return the reaction, what the commands do, and one answer to the comment: pure."""
    if facts.look.config_problems:
        return []
    replies = [reply(one, facts, now) for one in facts.said]
    paragraphs = tuple(paragraph for one in replies for paragraph in one.paragraphs)
    actions: list[Action] = seen(facts)
    actions += [action for one in replies for action in one.actions]
    if paragraphs:
        marker = f"answer:{facts.comment_id}" + (f":{len(facts.done)}" if facts.done else "")
        actions.append(UpsertComment(marker, answer(marker, facts.look.frame, paragraphs)))
    names = [*facts.done, *(name_of(one) for one in facts.said)]
    return [*actions, Record(row_kind(facts.comment_id), {"commands": names, "by": facts.author})]


def seen(facts: CommandFacts) -> list[Action]:
    """Return the reaction that says "seen"; GitHub takes none on a review's text."""
    if facts.kind == "review":
        return []
    return [React(facts.comment_id, "eyes", review_comment=facts.kind == "diff")]


def reply(said: Said, facts: CommandFacts, now: datetime) -> Reply:
    """Return the answer to one line."""
    frame = facts.look.frame
    if isinstance(said, Unread):
        return says(too_far_down(said))
    if not isinstance(said, Command):
        return says(misunderstanding(frame, said.said, said.suggestion))
    if not allowed(said, facts):
        return says(refusal(frame, said.verb, VERBS[said.verb].who.value, facts.level))
    if facts.look.facts.state != "open" and said.verb not in ON_CLOSED:
        return says("This pull request is closed.")
    if facts.look.paused and said.verb not in WHEN_PAUSED:
        return says(f"I am paused here; `{facts.at} resume` comes first.")
    return ANSWERS[said.verb](facts, said, now)


def too_far_down(said: Unread) -> str:
    """Return what is said of a command behind the limit."""
    return (
        f"{code(said.line)} stands behind the first {READ_LIMIT:,} characters of the comment, and no further "
        "does anybody read one for commands: say it in a comment of its own."
    )


def target(facts: CommandFacts) -> Target:
    """Return the target: a paused bot answers who speaks to it, an opted-out pull request stays silent."""
    found = facts.look.target
    mode = facts.look.config.mode
    return found if facts.look.opted_out or mode is Mode.SHADOW else replace(found, mode=mode)


HANDLER = Handler("command", gather, decide, target)
