"""A reading as bytes and back: what a log said is kept, so that it need not be read again."""

import json
import zlib
from dataclasses import asdict
from typing import Any

from bot.ci.failures import Failure, InfraMark, Reading

# Raised when the parsers change what they find: older readings then count as not read.
VERSION = 1
MOST_PASSED = 20_000
SIZE_LIMIT = 64 * 1024**2


def pack(reading: Reading) -> bytes:
    """Return a reading as compressed JSON; beyond MOST_PASSED names of passed tests are left out."""
    value = {
        "version": VERSION,
        "failures": [asdict(one) for one in reading.failures],
        "passed": sorted(reading.passed)[:MOST_PASSED],
        "ran": reading.ran,
        "complete": reading.complete,
        "infra": [asdict(one) for one in reading.infra],
        "started": reading.started,
    }
    return zlib.compress(json.dumps(value).encode("utf-8", "replace"))


def unpack(packed: bytes) -> Reading | None:
    """Return the reading; None for another version's, and for bytes that are none."""
    try:
        value = json.loads(zlib.decompressobj().decompress(packed, SIZE_LIMIT))
        return build(value) if value["version"] == VERSION else None
    except (zlib.error, ValueError, KeyError, TypeError):
        return None


def build(value: dict[str, Any]) -> Reading:
    """Return the reading of its JSON form."""
    failures = tuple(Failure(**{**one, "paths": tuple(one["paths"])}) for one in value["failures"])
    passed = frozenset(value["passed"])
    return Reading(
        failures=failures,
        passed=passed,
        ran=value["ran"],
        complete=value["complete"],
        infra=tuple(InfraMark(**one) for one in value["infra"]),
        started=value["started"],
        seen=passed | {one.key for one in failures if one.key},
    )
