"""What must hold in the end, however much was killed: all done, each effect once, the same words as ever."""

import re
from collections import Counter
from dataclasses import dataclass

from sqlalchemy import select

from bot.db.models import Decision, Delivery, DeliveryState, Job, JobState, Run
from bot.demo.github.state import Comment
from tests.faults.world import FaultWorld, arrived

URL = re.compile(r"http://127\.0\.0\.1:\d+")
SHORT_MARKER = re.compile(r"^<!-- prgate:([\w:-]+) -->")
# An answer names the head of its moment, which a push may come before or after.
HEAD = re.compile(r"Commit `[0-9a-f]{12}`")
# A measurement says other figures each time; that there is one and how it stands must not differ.
FIGURES = ("perf",)


@dataclass(frozen=True)
class Outcome:
    """What people see in the end: by pull request and marker, and who was asked."""

    comments: dict[tuple[int, str], str]
    reviewers: dict[int, tuple[str, ...]]
    checks: dict[tuple[str, str], str]
    wishes: dict[int, int]


def outcome(world: FaultWorld) -> Outcome:
    """Return what the replay came to, without what differs from one replay to the next by nature."""
    numbers = [pull.number for pull in world.github.state.pulls()]
    said = [(number, one) for number in numbers for one in world.github.bot_comments(number)]
    with world.sessions() as session:
        asks = session.scalars(select(Decision).where(Decision.kind == "ask").order_by(Decision.id)).all()
    return Outcome(
        comments={marked(world, number, one): words(world, number, one) for number, one in said},
        reviewers={n: tuple(sorted(world.github.hub.require_pull(n).requested)) for n in numbers},
        checks={(run.name, run.head_sha): f"{run.status}" for run in world.github.state.check_runs.values()},
        wishes={row.number: int(row.value["count"]) for row in asks},
    )


def marked(world: FaultWorld, number: int, comment: Comment) -> tuple[int, str]:
    """Return pull request and marker of a comment; an answer's names the place of what it answers."""
    found = SHORT_MARKER.match(comment.body)
    assert found is not None, comment.body[:100]
    return number, known_ids(world, number, found[1])


def words(world: FaultWorld, number: int, comment: Comment) -> str:
    """Return a comment's text with ids and addresses made equal; of a measurement only its first words."""
    marker = marked(world, number, comment)[1]
    if marker in FIGURES:
        return comment.body.splitlines()[1].partition(":")[0]
    body = URL.sub("URL", comment.body)
    if marker.startswith("answer:"):
        body = HEAD.sub("Commit X", body)
    return known_ids(world, number, body)


def known_ids(world: FaultWorld, number: int, text: str) -> str:
    """Replace the ids of people's comments by their places in the thread."""
    people = [one for one in world.github.state.comments_of(number) if not one.user.endswith("[bot]")]
    for place, one in enumerate(people):
        text = re.sub(rf"\b{one.id}\b", f"comment-{place}", text)
    return text


def doubled(world: FaultWorld) -> list[str]:
    """Return what GitHub was asked to create more than once, or to write although it stood there."""
    counts = Counter(world.github.state.made)
    twice = [f"{what} ({count} times)" for what, count in counts.items() if count > 1]
    idle = [what for what in counts if what.startswith("edit without a change")]
    with world.sessions() as session:
        kinds = Counter(session.scalars(select(Decision.kind).where(Decision.kind.startswith("cmd:"))))
        runs = Counter((run.number, run.head_sha, run.requested_by) for run in session.scalars(select(Run)))
    rows = [f"decision {kind} ({count} times)" for kind, count in kinds.items() if count > 1]
    measured = [f"run for #{key[0]} ({count} times)" for key, count in runs.items() if count > 1]
    return [*twice, *idle, *rows, *measured]


def undone(world: FaultWorld) -> list[str]:
    """Return deliveries that are not done and jobs that were given up."""
    with world.sessions() as session:
        left = session.scalars(select(Delivery).where(Delivery.state != DeliveryState.DONE))
        unfinished = {row.guid: row.state.value for row in left}
        dead = session.scalars(select(Job).where(Job.state == JobState.DEAD)).all()
    never = [one for one in world.github.state.deliveries if not arrived(one)]
    return [
        *(f"delivery {one.event} {one.guid} was answered {one.status_code}" for one in never),
        *(f"delivery {guid} is {state}" for guid, state in unfinished.items()),
        *(f"job {job.verb} #{job.number}: {job.error}" for job in dead),
    ]


def differences(found: Outcome, wanted: Outcome) -> list[str]:
    """Return how two outcomes differ, in words."""
    lines = []
    for name in ("comments", "reviewers", "checks", "wishes"):
        left, right = getattr(found, name), getattr(wanted, name)
        for key in sorted({*left, *right}, key=str):
            if left.get(key) != right.get(key):
                lines.append(f"{name} {key}: {left.get(key)!r} instead of {right.get(key)!r}")
    return lines
