"""A wall clock that tests can set for a process and its children: a small library that is loaded before libc.

SQLite reads the same clock; PostgreSQL's server is a process of its own and keeps the true one.
"""

import random
import subprocess
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    """Builds the library in `folder`; `variables` are what a process is started with."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.rng = random.Random(seed)
        self._library = folder / "clock.so"
        self._offset = folder / "clock.offset"
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(SOURCE), "-ldl"], check=True
        )
        self.set(0.0)

    def set(self, seconds: float) -> None:
        """Move the clock to so many seconds from the true time."""
        draft = self._offset.with_suffix(".new")
        draft.write_text(f"{seconds:.0f}")
        draft.replace(self._offset)

    @property
    def variables(self) -> Mapping[str, str]:
        """Return the variables that make a process use the clock."""
        return {"LD_PRELOAD": str(self._library), "FAULTS_CLOCK_FILE": str(self._offset)}
