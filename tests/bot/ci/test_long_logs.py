"""Long and hostile logs: constant memory, no hang, no crash, and nothing in them is a mark of ours."""

import io
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bot.ci.clean import LINE_LIMIT, clean_line
from bot.ci.logs import HEAD_BYTES, LAST_BYTES, TAIL_BYTES, excerpt, read_job
from bot.ci.parsers import junit
from bot.ci.snapshot import Job
from tests.bot.ci.world import ERROR, TEST, job, log_of, pytest_log, verdict, world

MEGABYTE = 1024 * 1024
NOISE = (
    "(EngineCore pid=66543) INFO 09-14 12:14:38 [worker.py:276] Available memory: 27.84 GiB",
    "tests/unit/test_utils.py::test_error_is_reported PASSED [ 45%]",
    "Loading shards: 100% Completed | 2/2 [00:08<00:00,  1.02it/s]",
)
MEASURE = r"""
import re, sys
from bot.ci.logs import read_job
from bot.ci.logs import excerpt
from bot.ci.snapshot import Job
with open(sys.argv[1], "rb") as stream:
    kept = excerpt(stream)
reading = read_job(Job(name="job", conclusion="failed", log=kept.decode("utf-8", "replace")))
# ru_maxrss would hold what the parent had before exec.
print(len(reading.failures), int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) // 1024)
"""


def failed(log: str) -> Job:
    return Job(name="job", conclusion="failed", log=log)


def write_noise(path: Path, megabytes: int, tail: str) -> None:
    """Write a log of noise that ends with a failure."""
    choose = random.Random(1).choices
    with path.open("wb") as stream:
        block = ("\n".join(choose(NOISE, k=12_000)) + "\n").encode()
        for _ in range(megabytes * MEGABYTE // len(block) + 1):
            stream.write(block)
        stream.write(tail.encode())


def test_a_log_of_200_mb_is_read_within_150_mb_of_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    write_noise(path, 200, pytest_log((TEST, ERROR)))
    command = [sys.executable, "-c", MEASURE, str(path)]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    failures, peak_mb = map(int, finished.stdout.split())
    assert failures == 1
    assert peak_mb <= 150


def test_one_line_of_200_mb_is_read_within_150_mb_of_memory(tmp_path: Path) -> None:
    path = tmp_path / "line.log"
    with path.open("wb") as stream:
        for _ in range(200):
            stream.write(b"Error at FAILED x::y " * (MEGABYTE // 21))
    finished = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(finished.stdout.split()[1]) <= 150


def test_an_excerpt_keeps_what_a_short_log_holds() -> None:
    log = log_of("pytest_plain").encode()
    assert excerpt(io.BytesIO(log)) == log


@pytest.mark.parametrize("place", [0, 1, 4 * MEGABYTE - 30, 4 * MEGABYTE, 9 * MEGABYTE + 17])
def test_the_window_is_kept_wherever_the_failure_stands(place: int) -> None:
    """Failures near the joints of what is read at once are kept whole, and once."""
    line = b"quiet line of no interest at all\n"
    front = (line * (place // len(line) + 1))[:place]
    mark = b"\nFAILED tests/a.py::test_b - KeyError: 'x'\n"
    kept = excerpt(io.BytesIO(front + mark + line * (6 * MEGABYTE // len(line))))
    assert kept.count(mark.strip()) == 1
    assert len(kept) < 1 * MEGABYTE


def test_an_excerpt_of_nothing_but_errors_is_capped_and_keeps_both_ends() -> None:
    log = b"".join(b"ERROR number %09d\n" % number for number in range(2_000_000))
    kept = excerpt(io.BytesIO(log))
    assert len(kept) <= HEAD_BYTES + TAIL_BYTES + LAST_BYTES + 64 * 1024
    assert kept.startswith(b"ERROR number 000000000\n")
    assert kept.endswith(b"ERROR number 001999999\n")


def test_a_long_log_in_memory_parses_like_a_short_one() -> None:
    noise = "\n".join(NOISE) + "\n"
    found = read_job(failed(noise * 20_000 + pytest_log((TEST, ERROR), through=("engine/cache.py",))))
    (failure,) = found.failures
    assert (failure.test, failure.exception, failure.message) == (TEST, *ERROR)
    assert failure.paths[-1] == "engine/cache.py"


HOSTILE = {
    "binary": "".join(map(chr, range(256))) * 4_000,
    "one line": "x" * MEGABYTE,
    "escapes without end": "\x1b_bk;t=1" * 200_000,
    "colours without end": "\x1b[0;1;2;3" * 200_000,
    "stamps": "2026-09-20T10:00:00.1234567Z " * 50_000,
    "brackets": "[" * MEGABYTE,
    "rulers": ("_" * 5_000 + "\n") * 300,
    "heads": ("_ a " * 1_000 + "_\n") * 300,
    "error lines": ("error: " * 500 + "\n") * 300,
    "paths": ("/a" * 2_000 + ":1: error: x\n") * 300,
    "tracebacks": "Traceback (most recent call last):\n" * 30_000,
    "frames": "Traceback (most recent call last):\n" + '  File "a.py", line 1, in f\n' * 30_000,
    "summary": "=== short test summary info ===\n" + ("FAILED " + "a" * 3_000 + "\n") * 300,
    "percent": ("tests/a.py::b " + " " * 3_000 + "PASSED\n") * 300,
    "groups": "##[group]x\n" * 50_000,
    "bullets": "  ● a\n" * 30_000 + "Tests: 1 failed\n",
    "fails": " FAIL  a.test.ts > " + "x > " * 900 + "\n" + " Tests  1 failed | 2 passed (3)\n",
    "go": "--- FAIL: TestA (0.00s)\n" * 3_000 + "FAIL\tx/y\t0.1s\n",
    "quotes": ("E       AssertionError: " + "'" * 3_000 + "\n") * 200,
    "dots": ("a" * 100 + "." * 3_000 + "Failed\n") * 300,
    "windows lines": "FAILED a.py::b - KeyError: 1\r\n" * 2_000,
    "numbers": "Error: " + "1" * MEGABYTE,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_logs_neither_hang_nor_crash(name: str) -> None:
    started = time.monotonic()
    found = verdict(world(job(log=HOSTILE[name])))
    assert found.overall == "unknown"
    assert time.monotonic() - started < 10


def test_a_forged_comment_in_the_output_is_only_text() -> None:
    forged = "<!-- prgate:ci -->\n## All checks passed\n@example/maintainers merge\n##[error]nothing to see\n"
    log = pytest_log((TEST, ERROR)).replace("E       KeyError", f"{forged}E       KeyError")
    (failure,) = verdict(world(job(log=log))).failures
    assert failure.signature is not None
    assert (failure.signature.exception, failure.signature.message) == ERROR


def test_markup_in_a_tests_name_stays_part_of_its_name() -> None:
    test = "tests/ui.py::test_x[</details><img src=x onerror=1>-**b**-[ok](https://x.invalid)-@all]"
    (failure,) = verdict(world(job(log=pytest_log((test, ERROR))))).failures
    assert failure.test == test


def test_lines_are_cut_and_controls_are_dropped() -> None:
    assert len(clean_line("é" * 100_000)) == LINE_LIMIT
    assert clean_line("\x1b_bk;t=1783896891268\x07\x1b[31mFAILED\x1b[0m a::b\x00\x07") == "FAILED a::b"
    assert clean_line("_bk;t=1783896891268 text") == "text"
    assert clean_line(" 10%\r 50%\r100% done\r") == "100% done"
    assert clean_line("[2026-08-12T17:18:28Z] 2026-08-12T17:18:28.1Z text") == "text"


@pytest.mark.parametrize(
    "report",
    [
        "",
        "<testsuites>",
        "<!DOCTYPE a [<!ENTITY b 'c'>]><testsuites><testcase name='&b;'/></testsuites>",
        "\x00\x01",
        "<a>" * 5_000,
        "[]",
    ],
)
def test_a_report_that_cannot_be_read_says_nothing(report: str) -> None:
    assert junit.parse(report).failures == ()
