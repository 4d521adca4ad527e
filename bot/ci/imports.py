"""Can the failing test reach a changed file at all? Read from the import graph of the base checkout.

The graph is static (grimp reads the source, nothing is run), built in a child process with a time limit and a
memory limit and without a cache folder. It supports a verdict and never makes one: what reads files, is
configured or is started by name is not in it. Where it cannot be built there is no graph and no evidence.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS = 60
OUTPUT_LIMIT = 4 * 1024**2


@dataclass(frozen=True, slots=True)
class Reach:
    """Which changed files each failing test's file reaches by imports; a file not in it is not known."""

    by_file: Mapping[str, tuple[str, ...]]

    def of(self, file: str | None) -> tuple[str, ...] | None:
        """Return the changed files that a test's file reaches, or None where that is not known."""
        return self.by_file.get(file) if file else None


def read_reach(checkout: Path, changed: Sequence[str], failing: Sequence[str]) -> Reach | None:
    """Return what the failing files reach in a checkout of the base, or None where there is no graph.

    `changed` and `failing` are paths inside the checkout. Only Python files can be told; with another changed
    file among them the answer would be no answer, so there is none.
    """
    python = [path for path in changed if path.endswith(".py")]
    if not python or len(python) < len(changed):
        return None
    request = json.dumps({"checkout": str(checkout), "changed": python, "failing": list(failing)})
    command = [sys.executable, "-I", str(Path(__file__).with_name("imports_child.py"))]
    try:
        finished = subprocess.run(
            command, input=request, capture_output=True, text=True, timeout=SECONDS, check=False, cwd="/"
        )
        answer = json.loads(finished.stdout[:OUTPUT_LIMIT]) if finished.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    if not isinstance(answer, dict):
        return None
    return Reach({str(file): tuple(str(path) for path in paths) for file, paths in answer.items()})
