"""Whatever people and outages do, in any order: one comment a kind, about the head, nobody asked twice."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

MADE: dict[str, Any] = {}


class Thread(RuleBasedStateMachine):
    """One pull request, and a GitHub that loses answers."""

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="prgate-thread-"))
        subprocess.run(["cp", "-r", str(MADE["template"]), str(self.folder / "omni.git")], check=True)
        self.context = MADE["make_world"](self.folder)
        self.world = self.context.__enter__()
        self.commands = 0
        self.pushes = 0
        self.world.open()

    @rule(path=st.sampled_from(["omni/layers/rope.py", "omni/models/image.py", "README.md"]))
    def push(self, path: str) -> None:
        self.pushes += 1
        self.world.hub.commit("gate", {path: f"x = {self.pushes}\n"}, f"Push {self.pushes}", "author-01")

    @rule(
        body=st.sampled_from(
            ["@prgate help", "@prgate bench", "@prgate ask", "LGTM", "@prgate", "@prgate cancel", "hello"]
        ),
        user=st.sampled_from(["author-01", "maintainer-01", "stranger-01"]),
    )
    def say(self, body: str, user: str) -> None:
        self.commands += body.startswith("@prgate")
        self.world.hub.comment(1, user, body)

    @rule(draft=st.booleans())
    def draft(self, draft: bool) -> None:
        self.world.hub.edit_pull(1, "author-01", draft=draft)

    @rule(verb=st.sampled_from(["POST", "PATCH"]), after=st.booleans())
    def lose_an_answer(self, verb: str, after: bool) -> None:
        self.world.github.faults.fail(verb, "comments|check-runs|requested_reviewers", 502, after=after)

    @rule()
    def redeliver(self) -> None:
        """The same events once more, as a new look."""
        self.world.seen = max(0, self.world.seen - 2)
        for delivery in self.world.github.state.deliveries[-2:]:
            delivery.guid += "+"

    @rule()
    def forget(self) -> None:
        """The database loses what it knew of our comments."""
        from sqlalchemy import delete

        from bot.db.models import Comment

        with self.world.sessions() as session:
            session.execute(delete(Comment))
            session.commit()

    @invariant()
    def one_comment_of_each_kind_about_the_head(self) -> None:
        world = self.world
        world.settle()
        world.github.faults.planned.clear()
        pull = world.hub.require_pull(1)
        bodies = [comment.body for comment in world.github.bot_comments(1)]
        markers = [body.split("\n")[0] for body in bodies]
        assert len(markers) == len(set(markers)), markers
        assert len([one for one in markers if "answer" in one]) <= self.commands
        assert pull.head_sha[:12] in world.note("route").rstrip().split("\n")[-1]
        assert len(pull.requested) == len(set(pull.requested))
        assert "author-01" not in pull.requested
        names = [(check.name, check.head_sha) for check in world.github.state.check_runs.values()]
        assert len(names) == len(set(names))

    def teardown(self) -> None:
        if hasattr(self, "context"):
            self.context.__exit__(None, None, None)
            shutil.rmtree(self.folder, ignore_errors=True)


def test_no_order_of_events_and_outages_doubles_anything(
    template: Path, private_key: str, make_world: Any
) -> None:
    MADE.update(template=template, make_world=make_world)
    some = settings(
        max_examples=6,
        stateful_step_count=6,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Thread, settings=some)
