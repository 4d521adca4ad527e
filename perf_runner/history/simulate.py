"""Simulated nights for the alarms: `python -m perf_runner.history.simulate` prints the table."""

import sys
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from perf_runner.history.changes import alarms
from perf_runner.history.series import Series

NIGHTS, SHIFT_AT, WITHIN = 90, 45, (3, 5, 10)
FIRST_NIGHT = date(2026, 1, 1)


@dataclass(frozen=True)
class Host:
    """How noisy nights are: their sd, and the share that is 10 to 30 % slower by itself."""

    name: str
    sd: float
    outliers: float


HOSTS = (Host("quiet", 0.01, 0.02), Host("shared host", 0.035, 0.05))


def simulated(host: Host, shift: float, chance: np.random.Generator) -> Series:
    """Return a series of nights that gets slower by `shift` (a fraction) halfway."""
    logs = chance.normal(0.0, host.sd, NIGHTS)
    logs += (chance.random(NIGHTS) < host.outliers) * np.log1p(chance.uniform(0.10, 0.30, NIGHTS))
    logs[SHIFT_AT:] += np.log1p(shift)
    nights = tuple(FIRST_NIGHT + timedelta(days=n) for n in range(NIGHTS))
    return Series("latency_ms", nights, tuple(float(value) for value in 1000.0 * np.exp(logs)))


def false_alarms(host: Host, trials: int, seed: int = 0) -> float:
    """Return the false alarms in 100 nights."""
    chance = np.random.default_rng(seed)
    raised = sum(alarm.worse for _ in range(trials) for alarm in alarms(simulated(host, 0.0, chance)))
    return 100.0 * raised / (trials * NIGHTS)


def found_within(host: Host, shift: float, trials: int, seed: int = 0) -> dict[int, float]:
    """Return the share of shifts (per cent) that are alarmed within 3, 5 and 10 nights."""
    chance = np.random.default_rng(seed)
    counts = dict.fromkeys(WITHIN, 0)
    for _ in range(trials):
        series = simulated(host, shift, chance)
        days = [(alarm.night - series.nights[SHIFT_AT]).days for alarm in alarms(series) if alarm.worse]
        first = min((day for day in days if day >= 0), default=NIGHTS)
        for limit in WITHIN:
            counts[limit] += first < limit
    return {limit: 100.0 * count / trials for limit, count in counts.items()}


def table(trials: int) -> str:
    """Return the table of deploy/docs/math.md as Markdown."""
    lines = [
        "| nights | false alarms in 100 | +5 % within 3 / 5 / 10 | +10 % within 3 / 5 / 10 |",
        "|---|---|---|---|",
    ]
    for host in HOSTS:
        shares = [
            " / ".join(f"{share:.0f} %" for share in found_within(host, shift, trials).values())
            for shift in (0.05, 0.10)
        ]
        lines.append(f"| {host.name} | {false_alarms(host, trials):.2f} | {shares[0]} | {shares[1]} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
