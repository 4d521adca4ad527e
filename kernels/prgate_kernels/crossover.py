"""From how many tokens on the fused path is taken, overridable by the environment and calibrated by device.

Resolve once a forward, not once a block: reading the environment costs host time.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

OWN_VARIABLE = "PRGATE_FUSED_QK_NORM_ROPE_MIN_TOKENS"
UPSTREAM_VARIABLE = "VLLM_OMNI_FUSED_QK_NORM_ROPE_MIN_TOKENS"
CALIBRATION_VARIABLE = "PRGATE_CALIBRATION_FILE"
DEFAULT_MIN_TOKENS = 2048
QK_NORM_ROPE = "qk_norm_rope"


@dataclass(frozen=True)
class Calibration:
    """The crossover of one operator on one device with one software stack. 0: the fused path never lost."""

    operator: str
    min_tokens: int
    device: str
    driver: str
    torch: str
    triton: str


def calibration_path() -> Path:
    """Return the file of calibrations of this user."""
    named = os.environ.get(CALIBRATION_VARIABLE, "").strip()
    cache = os.environ.get("XDG_CACHE_HOME", "").strip() or "~/.cache"
    return Path(named or f"{cache}/prgate/calibration.json").expanduser()


def parse_min_tokens(text: str, variable: str) -> int | None:
    """Return a threshold in tokens, None for a blank text; ValueError unless it is an integer >= 0."""
    stripped = text.strip()
    if not stripped:
        return None
    if not (stripped.isascii() and stripped.isdigit() and len(stripped) < 19):
        raise ValueError(f"{variable} must be a non-negative integer, it is {text[:40]!r}")
    return int(stripped)


def resolve_min_tokens(
    default: int = DEFAULT_MIN_TOKENS, environment: Mapping[str, str] | None = None
) -> int:
    """Return the threshold: our variable, else upstream's, else `default` (the calibrated one, or 2,048)."""
    values = os.environ if environment is None else environment
    for variable in (OWN_VARIABLE, UPSTREAM_VARIABLE):
        if variable in values:
            chosen = parse_min_tokens(values[variable], variable)
            if chosen is not None:
                return chosen
    return default


def fuses(batch: int, sequence: int, min_tokens: int) -> bool:
    """Say whether `batch * sequence` tokens reach the threshold."""
    return batch * sequence >= min_tokens


def crossover_of(rows: Mapping[int, tuple[float, float]], slack: float = 0.0) -> int:
    """Return from which token count on fused never loses: `rows` maps tokens -> (eager, fused) time.

    `slack` is the fraction by which a fused time may be above without counting as a loss (the noise). 0 when
    it never lost; twice the largest count when it lost there.
    """
    counts = sorted(rows)
    lost = [tokens for tokens in counts if rows[tokens][1] > rows[tokens][0] * (1.0 + slack)]
    if not lost:
        return 0
    above = [tokens for tokens in counts if tokens > lost[-1]]
    return above[0] if above else 2 * lost[-1]


def read_calibrations(path: Path) -> list[Calibration]:
    """Return the stored calibrations; an absent or damaged file has none."""
    try:
        return [Calibration(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []


def store_calibration(entry: Calibration, path: Path) -> None:
    """Write a calibration, in place of an older one of the same operator and device."""
    kept = [
        old for old in read_calibrations(path) if (old.operator, old.device) != (entry.operator, entry.device)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(".new")
    written.write_text(
        json.dumps([asdict(item) for item in [*kept, entry]], indent=1) + "\n", encoding="utf-8"
    )
    written.replace(path)


def calibrated_default(device: str, torch_version: str, triton_version: str, path: Path | None = None) -> int:
    """Return the stored crossover of this device and stack, else 2,048: a new stack must be measured anew."""
    for entry in read_calibrations(path or calibration_path()):
        wanted = (QK_NORM_ROPE, device, torch_version, triton_version)
        if (entry.operator, entry.device, entry.torch, entry.triton) == wanted:
            return entry.min_tokens
    return DEFAULT_MIN_TOKENS
