"""Runs one attack behind the sandbox and prints, as JSON, how it ended: started as root or as a user."""

import json
import sys
from pathlib import Path

from perf_runner.sandbox import Launch, Limits, find_sandbox
from perf_runner.sandbox_process import run

MIB = 1024**2
LIMITS = Limits(
    wall_s=5, cpu_s=8, memory_bytes=300 * MIB, processes=60, disk_bytes=32 * MIB, output_bytes=2 * MIB
)


def main(folder: str, parent_pid: str) -> None:
    """Run `attack.py` of `folder`; it learns the parent's process id and nothing else."""
    launch = Launch(
        argv=("python3", "attack.py", parent_pid), source=Path(folder), limits=LIMITS, devices=False
    )
    finished = run(launch, find_sandbox())
    print(
        json.dumps(
            {
                "stdout": finished.stdout.decode(errors="replace")[:4000],
                "stderr": finished.stderr[-1000:],
                "returncode": finished.returncode,
                "stopped_by": finished.stopped_by,
                "wall_s": finished.wall_s,
                "output_bytes": len(finished.stdout),
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
