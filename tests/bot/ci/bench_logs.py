"""How fast is a long log read, beside grep? Run: `python -m tests.bot.ci.bench_logs [MEGABYTES]`."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bot.ci.test_long_logs import MEASURE, write_noise
from tests.bot.ci.world import ERROR, TEST, pytest_log

GREP = "LC_ALL=C grep -cE '(FAILED|ERROR) [^ ]+::[^ ]+' {path} | cat"
READ = "import sys\nfrom bot.ci.logs import excerpt\nexcerpt(open(sys.argv[1], 'rb'))"
NOTHING = "import sys\nfrom bot.ci.logs import excerpt"


def best_of(command: list[str], runs: int = 3) -> float:
    """Return the shortest of some runs of a command, in seconds."""
    took = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        took.append(time.perf_counter() - started)
    return min(took)


def main() -> None:
    """Print one line for each way of reading."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.log"
        write_noise(path, megabytes, pytest_log((TEST, ERROR)))
        size = path.stat().st_size / 1e6
        grep = best_of(["sh", "-c", GREP.format(path=path)])
        start = best_of([sys.executable, "-c", NOTHING])
        ours = best_of([sys.executable, "-c", READ, str(path)]) - start
        full = subprocess.run(
            [sys.executable, "-c", MEASURE, str(path)], check=True, capture_output=True, text=True
        )
        print(f"{size:.0f} MB log")
        print(f"grep     {grep:6.2f} s  {size / grep:7.0f} MB/s")
        print(f"excerpt  {ours:6.2f} s  {size / ours:7.0f} MB/s  {100 * grep / ours:.0f} % of grep's speed")
        print(f"peak memory of excerpt and parsing: {full.stdout.split()[1]} MB")


if __name__ == "__main__":
    main()
