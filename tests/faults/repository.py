"""The repository that the replays are about: eight branches, each with a module and a push to come."""

import subprocess
from pathlib import Path

FULL_NAME = "acme/engine"
PULLS = 8
STARTED_S = 1_780_000_000  # commits carry fixed dates, so that every replay is about the same shas
CONFIG = """
mode = "comment"

[ci]
required = ["buildkite/engine"]

[perf]
queue = "runner.cpu"
max_blocks = 2
time_budget_s = 60

[[perf.cases]]
name = "short"
target = "command"
command = ["python", "bench.py", "{requests}"]
harness = ["bench.py"]
requests = 2
timeout_s = 20
margin = 0.4
prior_sd = 0.05
"""
BENCH = """
import json, sys, time
from engine import pause
latencies = []
for _ in range(int(sys.argv[1])):
    started = time.perf_counter()
    time.sleep(pause.SECONDS)
    latencies.append(time.perf_counter() - started)
count = len(latencies)
print(json.dumps({"latencies_s": latencies, "requested": count, "completed": count}))
"""
PAGE = """---
title: Module {n}
owners: ["@owner-{n}", "@second-{n}"]
primary_code_paths: ["engine/part_{n}/**"]
---
# Module {n}
"""
PEOPLE = {
    "maintainer-01": "maintain",
    "stranger-01": "none",
    **{f"author-{n}": "read" for n in range(1, PULLS + 1)},
    **{f"{role}-{n}": "write" for n in range(1, PULLS + 1) for role in ("owner", "second")},
}


def base_files() -> dict[str, str]:
    """Return the files of main."""
    files = {
        ".github/prgate.toml": CONFIG,
        ".github/CODEOWNERS": "* @maintainer-01\n",
        "bench.py": BENCH,
        "engine/__init__.py": "",
        "engine/pause.py": "SECONDS = 0.02\n",
    }
    for n in range(1, PULLS + 1):
        files[f"docs/design/module/part_{n}.md"] = PAGE.format(n=n)
        files[f"engine/part_{n}/code.py"] = "SIZE = 1\n"
    return files


def branch(n: int) -> str:
    """Return the branch of the n-th pull request."""
    return f"part-{n}"


def later(n: int) -> str:
    """Return the branch that holds what will be pushed to the n-th pull request's own."""
    return f"later-{n}"


def build(folder: Path) -> Path:
    """Make the bare repository in `folder` and return it."""
    subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", str(folder)], check=True)
    commits = [("main", base_files(), "")]
    for n in range(1, PULLS + 1):
        commits.append((branch(n), {f"engine/part_{n}/code.py": "SIZE = 2\n"}, "main"))
        commits.append((later(n), {f"engine/part_{n}/code.py": "SIZE = 3\n"}, branch(n)))
    stream = b"".join(commit(index, *one) for index, one in enumerate(commits))
    subprocess.run(["git", "-C", str(folder), "fast-import", "--quiet"], input=stream, check=True)
    return folder


def commit(index: int, name: str, files: dict[str, str], parent: str) -> bytes:
    """Return one commit in the form of `git fast-import`."""
    message = f"Commit {index}"
    lines = [
        f"commit refs/heads/{name}",
        f"committer author-1 <a@example.org> {STARTED_S + 60 * index} +0000",
        f"data {len(message)}",
        message,
        *([f"from refs/heads/{parent}"] if parent else []),
    ]
    stream = ("\n".join(lines) + "\n").encode()
    for path, text in files.items():
        body = text.encode()
        stream += f"M 100644 inline {path}\ndata {len(body)}\n".encode() + body + b"\n"
    return stream
