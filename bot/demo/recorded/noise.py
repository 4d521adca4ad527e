"""A/A blocks of the recorded benchmark: what the wide prior of its cases rests on."""

from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

FILE = Path(__file__).with_name("noise.json")


class AABlock(BaseModel):
    """Two runs of each arm in seconds; both arms are one revision."""

    model_config = ConfigDict(frozen=True)

    base: tuple[float, float]
    head: tuple[float, float]


class NoiseSet(BaseModel):
    """Blocks taken in one go, the machine's load meanwhile, and the prior that they give."""

    model_config = ConfigDict(frozen=True)

    taken: str
    load_1m: float
    how: str
    prior_sd: float
    prior_df: float
    blocks: tuple[AABlock, ...]


class NoiseRecord(BaseModel):
    """All sets of one case, and the command that takes another."""

    model_config = ConfigDict(frozen=True)

    case: str
    machine: str
    command: str
    sets: tuple[NoiseSet, ...]


@lru_cache(maxsize=1)
def load_noise() -> NoiseRecord:
    """Return the recorded A/A blocks."""
    return NoiseRecord.model_validate_json(FILE.read_text(encoding="utf-8"))
