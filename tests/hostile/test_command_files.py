"""Whatever lies in a file that a command is given: an exit code of the four, one line, never a traceback."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from bot import cli
from tests.e2e.conftest import free_ports

# Each way a command is handed a file; `{file}` is the hostile one, `{tree}` and `{request}` are good ones.
READERS: dict[str, tuple[str, ...]] = {
    "check-config": ("{file}", "--json {file}"),
    "owners": (
        "--codeowners {file} a/b.py",
        "--codeowners {owners} --paths {file}",
        "--report --root {file}",
        "--report --root {tree} --codeowners {file}",
        "--report --root {tree} --module-pages {file}",
    ),
    "route": ("{file}", "{request} --config {file}"),
    "priority": ("{file}", "{request} --config {file}", "{request} --now {file}"),
    "verdict": ("{file}", "{tree} --labels {file}"),
    "review": ("{file}",),
    "gate": ("{file}",),
    "compare": ("{file} {file}",),
    "nightly": ("{file}",),
    "import-nights": ("--repo org/name {file}",),
    "changes": ("{file} --metric x", "--json {file} --metric date"),
    "bench accept": ("{file}",),
    "bench noise": ("--repo {file} --rev main --case c",),
    "bench run": ("{file}",),
    "bisect": (
        "--repo {file} --good main --bad main --case c",
        "--repo {git} --good main~1 --bad main --case c --state {file}",
        "--repo {git} --good {file} --bad main --case c",
    ),
    "experiment": (
        "--repo {file} --base main~1 --head main --case c",
        "--repo {git} --base {file} --head main --case c",
        "--repo {git} --base main~1 --head main --case c --cases {file}",
        "--repo {git} --base main~1 --head main --case c --resume {file}",
    ),
}
READ_NO_FILE = {"demo", "preview", "dead", "backfill", "baselines", "serve", "worker", "beat", "doctor"} | {
    "calibrate",
    "bench list",
    "bench serve-dit",
}
# Each of their readings costs a repository: they, and all ways but a command's first, get every fourth kind.
COSTLY = {"bench noise", "bisect", "experiment"}
DEEP = "[" * 20_000
CONTENTS: dict[str, bytes] = {
    "nothing": b"",
    "zero bytes": b"\0" * 5_000,
    "no text": bytes(range(128, 256)) * 20,
    "half a document": b'{"schema": 1, "jobs": [{"name": "x"',
    "null": b"null",
    "a number": b"1e400",
    "a number of many digits": b'{"base": [' + b"9" * 6_000 + b"]}",
    "not a number": b'{"base": [NaN, Infinity], "head": [NaN, 1]}\n' * 3,
    "an object of the wrong kinds": json.dumps(
        {key: [1] for key in ("schema", "jobs", "pr", "root", "diff", "title", "results", "blocks", "perf")}
    ).encode(),
    "nested arrays": DEEP.encode(),
    "nested objects": ('{"a":' * 20_000).encode(),
    "nested tables": b"[perf]\na = " + b"{a=" * 2_000,
    "a long key": b"a" + b".a" * 20_000 + b" = 1\n",
    "a long line": b"x" * 300_000,
    "many lines": b"".join(b"k%d = 1\n" % n for n in range(5_000)),
    "many commas": b"date," + b",x" * 20_000 + b"\n" + b"," * 20_000,
    "a bomb of entities": b'<!DOCTYPE a [<!ENTITY b "aa"><!ENTITY c "&b;&b;&b;">]><testsuite>&c;</testsuite>',
    "a forged message": b"\x1b[2J\x1b]0;x\x07\nprgate: all is good\n",
    "lone surrogates": b'{"root": "\\ud800", "pr": {"title": "\\udfff"}}',
}  # fmt: skip
NAMES = {
    "is not there": "no/such/file",
    "a folder": "{tree}",
    "a name of 5,000 characters": "x" * 5_000,
    "no text": os.fsdecode(b"\xff"),
    "memory of this process": "/proc/self/mem",
}


def leaves(command: Any, before: str = "") -> Iterator[str]:
    """Yield the names of every command that is not hidden."""
    for name, inner in getattr(command, "commands", {}).items():
        if hasattr(inner, "commands"):
            yield from leaves(inner, f"{before}{name} ")
        elif not inner.hidden:
            yield before + name


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files that are as they should be, so that it is the hostile one that is met."""
    folder = tmp_path_factory.mktemp("good")
    tree = folder / "tree"
    tree.mkdir()
    (tree / "a.py").write_text("x = 1\n")
    (tree / "CODEOWNERS").write_text("* @owner-01\n")
    pull = {"number": 1, "author": "author-01", "title": "t", "changed_files": []}
    (folder / "request.json").write_text(json.dumps({"root": str(tree), "pr": pull}))
    git = folder / "repository"
    subprocess.run(["git", "init", "-qb", "main", str(git)], check=True)
    for number in (1, 2):
        (git / "x").write_text(f"{number}")
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(git), "add", "."], check=True)
        subprocess.run(["git", "-C", str(git), *identity, "commit", "-qm", "x"], check=True)
    return {
        "tree": str(tree),
        "owners": str(tree / "CODEOWNERS"),
        "request": str(folder / "request.json"),
        "git": str(git),
    }


def told(command: str, template: str, good: dict[str, str], file: str) -> list[str]:
    """Return a command line with the hostile file in its place."""
    return [*command.split(), *(part.format(file=file, **good) for part in template.split())]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder of its own: what a command writes by a relative name lands there."""
    monkeypatch.chdir(tmp_path)


def judge(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a command and check how it ended; return its code and what it said."""
    started = time.process_time()
    code = cli.run(arguments)
    out, err = capfd.readouterr()
    said = f"{code}: {err[-1500:]}"
    assert "Traceback" not in out + err, said
    assert code in {0, 1, 2, 3}, said
    assert time.process_time() - started < 10, said
    if code == cli.USAGE:
        assert err.splitlines()[-1].startswith("prgate: "), said
        assert err.count("prgate: ") == 1, said
        assert len(err) < 12_000, said
    assert "\x1b" not in out + err, said
    return code, err


def test_every_command_is_in_the_table() -> None:
    assert set(leaves(get_command(cli.build_app()))) == set(READERS) | READ_NO_FILE


@pytest.mark.parametrize("command", READERS)
def test_hostile_contents(
    command: str, good: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for place, (kind, content) in enumerate(CONTENTS.items()):
        for index, template in enumerate(READERS[command]):
            if place % 4 and (index or command in COSTLY):
                continue
            file = tmp_path / f"{kind.replace(' ', '-')}-{index}"
            file.write_bytes(content)
            judge(told(command, template, good, str(file)), capfd)


@pytest.mark.parametrize("command", READERS)
def test_hostile_names(command: str, good: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    for name in NAMES.values():
        for template in READERS[command]:
            judge(told(command, template, good, name.format(**good)), capfd)


@pytest.mark.parametrize("command", ["check-config", "review", "gate", "nightly", "bench accept"])
def test_a_file_without_an_end(command: str, good: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    code, _ = judge(told(command, "{file}", good, "/dev/zero"), capfd)
    assert code in {1, cli.USAGE}


@pytest.mark.parametrize("folder", ["{owners}", "{tree}", "x" * 5_000, "/proc/self/x"])
def test_a_folder_that_no_world_can_live_in(
    folder: str, good: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    where = folder.format(**good)
    code, err = judge(["demo", "--once", "--port", str(free_ports()), "--folder", where], capfd)
    assert code in {cli.USAGE, cli.INFRASTRUCTURE}
    assert err.strip().count("\n") == 0
    assert "Errno" not in err


@pytest.mark.parametrize("pull", ["", "x", "org/name#0", "org/name#" + "9" * 400, "\x1b[2J", "a" * 5_000])
def test_what_names_no_pull_request(pull: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert judge(["preview", pull], capfd)[0] == cli.USAGE
