"""What a performance claim rests on, as values, and how numbers and objects of a document are read."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ArmEvidence:
    """What one side of the comparison shows."""

    run_seconds: tuple[float, ...] = ()
    requests: int = 0
    warmup_requests: int | None = None
    warmup_steps: int | None = None
    path_log: Mapping[str, float] = field(default_factory=dict)
    output_hash: str | None = None
    peak_memory_mb: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """Everything the checks look at."""

    after: ArmEvidence
    before: ArmEvidence | None = None
    workload: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    correctness: Mapping[str, Any] = field(default_factory=dict)
    local: Mapping[str, Any] = field(default_factory=dict)
    memory_mb: tuple[float, ...] = ()
    tests: Mapping[str, Any] = field(default_factory=dict)
    claim: Mapping[str, Any] = field(default_factory=dict)


def number(value: Any) -> float | None:
    """Return a finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def numbers(value: Any) -> tuple[float, ...]:
    """Return the finite numbers of a list."""
    return tuple(n for n in map(number, value if isinstance(value, list) else ()) if n is not None)
