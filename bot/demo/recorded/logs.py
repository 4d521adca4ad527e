"""Job logs as a CI host sends them: time marks, groups, a pytest session, and the six recorded failures."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).parent
FAILURE_HEAD = re.compile(r"^_{3,} (test_[\w\[\]-]+) _{3,}$", re.MULTILINE)
WAN_FILE = "tests/diffusion/distributed/test_wan_vae_fastpath_install.py"
GREEN_FILES = (
    "tests/diffusion/cache/test_block_cache.py",
    "tests/diffusion/distributed/test_ring_order.py",
    "tests/diffusion/layers/test_fused_qk_norm_rope.py",
    "tests/diffusion/models/boogu/test_boogu_attention.py",
    "tests/diffusion/models/qwen_image/test_qwen_image_attention.py",
    "tests/diffusion/models/qwen_image/test_qwen_image_fused_qk_norm_rope.py",
    "tests/diffusion/offloader/test_layerwise.py",
    "tests/diffusion/sched/test_queue.py",
)


@dataclass(frozen=True)
class Session:
    """One pytest session: what was asked for, and how it ended. `failing` counts into the six failures."""

    sha: str
    queue: str
    command: str
    passed: int
    started_at: datetime
    seconds: float
    failing: tuple[int, ...] = ()
    deselected: int = 0


@lru_cache(maxsize=1)
def failures() -> tuple[tuple[str, str], ...]:
    """Return the six failures of the Wan fast path's tests: section of the report, line of the summary."""
    text = (FOLDER / "wan_failures.txt").read_text(encoding="utf-8")
    heads = list(FAILURE_HEAD.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    sections = [text[head.start() : end] for head, end in zip(heads, ends, strict=True)]
    summary = (FOLDER / "wan_summary.txt").read_text(encoding="utf-8").splitlines()
    return tuple(zip(sections, summary, strict=True))


def raw_log(session: Session) -> str:
    """Return the whole log of a session's job, with its time marks; the same for equal sessions."""
    chance = random.Random(session.sha + session.queue)  # noqa: S311 - dots of progress, no secret
    lines = [*preamble(session), *progress(session, chance), *report(session), *ending(session)]
    return marked(lines, session)


def preamble(session: Session) -> list[str]:
    """Return what the agent prints before the tests."""
    plugins = "plugins: rerunfailures-15.1, anyio-4.9.0, mock-3.14.1, shard-0.1.2"
    return [
        "~~~ Running global environment hook",
        "\x1b[90m$\x1b[0m /etc/buildkite-agent/hooks/environment",
        "~~~ Preparing working directory",
        f"\x1b[90m$\x1b[0m cd /var/lib/buildkite-agent/builds/{session.queue}-7/omni-lite/ci",
        "\x1b[90m$\x1b[0m git clean -ffxdq",
        f"\x1b[90m$\x1b[0m git fetch -v --prune -- origin {session.sha}",
        f"\x1b[90m$\x1b[0m git checkout -f {session.sha}",
        f"HEAD is now at {session.sha[:9]}",
        "~~~ Running commands",
        f"\x1b[90m$\x1b[0m {session.command}",
        f"\x1b[1m{'=' * 29} test session starts {'=' * 30}\x1b[0m",
        "platform linux -- Python 3.12.11, pytest-9.0.1, pluggy-1.6.0",
        "rootdir: /workspace/omni-lite",
        "configfile: pyproject.toml",
        plugins,
        f"collected {session.passed + len(session.failing)} items",
        "",
    ]


def progress(session: Session, chance: random.Random) -> list[str]:
    """Return the dots of a session, its failures in the Wan decoder's file."""
    lines, files = [], [*GREEN_FILES[:2], WAN_FILE, *GREEN_FILES[2:]]
    for number, file in enumerate(files, start=1):
        dots = "." * chance.randint(8, 30)
        if file == WAN_FILE:
            dots = "\x1b[31mF\x1b[0m" * len(session.failing) + "."
        lines.append(f"{file} {dots} [{number * 100 // len(files):3d}%]")
    return [*lines, ""]


def report(session: Session) -> list[str]:
    """Return the failures' sections and the summary; nothing for a green session."""
    if not session.failing:
        return []
    chosen = [failures()[index] for index in session.failing]
    sections = [line for section, _ in chosen for line in section.rstrip("\n").split("\n")]
    colored = [f"\x1b[1m\x1b[31m{line}\x1b[0m" if line.startswith("E  ") else line for line in sections]
    head = f"{'=' * 35} FAILURES {'=' * 35}"
    short = f"\x1b[36m\x1b[1m{'=' * 27} short test summary info {'=' * 28}\x1b[0m"
    summary = [line.replace("FAILED", "\x1b[31mFAILED\x1b[0m", 1) for _, line in chosen]
    return [head, *colored, short, *summary]


def ending(session: Session) -> list[str]:
    """Return pytest's last line and what the agent prints after it."""
    counts = [f"{session.passed} passed"]
    if session.failing:
        counts.insert(0, f"{len(session.failing)} failed")
    if session.deselected:
        counts.append(f"{session.deselected} deselected")
    clock = str(timedelta(seconds=int(session.seconds)))
    last = f" {', '.join(counts)} in {session.seconds:.2f}s ({clock}) ".center(80, "=")
    if not session.failing:
        return [f"\x1b[32m{last}\x1b[0m", "~~~ Running global pre-exit hook"]
    return [
        f"\x1b[31m{last}\x1b[0m",
        "^^^ +++",
        "\x1b[31m🚨 Error: The command exited with status 1\x1b[0m",
        "user command error: exit status 1",
        "~~~ Running global pre-exit hook",
    ]


def marked(lines: Sequence[str], session: Session) -> str:
    """Return the lines, each behind its Buildkite time mark, spread over the session's duration."""
    start = session.started_at.timestamp() * 1000
    step = session.seconds * 1000 / max(len(lines), 1)
    return "".join(f"\x1b_bk;t={int(start + step * n)}\x07{line}\r\n" for n, line in enumerate(lines))
