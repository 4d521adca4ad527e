"""The nights' alarms beside Apache Otava, night by night, on the simulated series of deploy/docs/math.md.

    python tests/perf_runner/bench_otava.py OTAVA_PYTHON [SERIES]

OTAVA_PYTHON is the interpreter of an environment of Otava's own (`pip install apache-otava`; it pins NumPy).
Both see each night with the nights before it only. A change point that Otava moves by a few nights is one.
"""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WATCH_FROM, SAME = 20, 5
# Name -> (largest p value, least change, medians of three nights, window).
RULES = {
    "otava, p 0.001, 5 %": (0.001, 0.05, False, 50),
    "otava, p 0.001, 3 % on medians of three": (0.001, 0.03, True, 50),
}


def medians(values: list[float]) -> list[float]:
    """Return each night's median of three nights up to it: what was known that night."""
    return [statistics.median(values[max(0, n - 2) : n + 1]) for n in range(len(values))]


def otava_alarms(values: list[float], rule: tuple[float, float, bool, int], last: int) -> list[int]:
    """Return the nights on which Otava first reports a change for the worse. Runs in Otava's environment."""
    from otava.analysis import compute_change_points

    largest_p, least, smooth, window = rule
    known: list[int] = []
    raised = []
    for night in range(WATCH_FROM, last):
        seen = medians(values[: night + 1]) if smooth else values[: night + 1]
        found, _ = compute_change_points(seen, window_len=window, max_pvalue=largest_p, min_magnitude=least)
        for point in found:
            if any(abs(point.index - old) <= SAME for old in known):
                continue
            known.append(point.index)
            if point.stats.mean_2 > point.stats.mean_1:
                raised.append(night)
    return raised


def child() -> None:
    """Answer a request of the parent: series and rules in, alarms and seconds out."""
    asked = json.load(sys.stdin)
    started = time.perf_counter()
    raised = {
        name: [otava_alarms(values, tuple(rule), asked["last"]) for values in asked["series"]]
        for name, rule in asked["rules"].items()
    }
    json.dump({"raised": raised, "seconds": time.perf_counter() - started}, sys.stdout)


def ask(python: str, series: list[list[float]], last: int) -> dict[str, Any]:
    """Return Otava's alarms on series, seen up to night `last`."""
    request = json.dumps({"series": series, "rules": RULES, "last": last})
    command = [python, str(Path(__file__).resolve()), "--child"]
    finished = subprocess.run(command, input=request, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(finished.stdout)
    return answer


def compare(python: str, trials: int) -> str:
    """Return the table as Markdown."""
    import numpy as np

    from perf_runner.history.changes import alarms
    from perf_runner.history.simulate import HOSTS, NIGHTS, SHIFT_AT, WITHIN, simulated

    rows: dict[str, list[str]] = {name: [] for name in ("robust CUSUM", *RULES)}
    seconds = {"ours": 0.0, "otava": 0.0}
    for host in HOSTS:
        for shift in (0.0, 0.05, 0.10):
            chance = np.random.default_rng(7)
            made = [simulated(host, shift, chance) for _ in range(trials)]
            last = NIGHTS if shift == 0 else SHIFT_AT + max(WITHIN)
            started = time.perf_counter()
            place = {night: n for n, night in enumerate(made[0].nights)}
            ours = [[place[alarm.night] for alarm in alarms(one) if alarm.worse] for one in made]
            seconds["ours"] += time.perf_counter() - started
            answer = ask(python, [list(one.values) for one in made], last)
            seconds["otava"] += answer["seconds"]
            for name, raised in {"robust CUSUM": ours, **answer["raised"]}.items():
                rows[name].append(cell(raised, shift, SHIFT_AT, WITHIN, NIGHTS))
    heads = [f"{host.name}: {what}" for host in HOSTS for what in ("false in 100 nights", "+5 %", "+10 %")]
    lines = ["| rule | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows.items()]
    ours_ms, otava_ms = (1000 * spent / (6 * trials) for spent in seconds.values())
    says = (
        f"A series, night by night: {ours_ms:.1f} ms for the CUSUM, {otava_ms / len(RULES):.0f} ms for Otava."
    )
    return "\n".join([*lines, "", says])


def cell(raised: list[list[int]], shift: float, at: int, within: tuple[int, ...], nights: int) -> str:
    """Return a cell: false alarms in 100 watched nights, or the shares found within 3 / 5 / 10 nights."""
    if shift == 0:
        watched = [night for one in raised for night in one if night >= WATCH_FROM]
        return f"{100 * len(watched) / (len(raised) * (nights - WATCH_FROM)):.2f}"
    first = [min((night - at for night in one if night >= at), default=nights) for one in raised]
    shares = [sum(day < limit for day in first) / len(first) for limit in within]
    return " / ".join(f"{share:.0%}" for share in shares)


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:
        child()
    elif len(sys.argv) in (2, 3):
        print(compare(sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else 60))
    else:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
