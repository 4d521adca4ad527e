"""TOML that a stranger may have written: what would cost too much is refused before it is parsed."""

import tomllib
from typing import Any

SIZE_LIMIT = 256_000
# A dotted key costs the square of its parts: 20,000 of them would keep a process busy for 20 s.
DOTS_LIMIT = 300


class TomlError(ValueError):
    """The text is no TOML that is taken; `line` is where, None for the text as a whole."""

    def __init__(self, says: str, line: int | None = None) -> None:
        super().__init__(says)
        self.line = line


def load(text: str) -> dict[str, Any]:
    """Return the table. TomlError where it is too costly, nested too deep or, as TOML's own error, none."""
    if len(text) > SIZE_LIMIT:
        raise TomlError(f"larger than {SIZE_LIMIT:,} characters")
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > DOTS_LIMIT:
            raise TomlError(f"more than {DOTS_LIMIT} dots in one line", number)
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError as error:
        raise TomlError("nested too deeply") from error
    except ValueError as error:
        raise TomlError("not valid TOML: a number of too many digits") from error
