"""The whole suite of faults as one command: `make faults`. Prints a table and writes the report.

Rounds are replays of 200 deliveries under kills and other troubles, each compared with an undisturbed one;
beside them runs hypothesis's state machine, in a process of its own.
"""

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bot.log import configure
from bot.version import VERSION
from tests.faults.kills import RECOVERY_LIMIT_S
from tests.faults.rounds import Plan, Result, play
from tests.faults.world import SETTINGS
from tests.postgres import running

SEED = 20_261_201
KILLS_A_ROUND = 26
OTHERS = ("frozen worker", "full disk", "clock")


def plans(kill_rounds: int) -> Iterator[Plan]:
    """Yield the rounds: first the undisturbed one that all others are compared with."""
    yield Plan("undisturbed", 0)
    rng = random.Random(SEED)
    disturbances = ("nothing", "duplicates", "lost answers")
    for number in range(kill_rounds):
        disturb = disturbances[number % len(disturbances)]
        yield Plan(f"kills {number + 1}", rng.randrange(1 << 30), KILLS_A_ROUND, disturb=disturb)
    yield Plan("other troubles", rng.randrange(1 << 30), kills=9, targets=OTHERS)
    yield Plan("GitHub down for minutes", rng.randrange(1 << 30), disturb="outage")


def run_rounds(kill_rounds: int, tell: Callable[[Sequence[Result]], None]) -> list[Result]:
    """Play all rounds, saying how each went; `tell` hears of all so far after each."""
    results: list[Result] = []
    folder = Path(tempfile.mkdtemp(prefix="prgate-faults-"))
    with running() as postgres:
        for plan in plans(kill_rounds):
            wanted = results[0].outcome if results else None
            results.append(play(plan, folder / plan.name.replace(" ", "-"), postgres, wanted))
            print(line(results[-1]), flush=True)
            for fault in results[-1].faults[:5]:
                print(f"  !! {fault[:500]}", flush=True)
            tell(results)
    if not any(result.faults for result in results):
        shutil.rmtree(folder, ignore_errors=True)  # else the logs tell what happened
    return results


def line(result: Result) -> str:
    """Return a round as one line of the table."""
    worst = max((kill.recovered_s for kill in result.kills), default=0.0)
    return (
        f"{result.plan.name:<24} {result.plan.disturb:<13} {result.deliveries:>5} deliveries "
        f"{len(result.kills):>3} strikes  worst recovery {worst:5.1f} s  {len(result.lost)} lost  "
        f"{len(result.doubled)} doubled  {len(result.different)} different  {result.seconds:6.1f} s"
    )


def start_machine(count: int) -> "subprocess.Popen[str]":
    """Start the state machine's runs."""
    program = (
        "import sys, json\n"
        "if __name__ == '__main__':\n"
        "    from tests.faults.machine import play_runs\n"
        "    print(json.dumps(play_runs(int(sys.argv[1]))))\n"
    )
    return subprocess.Popen([sys.executable, "-c", program, str(count)], stdout=subprocess.PIPE, text=True)


def report(results: Sequence[Result], machine: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return the report as JSON."""
    kills = [kill for result in results for kill in result.kills if kill.target not in OTHERS]
    others = [kill for result in results for kill in result.kills if kill.target in OTHERS]
    times = sorted(kill.recovered_s for kill in kills)
    return {
        "schema": 1,
        "command": "make faults",
        "version": VERSION,
        "machine": f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}",
        "settings": SETTINGS,
        "seconds": round(seconds),
        "kills": {"count": len(kills), "by_target": dict(sorted(Counter(k.target for k in kills).items()))},
        "kills_with_work_in_hand": sum(kill.in_hand > 0 for kill in kills),
        "other_troubles": dict(sorted(Counter(kill.target for kill in others).items())),
        "recovery_s": {
            "limit": RECOVERY_LIMIT_S,
            "median": round(statistics.median(times), 2) if times else None,
            "worst": round(times[-1], 2) if times else None,
        },
        "lost": sum(len(result.lost) for result in results),
        "doubled": sum(len(result.doubled) for result in results),
        "different": sum(len(result.different) for result in results),
        "state_machine": dict(machine),
        "rounds": [as_json(result) for result in results],
    }


def as_json(result: Result) -> dict[str, Any]:
    """Return a round as JSON."""
    return {
        "name": result.plan.name,
        "seed": result.plan.seed,
        "disturbed_by": result.plan.disturb,
        "deliveries": result.deliveries,
        "writes": result.writes,
        "seconds": round(result.seconds, 1),
        "strikes": [[kill.target, kill.in_hand, round(kill.recovered_s, 2)] for kill in result.kills],
        "faults": list(result.faults),
    }


def main() -> int:
    """Run the suite; exit 1 where anything was lost, doubled or different."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kill-rounds", type=int, default=8, help="rounds of 26 kills")
    parser.add_argument("--machine-runs", type=int, default=500, help="runs of the state machine")
    parser.add_argument("--report", type=Path, help="where to write the report")
    asked = parser.parse_args()
    configure("CRITICAL")
    started = time.monotonic()
    machine: dict[str, Any] = {"unfinished": True}

    def tell(results: Sequence[Result]) -> None:
        made = report(results, machine, time.monotonic() - started)
        if asked.report:
            asked.report.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")

    running_machine = start_machine(asked.machine_runs)
    results = run_rounds(asked.kill_rounds, tell)
    said, _ = running_machine.communicate()
    clean = running_machine.returncode == 0
    machine = json.loads(said.strip().splitlines()[-1]) if clean else {"failed": True}
    tell(results)
    made = report(results, machine, time.monotonic() - started)
    print(json.dumps({k: v for k, v in made.items() if k not in ("rounds", "settings")}, indent=2))
    return int(bool(made["lost"] or made["doubled"] or made["different"] or not clean))


if __name__ == "__main__":
    sys.exit(main())
