"""People, CI, outages, lost answers, redeliveries and kills in any order, found by hypothesis.

The stand-in speaks HTTP, the worker is a process that is really killed, store, claims and handlers are the
service's own. Only time is helped along: the leases of a killed worker are aged instead of waited for.
"""

import json
import random
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select, update

from bot import dispatch, events, inbox, jobs
from bot.db.engine import open_engine, open_sessions
from bot.db.migrate import upgrade
from bot.db.models import Decision, Delivery, DeliveryState, Job, JobState, WriterLease
from bot.db.types import now_plus
from bot.demo.github import StandIn
from bot.demo.world import load_keys
from bot.log import configure
from bot.webhook import Reading, understand
from tests.faults.mortal import Mortal, Strike
from tests.faults.repository import FULL_NAME, PEOPLE, branch, build

ATTEMPTS = 50
UNWELL_TURNS = 4
# Requests that a worker makes in nearly every life.
PLACES = (
    ("GET", "/pulls/1$"),
    ("GET", "/files"),
    ("GET", "/issues/1/comments"),
    ("POST", "/issues/1/comments"),
    ("POST", "/reactions"),
    ("POST", "/requested_reviewers"),
    ("POST", "/access_tokens"),
    ("GET", "/contents"),
    ("GET", "/commits/"),
    ("PATCH", "/issues/comments"),
)
SAYINGS = ("@prgate help", "@prgate ask", "@prgate priority high", "LGTM", "@prgate hlep")
READING = Reading(events.parse, dispatch.jobs_for, lambda: ("prgate[bot]",))


@dataclass
class Template:
    """What every run starts from: a repository and an empty store, made once."""

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="prgate-machine-")))

    def __post_init__(self) -> None:
        build(self.folder / "engine.git")
        engine = open_engine(f"sqlite:///{self.folder / 'prgate.db'}")
        upgrade(engine)
        engine.dispose()
        load_keys(self.folder / "keys.json")

    def copy(self) -> Path:
        """Return a fresh copy."""
        made = Path(tempfile.mkdtemp(prefix="prgate-run-"))
        subprocess.run(["cp", "-r", f"{self.folder}/.", str(made)], check=True)
        return made


@dataclass
class Counted:
    """How much was tried over all runs."""

    runs: int = 0
    kills: int = 0


TEMPLATE: list[Template] = []
COUNTED = Counted()


class World:
    """One pull request in a service that a test drives by hand."""

    def __init__(self) -> None:
        if not TEMPLATE:
            TEMPLATE.append(Template())
        self.folder = TEMPLATE[0].copy()
        self.github = StandIn(self.folder / "engine.git", FULL_NAME, people=PEOPLE).start()
        self.github.state.required = ("buildkite/engine",)
        url = f"sqlite:///{self.folder / 'prgate.db'}"
        self.engine = open_engine(url)
        self.sessions = open_sessions(self.engine)
        self.worker = Mortal(
            {
                "database_url": url,
                "data_dir": str(self.folder),
                "github_api_url": f"{self.github.url}/api/v3",
                "github_app_id": "99",
                "github_private_key": json.loads((self.folder / "keys.json").read_text())["app"],
                "github_write_gap_s": 0.0,
                "github_writes_a_minute": 10_000,
                "github_writes_an_hour": 100_000,
                "lease_s": 20.0,
                "heartbeat_s": 5.0,
                "retry_delay_s": 0.0,
                "outage_delay_s": 0.05,
                "attempts": ATTEMPTS,
                "log_level": "CRITICAL",
            }
        )
        self.taken = 0

    @property
    def hub(self) -> Any:
        """The stand-in's verbs."""
        return self.github.hub

    def receive(self, rng: random.Random) -> None:
        """Take the deliveries that were made since, in any order, some of them twice."""
        fresh = self.github.state.deliveries[self.taken :]
        self.taken += len(fresh)
        batch = [*fresh, *(one for one in fresh if rng.random() < 0.2)]
        rng.shuffle(batch)
        self.store(batch)

    def store(self, deliveries: list[Any]) -> None:
        """Store deliveries as the web process does."""
        batch = [understand(READING, one.guid, one.event, one.body) for one in deliveries]
        wanted = [one for one in batch if one.jobs]
        if wanted:
            with self.sessions.begin() as session:
                inbox.save_repositories(session, wanted)
                inbox.store(session, wanted)

    def work(self) -> None:
        """Let a worker do what is due; what one leaves behind that is killed is taken back."""
        if not self.worker.work():
            self.age()
            jobs.expire(self.sessions, ATTEMPTS)

    def age(self) -> None:
        """Let the leases run out, as time would."""
        with self.sessions.begin() as session:
            session.execute(update(Job).where(Job.state == JobState.RUNNING).values(lease_until=now_plus(-1)))
            session.execute(update(WriterLease).values(until=now_plus(-1)))

    def settle(self) -> None:
        """Let everything come to its end; what was planned may still strike at first, then all is well."""
        for turn in range(40):
            if turn == UNWELL_TURNS:
                self.github.faults.planned.clear()
            self.receive(random.Random(0))
            self.bring_forward()
            if not self.open_jobs() and self.taken == len(self.github.state.deliveries):
                return
            self.work()
        raise AssertionError(f"no end of the work: {self.open_jobs()}")

    def bring_forward(self) -> None:
        """Let what waits for a time of its own be due, as time would."""
        with self.sessions.begin() as session:
            waits = (Job.state == JobState.QUEUED) & Job.error.is_not(None)
            session.execute(update(Job).where(waits).values(not_before=None))

    def open_jobs(self) -> list[str]:
        """Return the jobs that are not over, but for looks that were asked for at a later time."""
        with self.sessions() as session:
            asked = select(Job).where((Job.state == JobState.RUNNING) | jobs.due())
            return [f"{job.verb} {job.state.value} {job.error}" for job in session.scalars(asked)]

    def close(self) -> None:
        """End it."""
        self.github.stop()
        self.engine.dispose()
        shutil.rmtree(self.folder, ignore_errors=True)


class Life(RuleBasedStateMachine):
    """A pull request's life. What must hold is looked at in the end, when everything came to rest."""

    @initialize(seed=st.integers(0, 2**16))
    def open(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = World()
        self.commands = self.asks = self.pushes = 0
        self.was_closed = False
        self.world.hub.open_pull(1, branch(1), "author-1", title="[Feature] Part 1")

    @property
    def pull(self) -> Any:
        return self.world.hub.require_pull(1)

    @rule()
    def push(self) -> None:
        self.pushes += 1
        files = {"engine/part_1/code.py": f"SIZE = {self.pushes}\n"}
        self.world.hub.commit(branch(1), files, f"Push {self.pushes}", "author-1")

    @rule(
        body=st.sampled_from(SAYINGS),
        user=st.sampled_from(["maintainer-01", "author-1", "stranger-01"]),
    )
    def say(self, body: str, user: str) -> None:
        self.commands += body.startswith("@prgate")
        self.asks += body == "@prgate ask" and user != "stranger-01"
        self.world.hub.comment(1, user, body)

    @rule(name=st.sampled_from(["perf", "bug"]))
    def label(self, name: str) -> None:
        self.world.hub.label(1, "author-1", [name])

    @rule(state=st.sampled_from(["failure", "success"]))
    def status(self, state: str) -> None:
        self.world.hub.set_status(self.pull.head_sha, "buildkite/engine", state, "buildkite[bot]")

    @rule()
    def close_or_reopen(self) -> None:
        self.was_closed = True
        if self.pull.state == "open":
            self.world.hub.close(1, "author-1")
        else:
            self.pull.state = "open"
            self.world.hub.about_pull("reopened", "author-1", self.pull)

    @rule(place=st.sampled_from(PLACES), times=st.integers(1, 4))
    def outage(self, place: tuple[str, str], times: int) -> None:
        self.world.github.faults.fail(*place, 503, times=times)

    @rule(place=st.sampled_from(PLACES))
    def lose_an_answer(self, place: tuple[str, str]) -> None:
        self.world.github.faults.fail(*place, 502, after=True)

    @rule(place=st.sampled_from(PLACES), after=st.booleans())
    def plan_a_kill(self, place: tuple[str, str], after: bool) -> None:
        strike = Strike(*place, 502, after=after, victim=self.world.worker)
        self.world.github.faults.planned.append(strike)

    @rule(place=st.sampled_from(PLACES), after=st.booleans())
    def work_until_killed(self, place: tuple[str, str], after: bool) -> None:
        self.plan_a_kill(place, after)
        self.work()

    @precondition(lambda self: self.world.taken)
    @rule(place=st.integers(0, 1_000))
    def redeliver(self, place: int) -> None:
        self.world.store([self.world.github.state.deliveries[place % self.world.taken]])

    @rule()
    def receive(self) -> None:
        self.world.receive(self.rng)

    @rule()
    def work(self) -> None:
        self.world.receive(self.rng)
        self.world.work()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.world.settle()
            self.look()
        finally:
            COUNTED.runs += 1
            COUNTED.kills += self.world.worker.deaths
            self.world.close()

    def look(self) -> None:
        """Check that each effect is there once, that nothing was forgotten, and what the texts are about."""
        world = self.world
        counts = Counter(world.github.state.made)
        assert [what for what, count in counts.items() if count > 1 or "without a change" in what] == []
        first_lines = [one.body.split("\n")[0] for one in world.github.bot_comments(1)]
        assert len(first_lines) == len(set(first_lines))
        assert sum("answer:" in line for line in first_lines) == self.commands
        route = [one.body for one in world.github.bot_comments(1) if "prgate:route" in one.body]
        if self.pull.state == "open":
            assert self.pull.head_sha[:12] in route[0].rstrip().splitlines()[-1]
        with world.sessions() as session:
            states = set(session.scalars(select(Delivery.state)))
            given_up = list(session.scalars(select(Job.error).where(Job.state == JobState.DEAD)))
            wishes = select(Decision.value).where(Decision.kind == "ask").order_by(Decision.id.desc())
            wished = session.scalars(wishes.limit(1)).first()
        assert (states, given_up) == ({DeliveryState.DONE}, [])
        if not self.was_closed:
            assert int((wished or {}).get("count", 0)) == self.asks


def runs(count: int, steps: int = 10) -> settings:
    """Return hypothesis's settings for so many runs, always the same ones."""
    return settings(
        max_examples=count,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )


def play_runs(count: int) -> dict[str, int]:
    """Play so many runs and return what was tried; the first one in which something does not hold raises."""
    configure("CRITICAL")
    run_state_machine_as_test(Life, settings=runs(count))
    return {"runs": COUNTED.runs, "kills": COUNTED.kills}
