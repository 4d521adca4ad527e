"""Reading what people and machines hand in: a file or standard input, capped, decoded, never a traceback."""

import json
import math
import sys
from pathlib import Path
from typing import Any, Never

RESULT_LIMIT_MB = 32
STDIN = "-"
LONGEST_INT = 100


class InputError(ValueError):
    """Something handed in cannot be used; the text says what, where and what to do."""


def read_text(name: str, limit_mb: float = RESULT_LIMIT_MB) -> str:
    """Return the text of the file `name` (`-`: standard input) without BOM; InputError if it cannot."""
    limit = int(limit_mb * 1024 * 1024)
    try:
        if name == STDIN:
            data = sys.stdin.buffer.read(limit + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(limit + 1)
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror or error})") from error
    if len(data) > limit:
        raise InputError(f"{name}: larger than {limit_mb:g} MB; a result or block file is far smaller")
    return data.decode("utf-8-sig", errors="replace")


def refuse_constant(name: str) -> Never:
    """Refuse NaN and the infinities, which are no JSON and no measurement."""
    raise InputError(f"holds {name}, which is no measurement")


def parse_json(text: str, where: str) -> Any:
    """Return the JSON document in `text`; InputError names `where` and what is wrong."""
    if not text.strip():
        raise InputError(f"{where}: empty")
    try:
        return json.loads(text, parse_constant=refuse_constant, parse_float=finite_float, parse_int=sane_int)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{where}: no valid JSON at {place} ({error.msg}); is it truncated?") from error
    except (RecursionError, ValueError) as error:
        raise InputError(f"{where}: nested too deeply, or a number of too many digits") from error


def finite_float(text: str) -> float:
    """Return the number; InputError where it overflows."""
    value = float(text)
    if not math.isfinite(value):
        raise InputError(f"holds {text[:20]}, which is too large for a number")
    return value


def sane_int(text: str) -> int:
    """Return the whole number; InputError where it has more digits than any count or time."""
    if len(text) > LONGEST_INT:
        raise InputError(f"holds a whole number of {len(text)} digits")
    return int(text)
