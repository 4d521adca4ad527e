"""Plays the record: what people and CI did on the two pull requests, each step through the real webhook."""

import re
from collections.abc import Callable, Iterator

from bot.demo.children import wait_until
from bot.demo.recorded import Build, Step
from bot.demo.world import EmbeddedWorld

BOT = "prgate"
CI = "buildkite[bot]"
COMMENT_LIMIT_S = 90.0
END_LIMIT_S = 300.0  # two measurements one after the other, on a machine that may be busy
UNDECIDED = re.compile(r"^### Performance: (?:queued|being measured|could not be measured)", re.MULTILINE)
MARKER = re.compile(r"^<!-- prgate:([\w:-]+) -->")
WANTED = ("route", "triage", "ci", "perf")


class Replay:
    """Plays the record in one world. `say` is told each step as it begins."""

    def __init__(self, world: EmbeddedWorld, say: Callable[[str], None]) -> None:
        self.world = world
        self.hub = world.github.hub
        self.say = say

    def play(self, only: Callable[[Step], bool] = lambda _: True) -> None:
        """Play every step (or `only` some); an already played world is only looked at again."""
        if self.world.github.state.pull(self.world.recording.fix.number) is not None:
            self.look_again()
            return
        self.open_issue()
        verbs = {"open": self.play_open, "builds": self.play_builds, "comment": self.play_comment}
        for step in filter(only, self.world.recording.steps):
            verbs[step.kind](step)
        self.world.settle(END_LIMIT_S)

    def open_issue(self) -> None:
        """Open the issue that the fix is linked to."""
        issue = self.world.recording.issue
        self.hub.open_issue(issue.number, issue.title, issue.body, issue.author, issue.labels)

    def look_again(self) -> None:
        """Send every delivery once more, and have every pull request looked at: nothing may change."""
        self.say("this world has been played: its deliveries are sent again")
        for delivery in list(self.world.github.state.deliveries):
            self.hub.hooks.redeliver(delivery)
        for pull in list(self.world.github.state.pulls()):
            self.hub.about_pull("edited", pull.user, pull)
        self.world.settle()

    def play_open(self, step: Step) -> None:
        """Open a pull request and wait for what is said at once."""
        recording = self.world.recording
        pull = recording.fix if step.pull == recording.fix.number else recording.culprit
        self.say(f"{pull.author} opens #{pull.number}: {pull.title}")
        self.hub.open_pull(
            pull.number,
            pull.branch,
            pull.author,
            title=pull.title,
            body=pull.body,
            labels=pull.labels,
            association=pull.association,
            created_at=pull.created_at,
        )
        self.wait_for(step.pull, "route")
        self.wait_for(step.pull, "triage")

    def play_builds(self, step: Step) -> None:
        """Let the builds of the pull request's head finish."""
        recording = self.world.recording
        head = self.hub.require_pull(step.pull).head_sha
        builds = recording.builds_of(head)
        red = [build for build in builds if build.state == "failed"]
        self.say(f"CI finishes on #{step.pull}: {len(red)} of {len(builds)} builds are red")
        for build in builds:
            self.finish(build)
        if any(build.required for build in red):
            self.wait_for(step.pull, "ci")

    def finish(self, build: Build) -> None:
        """Publish one build and its status."""
        self.world.buildkite.publish(build)
        state = "failure" if build.state == "failed" else "success"
        words = f"Build #{build.number} {build.state}"
        url = self.world.buildkite.web_url(build)
        self.hub.set_status(build.commit, build.context, state, CI, description=words, url=url)

    def play_comment(self, step: Step) -> None:
        """Let somebody comment; who quotes the bot pastes its whole comment first."""
        pasted = self.pasted(step)
        self.say(f"{step.author} comments on #{step.pull}: {first_line(step.body)}")
        self.hub.comment(step.pull, step.author, f"{pasted}{step.body}")
        if step.body.startswith(f"@{BOT} bench"):
            self.wait_for(step.pull, "perf")

    def pasted(self, step: Step) -> str:
        """Return the bot's comment that a step quotes, without what a copied page does not hold."""
        if step.pastes is None:
            return ""
        self.wait_for(step.pull, step.pastes)
        body = next(body for marker, body in self.markers(step.pull) if marker == step.pastes)
        return "\n".join(line for line in body.splitlines() if not line.startswith("<!--")) + "\n\n"

    def markers(self, number: int) -> Iterator[tuple[str | None, str]]:
        """Yield marker and text of the bot's comments."""
        for comment in self.world.github.bot_comments(number):
            yield marker_of(comment.body), comment.body

    def wait_for(self, number: int, marker: str) -> None:
        """Wait for the bot's comment of a marker."""
        what = f"the {marker} comment on #{number}"
        there = lambda: any(found == marker for found, _ in self.markers(number))  # noqa: E731
        wait_until(there, self.world.children, COMMENT_LIMIT_S, what)

    def missing(self) -> list[str]:
        """Return which comments did not come out, or never reached their end."""
        recording = self.world.recording
        wanted = {recording.fix.number: WANTED, recording.culprit.number: ("route", "triage", "perf")}
        absent = [
            f"the {marker} comment on #{number}"
            for number, markers in wanted.items()
            for marker in markers
            if marker not in {found for found, _ in self.markers(number)}
        ]
        undecided = [
            f"a decision in the {marker} comment on #{number}"
            for number in wanted
            for marker, body in self.markers(number)
            if marker == "perf" and UNDECIDED.search(body)
        ]
        return [*absent, *undecided, *self.world.dead_jobs()]


def marker_of(body: str) -> str | None:
    """Return which of the bot's comments a text is."""
    found = MARKER.match(body)
    return found[1] if found else None


def first_line(body: str) -> str:
    """Return the first line that says something, cut."""
    line = next((line.strip() for line in body.splitlines() if line.strip()), "")
    return line if len(line) <= 90 else f"{line[:89]}…"
