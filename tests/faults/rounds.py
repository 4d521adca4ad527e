"""A replay under one kind of disturbance, and whether everything held."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tests.faults import oracle
from tests.faults.clock import Clock
from tests.faults.kills import Kill, Reaper
from tests.faults.script import Step, steps
from tests.faults.world import FaultWorld, running
from tests.postgres import Postgres

SETTLE_LIMIT_S = 420.0


@dataclass(frozen=True)
class Plan:
    """One round: how many kills over how many pull requests, what else is disturbed, and the seed."""

    name: str
    seed: int
    kills: int = 0
    pulls: int = 8
    targets: Sequence[str] = ()
    disturb: str = "nothing"


@dataclass(frozen=True)
class Result:
    """What came of a round; the last four must be empty."""

    plan: Plan
    deliveries: int
    writes: int
    seconds: float
    kills: tuple[Kill, ...]
    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    different: tuple[str, ...]
    outcome: oracle.Outcome = field(repr=False)

    @property
    def faults(self) -> tuple[str, ...]:
        """Return everything that should not be."""
        return (*self.lost, *self.doubled, *self.different)


def duplicates(world: FaultWorld, _: random.Random) -> None:
    """Let GitHub send every delivery twice, and in any order, some later."""
    world.github.faults.duplicate_deliveries = True
    world.github.faults.shuffle_deliveries = True


def lost_answers(world: FaultWorld, rng: random.Random) -> None:
    """Let GitHub do a third of what it is asked and answer 502 all the same."""
    for path in ("/comments", "/check-runs", "/requested_reviewers", "/labels"):
        for verb in ("POST", "PATCH"):
            world.github.faults.fail(verb, path, 502, times=rng.randint(2, 6), after=True)


def outage(world: FaultWorld, rng: random.Random) -> None:
    """Let GitHub's API be down for a while, from now on."""
    world.github.faults.be_down(rng.uniform(20, 40))


def nothing(world: FaultWorld, rng: random.Random) -> None:
    """Disturb nothing."""


DISTURBANCES: Mapping[str, Callable[[FaultWorld, random.Random], None]] = {
    "nothing": nothing,
    "duplicates": duplicates,
    "lost answers": lost_answers,
    "outage": outage,
}


def play(plan: Plan, folder: Path, postgres: Postgres, wanted: oracle.Outcome | None = None) -> Result:
    """Play a round in a service of its own; `wanted` is what an undisturbed one came to."""
    rng = random.Random(plan.seed)
    started = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    clock = Clock(folder, plan.seed) if "clock" in plan.targets else None
    with running(folder, postgres, clock) as world:
        DISTURBANCES[plan.disturb](world, rng)
        reaper = Reaper(world, rng)
        broke = strike_through(plan, reaper)
        found = oracle.outcome(world)
        return Result(
            plan=plan,
            deliveries=len(world.github.state.deliveries),
            writes=len(world.github.state.writes()),
            seconds=time.monotonic() - started,
            kills=tuple(reaper.kills),
            lost=(*broke, *oracle.undone(world)),
            doubled=tuple(oracle.doubled(world)),
            different=tuple(oracle.differences(found, wanted)) if wanted else (),
            outcome=found,
        )


def strike_through(plan: Plan, reaper: Reaper) -> tuple[str, ...]:
    """Play the script with the plan's strikes, to its end; return what took too long, in words."""
    world, rng = reaper.world, reaper.rng
    try:
        for part in parts(steps(plan.pulls), plan.kills + 1):
            for step in part:
                step.does(world.github.hub)
            if len(reaper.kills) < plan.kills:
                time.sleep(rng.uniform(0.0, 1.5))
                reaper.strike(rng.choice(plan.targets) if plan.targets else None)
        world.settle(SETTLE_LIMIT_S)
    except AssertionError as error:
        return (f"{error} (logs: {world.folder})",)
    return ()


def parts(everything: Sequence[Step], count: int) -> list[Sequence[Step]]:
    """Cut a list into `count` pieces of about one length."""
    cuts = [len(everything) * place // count for place in range(count + 1)]
    return [everything[start:end] for start, end in pairwise(cuts)]
