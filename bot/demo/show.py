"""Prints the thread: each comment and check as it comes, and all of it as it stands in the end."""

import threading
from collections.abc import Callable

from bot.demo.github.state import Comment
from bot.demo.replay import marker_of
from bot.demo.world import EmbeddedWorld

LOOK_EVERY_S = 0.2
RULE = "─" * 72


class Watcher:
    """Watches the stand-in from a thread and tells of every comment, edit and check run of the bot's."""

    def __init__(self, world: EmbeddedWorld, say: Callable[[str], None]) -> None:
        self.world = world
        self.say = say
        self._stopped = threading.Event()
        self._bodies = {comment.id: comment.body for comment in self._comments()}
        self._checks = {run.id: run.title for run in world.github.state.check_runs.values()}
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def __enter__(self) -> "Watcher":
        """Begin to watch."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, after one last look."""
        self._stopped.set()
        self._thread.join(timeout=5)
        self._look()

    def _comments(self) -> list[Comment]:
        numbers = [pull.number for pull in list(self.world.github.state.pulls())]
        return [comment for number in numbers for comment in self.world.github.bot_comments(number)]

    def _watch(self) -> None:
        while not self._stopped.wait(LOOK_EVERY_S):
            self._look()

    def _look(self) -> None:
        for comment in self._comments():
            if self._bodies.get(comment.id) != comment.body:
                verb = "edits" if comment.id in self._bodies else "writes"
                self._bodies[comment.id] = comment.body
                self.say(
                    f"{verb} its {marker_of(comment.body)} comment on #{comment.number}: {gist(comment.body)}"
                )
        for run in list(self.world.github.state.check_runs.values()):
            if self._checks.get(run.id) != run.title:
                self._checks[run.id] = run.title
                self.say(
                    f"sets the check {run.name} on {run.head_sha[:10]}: "
                    f"{run.conclusion or run.status}, {run.title}"
                )


def gist(body: str) -> str:
    """Return the first words of a comment that are no marker."""
    lines = (line.strip("# *_") for line in body.splitlines() if not line.startswith("<!--"))
    line = next((line for line in lines if line), "")
    return line if len(line) <= 120 else f"{line[:119]}…"


def thread(world: EmbeddedWorld) -> str:
    """Return the whole of what the bot wrote, with the checks, as text."""
    parts = []
    for pull in world.github.state.pulls():
        parts += [
            RULE,
            f"#{pull.number} {pull.title}",
            f"{world.github.url}/{world.github.state.full_name}/pull/{pull.number}",
        ]
        if pull.requested:
            parts.append(f"review asked of: {', '.join(pull.requested)}")
        for comment in world.github.bot_comments(pull.number):
            parts += [RULE, f"[{marker_of(comment.body)}]", *comment.body.splitlines()[1:]]
        reviews = [one for one in world.github.state.reviews.values() if one.number == pull.number]
        for review in reviews:
            if review.user.endswith("[bot]"):
                parts += [RULE, "[review]", review.body]
        checks = world.github.state.checks_of(pull.head_sha)
        parts += [RULE, *(f"check {run.name}: {run.conclusion or run.status}, {run.title}" for run in checks)]
    return "\n".join(parts)


def goodbye(world: EmbeddedWorld) -> str:
    """Return where to go on, and three things to try."""
    fix = world.recording.fix.number
    page = f"{world.github.url}/{world.github.state.full_name}/pull/{fix}"
    return "\n".join(
        [
            RULE,
            f"The pull request: {page}",
            f"The dashboard:    {world.address.service}/",
            "Three things to try in the comment box of the pull request:",
            "  @prgate why                    what was decided here, with its evidence",
            "  @prgate bench 512x512_steps20  measure this head against its merge base",
            "  @prgate help                   everything else it understands",
        ]
    )
